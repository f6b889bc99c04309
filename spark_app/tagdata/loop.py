"""The loop: checks, the query, waiting, halting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tagdata import checkpoint, trouble
from tagdata.files import StateDir
from tagdata.guard import Guard
from tagdata.kafka_admin import LATEST, NoSuchTopic, Offsets
from tagdata.owner import Owner
from tagdata.resume import Resume, await_containers, await_quiet
from tagdata.settings import Settings, redact
from tagdata.status import Status, prometheus
from tagdata.stream import Stream, as_offsets, cluster, lag, reader_options
from tagdata.telling import refuse, say
from tagdata.trouble import Changed, NotOwner, Permanent, Stopped, Transient
from tagdata.yarn import Yarn, myself

HALTED, STOP, DRAIN = "halted.json", "stop.json", "drain.json"
ENDS = {STOP: "STOPPED", DRAIN: "DRAINED"}
TICK = 0.5  # seconds between two looks at the query
LOOK = 2.0  # seconds between two looks at the markers, and two writings of the status
STUCK = 10.0  # seconds without progress after which the clusters are asked
SHADOW, SHADOW_AGAIN = 5.0, 3600.0  # seconds: a group's offsets expire a week after the last commit (KIP-211)
SAME = 5  # failures of one batch, all parts answering, after which waiting is given up


class Runner:
    """One attempt of the job, from its checks to its end."""

    def __init__(self, spark: SparkSession, settings: Settings, files: StateDir) -> None:
        jvm, gateway = SparkContext._jvm, SparkContext._gateway
        self.spark, self.settings, self.files = spark, settings, files
        self.application, self.attempt = myself()
        self.yarn = Yarn(jvm, gateway)
        self.source, self.sink = (cluster(jvm, settings, side) for side in ("source", "sink"))
        self.status = Status(
            name=settings.name,
            run=settings.run,
            application=self.application,
            attempt=self.attempt,
            tracking_url=spark.sparkContext.uiWebUrl or "",
            shadow_group=settings.shadow_group,
        )
        self.guard = Guard(settings, self.source, self.sink, files, self.note)
        self.owner = Owner(files, self.application, self.attempt, self.yarn.has_ended)
        self.pause: Callable[[float], object] = threading.Event().wait
        self.before: dict[str, Any] | None = None
        self.asked = ""
        self.resume: Resume | None = None
        self.position: Offsets = {}
        self.shadow: tuple[float, Offsets] = (0.0, {})
        self.looked = 0.0
        self.fails: tuple[int | None, int] = (None, 0)

    def run(self) -> int:
        """Run to the end; returns the exit code."""
        wait = self.settings.first_wait
        while True:
            batch = self.status.data["batch"]
            try:
                self._prepare()
                return self._end(self._stream())
            except Exception as error:
                found = self._sorted(error)
            if isinstance(found, Permanent):
                return self._halt(found)
            if isinstance(found, Changed):
                continue
            if self.status.data["batch"] != batch:
                wait = self.settings.first_wait
            if self._wait(found, wait):
                return self._end(self.asked)
            wait = min(2 * wait, self.settings.most_wait)

    def note(self, text: str) -> None:
        """Tell something that the operator should know."""
        say(text)
        self.status.note(text)

    def _prepare(self) -> None:
        """Own the directory, check everything, and let what an attempt before may still write come to rest."""
        first = not self.owner.number
        self.before = self.owner.take() or self.before
        if first:
            self._forget_markers()
        self.guard.check()
        if first and self.before:
            previous = self.before
            await_containers(lambda: self.yarn.containers(previous), self.pause, self.note)
        self.resume = None
        if self.settings.dedup and self.guard.can_read_sink:
            self.resume = Resume(self.files, self.guard, reader_options(self.settings))
            last = checkpoint.last_batch(self.files)
            if self.resume.pending.get("batch", -1) > (-1 if last is None else last):
                await_quiet(self.guard.sink_ends, self.pause)

    def _stream(self) -> str:
        """Run the query until it is asked to end or fails; returns the state that it ended in."""
        once = self.settings.available_now or self.asked == DRAIN
        stream = Stream(self.spark, self.settings, self.guard, self.owner, self.resume)
        query = stream.start(once)
        self.files.delete(HALTED)
        self._become("DRAINING" if self.asked == DRAIN else "RUNNING")
        try:
            self._follow(query, stream, once)
        finally:
            self._interrupt(query)
        self._take(query, stream)
        self._commit_shadow(self.position, at_once=True)
        if self.asked == DRAIN and not once:
            return self._stream()
        return self.asked or "DONE"

    def _follow(self, query: StreamingQuery, stream: Stream, once: bool) -> None:
        """Watch the query; returns when it has ended as it should."""
        lost, moved = 0, time.monotonic()
        while True:
            try:
                if query.awaitTermination(TICK):  # type: ignore[arg-type]
                    return
            except Exception as error:
                if stream.stopping.is_set() and isinstance(stream.failure, Stopped):
                    return
                raise stream.failure or error from None
            if self._take(query, stream) or not query.status["isTriggerActive"]:
                moved = time.monotonic()
                self._become(self._running())
            elif time.monotonic() - moved > STUCK * (lost + 1):
                lost = self._probe(lost)
            if self._look() and not (once and self.asked == DRAIN):
                self._become("STOPPING" if self.asked == STOP else "DRAINING")
                stream.stopping.set()
                if not query.status["isTriggerActive"]:
                    return

    def _running(self) -> str:
        return {STOP: "STOPPING", DRAIN: "DRAINING"}.get(self.asked, "RUNNING")

    def _take(self, query: StreamingQuery, stream: Stream) -> bool:
        """Take over what the query says of itself; True when it came forward since."""
        came = False
        for progress in stream.news(query):
            number, seconds = progress["batchId"], progress["durationMs"].get("triggerExecution", 0) / 1000
            if progress["numInputRows"] and number != self.status.data["batch"]:
                self.status.batch(number, seconds, *stream.counts(progress))
                came = True
            elif not progress["numInputRows"]:
                self.status.idle()
            self.status.lag(lag(progress))
            self.position = as_offsets(progress["sources"][0].get("endOffset"))
        self._commit_shadow(self.position)
        return came

    def _commit_shadow(self, position: Offsets, at_once: bool = False) -> None:
        """Show the position to Kafka's own tools. It is for them alone: nothing here reads it."""
        at, last = self.shadow
        age = time.monotonic() - at if at else SHADOW_AGAIN
        rest = SHADOW_AGAIN if position == last else 0.0 if at_once else SHADOW
        if not self.settings.shadow_group or not position or age < rest:
            return
        self.shadow = (time.monotonic(), position)
        try:
            self.source.commit(self.settings.shadow_group, position)
            self.status.data["shadow_committed"] = time.time()
        except (Permanent, Transient) as error:
            self.note(f"shadow group {self.settings.shadow_group} not committed: {error}")

    def _probe(self, lost: int) -> int:
        """A batch stands still: which side is away? Raises when it cannot end well."""
        try:
            self.source.offsets({name: about.partitions for name, about in self.guard.here.items()}, LATEST)
            self.guard.sink_ends()
        except NoSuchTopic:
            if lost >= 2:
                raise
            return lost + 1
        except Transient as error:
            self._become("WAITING", str(error))
            return 0
        self._become(self._running())
        return 0

    def _interrupt(self, query: StreamingQuery) -> None:
        """End the query, and wait until none of its tasks runs any more."""
        if query.isActive:
            query.stop()
        tracker = self.spark.sparkContext._jsc.sc().statusTracker()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and any(e.numRunningTasks() for e in tracker.getExecutorInfos()):
            self.pause(TICK)

    def _look(self) -> bool:
        """Every other second: write the status, and see whether somebody asks for the end."""
        if time.monotonic() - self.looked >= LOOK:
            self.looked = time.monotonic()
            try:
                self._tell()
                self._read_markers()
            except Transient as error:
                say(str(error))
        return bool(self.asked)

    def _read_markers(self) -> None:
        names = self.files.names()
        for marker in (STOP, DRAIN):
            if marker in names and (self.files.load(marker) or {}).get("application") == self.application:
                self.asked = marker
                return

    def _forget_markers(self) -> None:
        for marker in (STOP, DRAIN):
            if (self.files.load(marker) or {"application": self.application}).get("application") != self.application:
                self.files.delete(marker)

    def _wait(self, found: Transient, seconds: float) -> bool:
        """Say what is away and wait; True when asked to end meanwhile."""
        self._become("WAITING", str(found))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.owner.number and self._look() and self.asked == STOP:
                return True
            self.pause(min(TICK, max(0.0, until - time.monotonic())))
        self.status.data["restarts"] += 1
        return False

    def _sorted(self, error: Exception) -> Permanent | Transient:
        if self.spark.sparkContext._jsc.sc().isStopped():
            raise error
        found = trouble.sort(error)
        if isinstance(found, Permanent) or isinstance(error, Transient):
            return found
        # The query failed: count how often, for one and the same batch, while all parts answer.
        batch = self.status.data["batch"]
        self.fails = (batch, self.fails[1] + 1 if self.fails[0] == batch else 1)
        if self.fails[1] < SAME or not self._all_answer():
            return found
        mend = "read the driver's log; a replay by RUN=<name> begins anew"
        return Permanent("REPEATED_FAILURE", f"the batch after {batch} failed {SAME} times: {found}", mend)

    def _all_answer(self) -> bool:
        try:
            self.guard.check()
        except (Permanent, Transient):
            return False
        return True

    def _become(self, state: str, cause: str = "", mend: str = "") -> None:
        cause = redact(cause, self.settings)
        if self.status.become(state, cause, mend):
            say(f"{state} {cause}".strip())
            if self.owner.number:
                try:
                    self._tell()
                except Transient as error:
                    say(str(error))

    def _tell(self) -> None:
        snapshot = self.status.snapshot()
        self.files.write("status.json", snapshot)
        self.files.write("status.prom", prometheus(snapshot))

    def _end(self, asked: str) -> int:
        self._become(ENDS.get(asked, "DONE"))
        if asked in ENDS:
            self.files.delete(asked)
        return 0

    def _halt(self, found: Permanent) -> int:
        cause = redact(found.cause, self.settings)
        if isinstance(found, NotOwner):
            return refuse(found.code, cause, found.mend, trouble.NOT_OWNER)
        self._become("HALTED", f"{found.code} {cause}", found.mend)
        halted = {"code": found.code, "cause": cause, "mend": found.mend, "batch": self.status.data["batch"]}
        self.files.write(
            HALTED, {**halted, "application": self.application, "attempt": self.attempt, "time": time.time()}
        )
        return refuse(found.code, cause, found.mend, trouble.HALTED)
