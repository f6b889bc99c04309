"""A relay as HDFS and YARN see it, through a JVM of the edge's own Spark: no other client has to be installed."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable
from typing import Any

ACTIVE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")


class Trouble(Exception):
    """What cannot be seen or done, and what to do about it."""

    def __init__(self, cause: str, mend: str) -> None:
        super().__init__(cause)
        self.cause, self.mend = cause, mend


class Hadoop:
    """The site's YARN and file systems, as the user who submits. Keys of the request: spark_home, environment,
    keytab, principal and proxy_user."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.gateway: Any = None
        self.yarn: Any = None

    def __enter__(self) -> Hadoop:
        self.gateway = _gateway(self.request)
        self.jvm = self.gateway.jvm
        if self.request.get("keytab"):
            login = self.jvm.org.apache.hadoop.security.UserGroupInformation.loginUserFromKeytab
            self._ask("Kerberos", lambda: login(self.request["principal"], self.request["keytab"]))
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.shutdown()
        self.gateway.proc.stdin.close()
        self.gateway.proc.wait()

    def views(self, places: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Each relay: what it says of itself, and what YARN says of it."""
        active = self._active() if places else []
        return [self._view(place, active) for place in places]

    def _view(self, place: dict[str, Any], active: list[Any]) -> dict[str, Any]:
        running = [_told(report) for report in active if place["tag"] in report.getApplicationTags()]
        status = self.load(place, "status.json")
        told = (status or {}).get("application", "")
        application = next((one for one in running if one["id"] == told), None)
        if status and application is None and told.startswith("application_"):
            application = self._report(told)
        return {
            **place,
            "status": status,
            "halted": self.load(place, "halted.json"),
            "running": sorted(running, key=lambda one: str(one["id"])),
            "application": application,
        }

    def files(self, place: dict[str, Any]) -> Any:
        """The relay's state directory."""
        from tagdata.files import StateDir

        return StateDir(self.jvm, self.gateway, place["state_path"])

    def load(self, place: dict[str, Any], name: str) -> Any:
        """A JSON file of the state directory, or None."""
        return self._ask(place["state_path"], lambda: self.files(place).load(name))

    def write(self, place: dict[str, Any], name: str, content: dict[str, Any]) -> None:
        """Put a file into the state directory."""
        self._ask(place["state_path"], lambda: self.files(place).write(name, content))

    def delete(self, place: dict[str, Any], name: str) -> None:
        """Take a file out of the state directory, if it is there."""
        self._ask(place["state_path"], lambda: self.files(place).delete(name))

    def _active(self) -> list[Any]:
        records = self.jvm.org.apache.hadoop.yarn.api.records
        states = self.jvm.java.util.EnumSet.noneOf(
            self.jvm.java.lang.Class.forName("org.apache.hadoop.yarn.api.records.YarnApplicationState")
        )
        for name in ACTIVE:
            states.add(getattr(records.YarnApplicationState, name))
        kinds = self.jvm.java.util.HashSet()
        kinds.add("SPARK")
        return list(self._ask("the ResourceManager", lambda: self._client().getApplications(kinds, states)))

    def _report(self, application: str) -> dict[str, Any] | None:
        name = self.jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(application)
        try:
            return _told(self._client().getApplicationReport(name))
        except Exception as error:
            if "ApplicationNotFoundException" in str(error):
                return None
            raise _trouble("the ResourceManager", error) from None

    def _client(self) -> Any:
        if self.yarn is None:
            configuration = self.jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
            configuration.setInt("yarn.resourcemanager.connect.max-wait.ms", 10_000)
            configuration.setInt("ipc.client.connect.max.retries", 2)
            self.yarn = self.jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
            self.yarn.init(configuration)
            self.yarn.start()
        return self.yarn

    def _ask(self, whom: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception as error:
            raise _trouble(whom, error) from None


def _gateway(request: dict[str, Any]) -> Any:
    """A JVM with Spark's class path, and nothing running in it."""
    home = request["spark_home"]
    sys.path += [*glob.glob(os.path.join(home, "python", "lib", "*.zip")), os.path.join(home, "python")]
    os.environ.update(request.get("environment") or {}, SPARK_HOME=home)
    if request.get("proxy_user"):
        os.environ["HADOOP_PROXY_USER"] = request["proxy_user"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local --driver-memory 256m pyspark-shell"
    try:
        from pyspark.java_gateway import launch_gateway

        return launch_gateway()  # type: ignore[no-untyped-call]
    except Exception as error:
        cause = f"Spark in {home} does not start: {error}"
        raise Trouble(cause, "set spark_job_spark_home, and JAVA_HOME in spark_job_environment") from None


def _told(report: Any) -> dict[str, Any]:
    return {
        "id": str(report.getApplicationId()),
        "state": str(report.getYarnApplicationState()),
        "final": str(report.getFinalApplicationStatus()),
        "diagnostics": (report.getDiagnostics() or "").strip()[-2000:],
        "url": report.getTrackingUrl() or "",
        "started": report.getStartTime() / 1000.0,
        "finished": report.getFinishTime() / 1000.0,
        "user": report.getUser(),
        "queue": report.getQueue(),
    }


def _trouble(whom: str, error: Exception) -> Trouble:
    lines = [line for line in str(error).splitlines() if re.match(r"(: |Caused by: )", line)] or str(error).splitlines()
    text = re.sub(r"^(: |Caused by: )?([\w$]+\.)+(?=[A-Z])", "", lines[-1] if lines else type(error).__name__)
    if "AccessControlException" in str(error):
        return Trouble(f"{whom}: {text}", "let spark_job_user, or its keytab's principal, own the state directory")
    return Trouble(f"{whom} does not answer: {text}", "see that it is up, and spark_job_hadoop_conf_dir")
