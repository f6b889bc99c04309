"""A node that the doctor looks at: its maps, its program, and what it says and after how long."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.kafka.natmap.plugins.filter import doctor as doctor_filters
from ansible_collections.kafka.natmap.plugins.filter import natmap as filters
from faults.doctor_hq import LISTENERS, PASSWORD, TRUSTED, USER
from faults.node import Map
from faults.watch import Watched
from lab.topology import DR_NAME, Lab

OWNER = "patient"
TABLE = f"kafka_natmap_{OWNER}"
PROGRAM = "/run/kafka-natmap-doctor.pyz"
Report = dict[str, Any]
# The seconds that a whole process took on the node stand behind its answer.
_TIMED = f"""
import subprocess, sys, time
began = time.monotonic()
done = subprocess.run([sys.executable, "-I", "{PROGRAM}", *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
sys.stdout.write('{{"seconds": %.3f, "report": %s}}' % (
    time.monotonic() - began, done.stdout.decode() or "null"))
sys.stderr.write(done.stderr.decode())
"""


def pairs(lab: Lab, name: str = "plain", numbers: Sequence[int] = (1, 2, 3)) -> list[dict[str, Any]]:
    """Brokers of a map for one of HQ's listeners."""
    one, rows = LISTENERS.get(name), []
    for number in numbers:
        port = one.port if one else 9092
        advertised = one.advertised(lab, number) if one else f"{lab.ip(f'hq-{number}')}:9092"
        rows.append({"id": number, "advertised": advertised, "reachable": f"{lab.nat_ip(f'hq-{number}')}:{port}"})
    return rows


def cluster(lab: Lab, name: str = "plain", mechanism: str = "PLAIN", **more: Any) -> Map:
    """A cluster of a map: one of HQ's listeners, and how it is spoken to."""
    one = LISTENERS.get(name)
    made: Map = {"brokers": pairs(lab, name)}
    if one and one.protocol != "PLAINTEXT":
        made["security"] = {"protocol": one.protocol}
        made["security"] |= {"cafile": TRUSTED} if "SSL" in one.protocol else {}
        if "SASL" in one.protocol:
            made["security"] |= {"mechanism": mechanism, "username": USER, "password": PASSWORD}
    return made | more


def second(lab: Lab) -> Map:
    """HQ's second cluster, which advertises a name."""
    return {"brokers": [{"id": 11, "advertised": f"{DR_NAME}:9092", "reachable": f"{lab.nat_ip('dr-1')}:19092"}]}


def nat_map(clusters: Mapping[str, Map], **more: Any) -> Map:
    """A map of these clusters."""
    return {"owner": OWNER, "scope": {"users": ["yarn"]}, "mechanism": "auto", "clusters": dict(clusters), **more}


def whole(lab: Lab) -> Map:
    """Every listener of HQ, and its second cluster: what the node holds while faults are put in."""
    return nat_map({"plain": cluster(lab), **{name: cluster(lab, name) for name in LISTENERS}, "dr": second(lab)})


class Patient(Watched):
    """A node with a map of its own, and the doctor's program."""

    def prepare(self) -> None:
        """Put the node program and the doctor there."""
        self.place_program()
        self.run("sh", "-c", f"cat > {PROGRAM}", stdin=base64.b64decode(doctor_filters.doctor_program()))

    def take(self, made: Map) -> None:
        """Hold this map, without a watch that would mend what a fault breaks. :raises RuntimeError: where it is refused"""
        self._facts.clear()
        answer = self.ask("switch", self.request(made))
        if answer.get("state") not in ("confirmed", "unchanged"):
            raise RuntimeError(f"{self.name} did not take its map: {json.dumps(answer)[:600]}")
        self.unwatched(made["owner"])

    def unwatched(self, owner: str = OWNER) -> None:
        """Stop the watch, which mends within seconds."""
        self.shell(f"systemctl stop kafka-natmap-watch-{owner}.service 2>/dev/null || true")

    def question(self, made: Map | None, options: Mapping[str, Any] | None = None, **more: Any) -> str:
        """What the role asks the doctor here, with the secrets that its module joins."""
        read = filters.read_map(made) if made else {"text": None, "problems": []}
        if read["problems"]:
            raise ValueError("; ".join(read["problems"]))
        asked = json.loads(
            doctor_filters.doctor_request(read["text"], self.name, list(self.groups), {**(options or {})}, **more)
        )
        kept = doctor_filters.doctor_secrets(made, more.get("bootstrap", ""), more.get("security"))
        for probe in asked["probe"]:
            for one in probe["clusters"]:
                one["security"].update(kept.get(one["name"], {}))
        return json.dumps(asked)

    def examine(self, question: str) -> tuple[Report, float]:
        """The report as the playbook has it, and the seconds from the start of the program to its end."""
        report, seconds = self._timed("doctor", stdin=question)
        told_here = {self.name: {"doctor_result": {"answer": report}}}
        return doctor_filters.doctor_reports([self.name], told_here, [self.name])[0], seconds

    def by_hand(self, *arguments: str, stdin: str = "") -> tuple[Report, float]:
        """As somebody types it on the node."""
        return self._timed(*arguments, "--json", stdin=stdin)

    def _timed(self, *arguments: str, stdin: str) -> tuple[Report, float]:
        said = json.loads(self.run("python3", "-I", "-c", _TIMED, *arguments, stdin=stdin.encode()))
        return said["report"], said["seconds"]


def told(report: Report) -> str:
    """The findings in one line: CODE/detail@hop, worst first."""
    if report["blind"]:
        return "blind: " + report["blind"]["cause"]
    rows = [finding_told(one) for one in report["findings"] if one["severity"] != "note"]
    return " ".join(dict.fromkeys(rows)) or report["verdict"]["state"]


def finding_told(one: Mapping[str, Any]) -> str:
    """CODE/detail@hop."""
    return f"{one['code']}{'/' + one['detail'] if one['detail'] else ''}@{one['hop']['name']}"
