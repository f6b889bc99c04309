"""The whole story: an unmodified job fails behind the NAT, works with the map applied, and fails again without it."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import product

from e2e import access, compare
from e2e.telling import StoryError, good, run, say, step
from lab import inventory, lifecycle, podman
from lab.topology import BUILD, DEFAULT_NAME, ROOT, Lab

NODES = ("nm1", "nm2")
AUDIT = {"/var/lib/kafka-natmap", "/var/lib/kafka-natmap/audit.jsonl"}
MISSED = re.compile(r"Connection to node -?\d+ \(.*?\) could not be established\..*")
TOPICS = "story-"
BLOBS = ("submitted", "git HEAD")
TAG = "kafka-natmap-story"
State = dict[str, str]


@dataclass
class Story:
    """One telling in one lab, of `records` events under a topic of its own."""

    lab: Lab
    records: int = 200_000
    topic: str = field(default_factory=lambda: time.strftime(f"{TOPICS}%Y%m%d-%H%M%S"))

    def tell(self) -> None:
        """All of it, from whatever state the lab is in. Raises StoryError where it goes another way."""
        with step("0. A clean start, and audit events at headquarters"):
            self.prepare()
        with step("a. Before: the relay, as any Spark user submits it, cannot reach the brokers"):
            self.submit_in_vain()
            before = self.states()
        with step("b. Apply the NAT map"):
            self.play("apply", "the map is applied")
        with step("c. After: the same job, the same command"):
            self.submit_and_compare()
        with step("d. Scope: the same connection from another user of the same node"):
            self.check_scope()
        with step("e. Remove the map: the job fails again, and the nodes are what they were"):
            self.play("kafka.natmap.remove", "the map is removed")
            self.check_unchanged(before)
            self.submit_in_vain()

    @property
    def brokers(self) -> list[str]:
        """Where headquarters' own room reaches its brokers."""
        return [f"{self.lab.ip(host)}:9092" for host in self.lab.hq()]

    @property
    def sink(self) -> str:
        """The site's own Kafka."""
        return f"{self.lab.ip('kafka')}:9092"

    def play(self, playbook: str, what: str, *arguments: str) -> None:
        """Run a playbook that has to succeed."""
        code, _ = self.playbook(playbook, *arguments)
        if code:
            raise StoryError(f"ansible-playbook {playbook} exited with {code}; it had to succeed")
        good(what)

    def playbook(self, name: str, *arguments: str) -> tuple[int, str]:
        """Run a playbook on this lab's inventory; the default lab's is the committed one."""
        other = [] if self.lab.name == DEFAULT_NAME else ["-i", str(inventory.path(self.lab.name).relative_to(ROOT))]
        return run(["ansible-playbook", name, *other, *arguments])

    def prepare(self) -> None:
        """Take away what an earlier telling left, and write the events."""
        self.play("kafka.natmap.remove", "no map is applied")
        for application in self.running():
            podman.execute(self.lab.container("edge"), "yarn", "application", "-kill", application)
            good(f"ended {application} of an earlier story")
        good(f"topic {self.topic} at headquarters: {self.fill('hq-1', self.brokers, self.records)}")
        good(f"topic {self.topic} at the site's own Kafka: {self.fill('kafka', [self.sink], 0)}")

    def fill(self, host: str, bootstrap: list[str], records: int) -> str:
        """Replace the topics of earlier stories by this one's."""
        arguments = ["--bootstrap", ",".join(bootstrap), "--topic", self.topic, "--records", str(records)]
        return access.in_network(self.lab, host, "events", *arguments, "--drop", TOPICS)

    def running(self) -> list[str]:
        """Applications of earlier stories that YARN still runs."""
        url = f"http://master:8088/ws/v1/cluster/apps?states=ACCEPTED,RUNNING&applicationTags={TAG}"
        code = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=10).read().decode())"
        found = json.loads(podman.execute(self.lab.container("edge"), "python3", "-c", code))
        return [app["id"] for app in (found["apps"] or {}).get("app", [])]

    def submit(self) -> tuple[int, str]:
        """Deploy the relay; always the same command and the same variables."""
        variables = BUILD / "e2e" / f"{self.lab.name}.json"
        variables.parent.mkdir(parents=True, exist_ok=True)
        job = {
            "spark_job_source_topic": self.topic,
            "spark_job_checkpoint": f"hdfs://master:8020/checkpoints/relay/{self.topic}",
            "spark_job_available_now": True,
            "spark_job_tags": [TAG],
        }
        variables.write_text(json.dumps(job, indent=2))
        return self.playbook("kafka.natmap.deploy_spark_job", "-e", f"@{variables.relative_to(ROOT)}")

    def submit_in_vain(self) -> None:
        """The job has to fail, and its own log has to name a broker that it could not connect to."""
        code, output = self.submit()
        missed = MISSED.search(output)
        if not code or not missed:
            raise StoryError(f"the job had to fail for want of a connection to a broker, but exited with {code}")
        good("the job failed, and its log says:")
        say(missed.group(), "bad")

    def submit_and_compare(self) -> None:
        """The job has to succeed, and the sink has to hold what the source holds."""
        code, output = self.submit()
        if code:
            raise StoryError(f"the job had to succeed, but exited with {code}")
        submitted, committed = (re.search(rf"{place} .*?([0-9a-f]{{40}})$", output, re.M) for place in BLOBS)
        if submitted and committed and submitted[1] != committed[1]:
            raise StoryError("what was submitted is not what git has: commit spark_app/relay.py")
        with ThreadPoolExecutor() as pool:
            source = pool.submit(
                access.in_network, self.lab, "hq-1", "compare", f"{','.join(self.brokers)}/{self.topic}"
            )
            sink = pool.submit(access.in_network, self.lab, "kafka", "compare", f"{self.sink}/{self.topic}")
        sides = compare.load(source.result()), compare.load(sink.result())
        say(compare.table(*sides))
        total = sum(digest.records for digest in sides[0].values())
        different = compare.differences(*sides)
        if different or total != self.records:
            raise StoryError(f"{self.records:,} records were to arrive unchanged: " + "; ".join(different))
        good(f"{total:,} records arrived: key, value, headers, partition and order are those of the source")

    def check_scope(self) -> None:
        """On each node, the job's user talks to each broker; another user is not rewritten."""
        pairs = list(product(NODES, self.brokers))
        with ThreadPoolExecutor(len(pairs)) as pool:
            as_job = list(pool.map(lambda pair: self.ask(pair[0], pair[1], "yarn"), pairs))
            as_other = list(pool.map(lambda pair: self.ask(pair[0], pair[1], "alice"), pairs))
        for (node, broker), job, other in zip(pairs, as_job, as_other, strict=True):
            say(f"{node}  to {broker}  as yarn:  {job}")
            say(f"{node}  to {broker}  as alice: {other}")
        for (node, broker), job, other in zip(pairs, as_job, as_other, strict=True):
            if "takes" not in job or f"sent to {broker}," not in other:
                raise StoryError(f"on {node}, yarn alone is to be rewritten")
        good("only the job's user is rewritten")

    def ask(self, node: str, broker: str, user: str) -> str:
        """One Kafka conversation, and where the kernel sent it."""
        host, _, port = broker.partition(":")
        said = access.on_host(self.lab, node, "conversation.py", host, port, user=user)
        flow = podman.execute(
            self.lab.container(node),
            "conntrack",
            "-L",
            "-p",
            "tcp",
            "--orig-port-src",
            str(said["port"]),
            "--orig-dst",
            host,
        )
        replies = re.findall(r"src=(\S+) dst=\S+ sport=(\d+)", flow)
        peer = ":".join(replies[-1]) if replies else broker
        answer = f"takes {said['answer']} kinds of request" if "answer" in said else said["error"]
        return f"sent to {peer}, {answer}"

    def states(self) -> dict[str, State]:
        """Every node's files and rules."""
        return {node: access.on_host(self.lab, node, "node_state.py") for node in NODES}

    def check_unchanged(self, before: dict[str, State]) -> None:
        """Nothing but the audit record may differ."""
        for node, state in self.states().items():
            old = before[node]
            different = [
                name
                for name in sorted(old.keys() | state.keys())
                if old.get(name) != state.get(name) and name not in AUDIT
            ]
            left = sorted(AUDIT & (state.keys() - old.keys()))
            if different:
                name = different[0]
                change = unified_diff(
                    old.get(name, "").splitlines(), state.get(name, "").splitlines(), "before", "after", lineterm=""
                )
                raise StoryError("\n".join([f"{node} differs in {', '.join(different)}", *change]))
            good(
                f"{node}: {len(old)} files, rulesets and units byte for byte as before"
                + (f"; left: {', '.join(left)}" if left else "")
            )


def stand(name: str) -> Lab:
    """The lab of that name; StoryError when it does not stand."""
    lab = lifecycle.standing(name)
    if lab is None or not lab.has(*NODES, "hq-1", "router", "master", "kafka", "edge"):
        raise StoryError(f"lab {name} is not up: run `make lab-up`")
    return lab
