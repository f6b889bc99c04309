"""What else a user would ask, of the same faults: kcat and the Java console consumer, what they say and after how long."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.rows import Row, row
from faults.doctor_hq import LISTENERS, PASSWORD, TRUSTED, USER
from faults.doctor_node import OWNER, TABLE, Patient, cluster, nat_map, told
from lab.podman import podman
from lab.topology import BUILD, Lab

LONGEST = 60.0
LIBRARIES = "/opt/kafka-clients"
TOPIC = "heartbeat"
_LOUD = re.compile(r"WARN|ERROR|FAIL|Exception|rror:")


@dataclass(frozen=True)
class Case:
    """A fault of one listener, so that all can stand at once; `pair` is led to `to` (nothing: its rule is taken away)."""

    name: str
    listener: str
    pair: int = 0
    to: str = ""
    password: str = PASSWORD


def cases(lab: Lab) -> list[Case]:
    """Those of which a client's own words help least."""
    return [
        Case("one rule deleted", "plain", 2),
        Case("two brokers swapped", "spare", 2, f"{lab.nat_ip('hq-1')} . {LISTENERS['spare'].port}"),
        Case("a listener missing on one broker", "part"),
        Case("a name without an address", "named"),
        Case("an expired certificate", "expired"),
        Case("a wrong password", "login", password="not-this-one"),
    ]


def beside(lab: Lab, node: Patient) -> Iterator[Row]:
    """One row for each: the doctor's answer is its value, the others' stand beside it. They run all at once."""
    wanted = cases(lab)
    podman("cp", f"{BUILD / 'jars/kafka'}/.", f"{node.container}:{LIBRARIES}")
    node.shell(f"chmod -R a+rX {LIBRARIES}")
    node.take(nat_map({one.listener: cluster(lab, one.listener) for one in wanted}))
    for one in wanted:
        _break(lab, node, one)
    examined = [node.examine(node.question(_map(lab, one))) for one in wanted]
    with ThreadPoolExecutor(2 * len(wanted)) as pool:
        kcats = [pool.submit(_run, node, _kcat(lab, one)) for one in wanted]
        consumers = [pool.submit(_run, node, _consumer(lab, node, one)) for one in wanted]
        others = [(one.result(), other.result()) for one, other in zip(kcats, consumers, strict=True)]
    for one, (report, seconds), (kcat, consumer) in zip(wanted, examined, others, strict=True):
        said = {"kcat -L": _words(*kcat), "console consumer": _words(*consumer)}
        bad = report["verdict"]["state"] == "findings"
        yield row("beside: " + one.name, seconds, "s", 5.0, bad, **said) | {
            "expected": "a finding",
            "said": told(report),
        }
    node.remove(OWNER)
    node.shell(f"rm -rf {LIBRARIES}; cat /root/hosts.kept > /etc/hosts")


def _map(lab: Lab, one: Case) -> dict[str, Any]:
    made = cluster(lab, one.listener)
    if "security" in made and "password" in made["security"]:
        made["security"]["password"] = one.password
    return nat_map({one.listener: made})


def _break(lab: Lab, node: Patient, one: Case) -> None:
    if one.listener == "named":
        node.shell("cp -p /etc/hosts /root/hosts.kept; sed -i '/hq-2.example/d' /etc/hosts")
    if not one.pair:
        return
    port = LISTENERS[one.listener].port if one.listener in LISTENERS else 9092
    pair = f"{lab.ip(f'hq-{one.pair}')} . {port}"
    if not one.to:
        node.run("nft", f"delete element ip {TABLE} carried_{one.listener} {{ {pair} }}")
        return
    pairs = f"element ip {TABLE} pairs_{one.listener}"
    other = f"{lab.ip('hq-1')} . {port}"
    to_other = f"{lab.nat_ip(f'hq-{one.pair}')} . {port}"
    node.run(
        "nft",
        f"delete {pairs} {{ {pair}, {other} }}; add {pairs} {{ {pair} : {one.to}, {other} : {to_other} }}",
    )


def _settings(one: Case) -> dict[str, str]:
    listener = LISTENERS.get(one.listener)
    protocol = listener.protocol if listener else "PLAINTEXT"
    found = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        found["sasl.mechanism"] = "PLAIN"
    return found


def _bootstrap(lab: Lab, one: Case) -> str:
    """As advertised, through the rules: at the reachable address a certificate would not hold."""
    return str(cluster(lab, one.listener)["brokers"][0]["advertised"])


def _kcat(lab: Lab, one: Case) -> list[str]:
    settings = _settings(one)
    if "SSL" in settings["security.protocol"]:
        settings["ssl.ca.location"] = TRUSTED
    if "sasl.mechanism" in settings:
        settings |= {"sasl.username": USER, "sasl.password": one.password}
    given = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
    return ["kcat", "-L", "-b", _bootstrap(lab, one), "-m", str(int(LONGEST)), *given]


def _consumer(lab: Lab, node: Patient, one: Case) -> list[str]:
    settings = _settings(one) | {"group.id": f"beside-{one.listener}"}
    if "SSL" in settings["security.protocol"]:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": TRUSTED}
    if "sasl.mechanism" in settings:
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{one.password}";'
        settings["sasl.jaas.config"] = login
    file = f"/run/beside-{one.listener}.properties"
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    node.run("sh", "-c", f"cat > {file}", stdin=text.encode())
    # Kafka's own script logs warnings too.
    java = ["/opt/java/bin/java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN", "-cp", f"{LIBRARIES}/*"]
    asks = ["--bootstrap-server", _bootstrap(lab, one), "--topic", TOPIC, "--from-beginning"]
    limits = ["--command-config", file, "--timeout-ms", str(int(LONGEST * 1000))]
    return [*java, "org.apache.kafka.tools.consumer.ConsoleConsumer", *asks, *limits]


def _run(node: Patient, command: Sequence[str]) -> tuple[str, float]:
    """What it printed until its end, and the seconds; bounded, as the job's user."""
    asked = ["podman", "exec", "--user", "yarn", node.container, "timeout", "-k", "2", str(int(LONGEST)), *command]
    begun = time.monotonic()
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout, time.monotonic() - begun


def _words(printed: str, seconds: float) -> str:
    """Its first complaint, or that it has none."""
    lines = [line.strip() for line in printed.splitlines()]
    loud = [line for line in lines if _LOUD.search(line)]
    said = re.sub(r"^\[[^]]*\]\s*|^%\d\|[\d.]+\||^\S+Z main ", "", loud[0])[:150] if loud else "no complaint"
    return f"{said} ({seconds:.0f} s)"
