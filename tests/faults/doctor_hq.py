"""HQ's brokers with more listeners, so that faults of TLS, logins and listeners stand ready side by side."""

from __future__ import annotations

import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.podman import PodmanError, execute
from lab.topology import CLUSTER_IDS, HQ, Lab

USER, PASSWORD = "job", "the-lab-has-no-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KINDS = ("authority", "good", "expired", "early", "misnamed")
TRUSTED = "/etc/ssl/hq.pem"
CLUSTER_ID = CLUSTER_IDS["hq"]
_PROPERTIES = "/etc/kafka/server.properties"
_MARK = "# listeners of the doctor's faults"
_SASL = "org.apache.kafka.common.security."


@dataclass(frozen=True)
class Listener:
    """One more listener of HQ; `second` is the certificate that broker 2 shows there."""

    name: str
    port: int
    protocol: str = "PLAINTEXT"
    second: str = "good"
    brokers: tuple[int, ...] = (1, 2, 3)
    named: bool = False

    def advertised(self, lab: Lab, number: int) -> str:
        """What a broker says of itself there."""
        return f"{name_of(number) if self.named else lab.ip(f'hq-{number}')}:{self.port}"


LISTENERS = {
    one.name: one
    for one in (
        Listener("named", 9210, named=True),
        Listener("part", 9211, brokers=(1, 2)),
        Listener("tls", 9212, "SSL"),
        Listener("expired", 9213, "SSL", "expired"),
        Listener("early", 9214, "SSL", "early"),
        Listener("misnamed", 9215, "SSL", "misnamed"),
        Listener("login", 9216, "SASL_PLAINTEXT"),
        Listener("secure", 9217, "SASL_SSL"),
        Listener("tlsnamed", 9218, "SSL", named=True),
        Listener("spare", 9219),
    )
}


def name_of(number: int) -> str:
    """A broker's name, which nothing on the site resolves."""
    return f"hq-{number}.example"


def furnish(lab: Lab) -> dict[str, str]:
    """Give the brokers these listeners, the router their ports, HQ a user; a restart of Kafka where that is new.

    :returns: a key with its certificate, by kind
    """
    made = _held(lab) or _certificates(lab)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda host: _broker(lab, host, made), HQ))
    pairs = [
        f"{lab.nat_ip(f'hq-{number}')} . {one.port} : {lab.ip(f'hq-{number}')} . {one.port}"
        for one in LISTENERS.values()
        for number in (1, 2, 3)
    ]
    execute(lab.container("router"), "nft", f"add element ip nat_map brokers {{ {', '.join(pairs)} }}")
    return made


def enrol(lab: Lab) -> None:
    """The user of SCRAM, whom the cluster itself keeps; once the brokers answer."""
    java = ("/opt/java/bin/java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", "/opt/kafka/libs/*")
    asks = (
        "kafka.admin.ConfigCommand",
        "--bootstrap-server",
        f"{lab.ip('hq-1')}:9092",
        "--alter",
        "--entity-type",
        "users",
    )

    def add(mechanism: str) -> None:
        one = ("--entity-name", USER, "--add-config", f"{mechanism}=[password={PASSWORD}]")
        execute(lab.container("hq-1"), *java, *asks, *one)

    with ThreadPoolExecutor() as pool:
        # A request for both is refused.
        list(pool.map(add, MECHANISMS[1:]))


def trust(lab: Lab, host: str, made: dict[str, str]) -> None:
    """What a host has to trust to speak TLS with HQ."""
    _write(lab.container(host), TRUSTED, made["authority"])


def _certificates(lab: Lab) -> dict[str, str]:
    """By kind: the authority's certificate, else a key with the certificate that it signed."""
    names = ",".join(f"IP:{lab.ip(host)},DNS:{name_of(number)}" for number, host in enumerate(HQ, 1))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _openssl(folder, f"req -x509 {_KEY} -subj /CN=authority -days 3650 -keyout authority.key -out authority.crt")
        return {
            "authority": (folder / "authority.crt").read_text(),
            "good": _signed(folder, names, "20240101", "20991231"),
            "expired": _signed(folder, names, "20200101", "20210101"),
            "early": _signed(folder, names, "20980101", "20991231"),
            "misnamed": _signed(folder, "DNS:kafka.elsewhere.example", "20240101", "20991231"),
        }


def _held(lab: Lab) -> dict[str, str]:
    """What an earlier run gave HQ."""
    try:
        return {kind: execute(lab.container(HQ[0]), "cat", f"/etc/kafka/{kind}.pem") for kind in KINDS}
    except PodmanError:
        return {}


_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


def _signed(folder: Path, names: str, begins: str, ends: str) -> str:
    """PEM of a new key and of its certificate; `openssl req` of version 3.0 takes no dates, `openssl ca` does."""
    (folder / "index").write_text("")
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index\nnew_certs_dir={folder}\nrand_serial=yes\n"
        f"default_md=sha256\npolicy=p\nx509_extensions=x\n[p]\ncommonName=supplied\n[x]\nsubjectAltName={names}\n"
    )
    _openssl(folder, f"req -new {_KEY} -subj /CN=hq -keyout key -out csr")
    by = "-config ca.cnf -cert authority.crt -keyfile authority.key"
    _openssl(folder, f"ca -batch {by} -in csr -out crt -notext -startdate {begins}000000Z -enddate {ends}000000Z")
    return (folder / "key").read_text() + (folder / "crt").read_text()


def _openssl(folder: Path, command: str) -> None:
    subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)


def _broker(lab: Lab, host: str, made: dict[str, str]) -> None:
    container, number = lab.container(host), HQ.index(host) + 1
    for kind, pem in made.items():
        _write(container, f"/etc/kafka/{kind}.pem", pem)
    held = execute(container, "cat", _PROPERTIES)
    wanted = held.partition(_MARK)[0] + "\n".join([_MARK, *_properties(lab, number)]) + "\n"
    if wanted != held:
        _write(container, _PROPERTIES, wanted)
        execute(container, "systemctl", "restart", "kafka")


def _properties(lab: Lab, number: int) -> list[str]:
    here = [one for one in LISTENERS.values() if number in one.brokers]
    address = lab.ip(f"hq-{number}")
    said = {
        "listeners": [f"PLAINTEXT://{address}:9092", *(f"{one.name.upper()}://{address}:{one.port}" for one in here)],
        "advertised.listeners": [
            f"PLAINTEXT://{address}:9092",
            *(f"{one.name.upper()}://{one.advertised(lab, number)}" for one in here),
        ],
        "listener.security.protocol.map": [
            "PLAINTEXT:PLAINTEXT",
            "CONTROLLER:PLAINTEXT",
            *(f"{one.name.upper()}:{one.protocol}" for one in LISTENERS.values()),
        ],
    }
    said["listeners"].append("CONTROLLER://:9093")
    lines = [f"{key}={','.join(values)}" for key, values in said.items()]
    for one in here:
        prefix = f"listener.name.{one.name}."
        if "SSL" in one.protocol:
            kind = one.second if number == 2 else "good"
            lines += [f"{prefix}ssl.keystore.type=PEM", f"{prefix}ssl.keystore.location=/etc/kafka/{kind}.pem"]
        if "SASL" in one.protocol:
            plain = f'{_SASL}plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            lines += [
                f"{prefix}sasl.enabled.mechanisms={','.join(MECHANISMS)}",
                f"{prefix}plain.sasl.jaas.config={plain}",
                *(
                    f"{prefix}{name.lower()}.sasl.jaas.config={_SASL}scram.ScramLoginModule required;"
                    for name in MECHANISMS[1:]
                ),
            ]
    return lines


def _write(container: str, path: str, text: str) -> None:
    execute(container, "sh", "-c", f"cat > {path} && chmod 644 {path}", stdin=text.encode())
