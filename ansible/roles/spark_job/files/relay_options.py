"""Options of Kafka's Java client as the check's own client takes them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
FIELD = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


class Unreadable(ValueError):
    """Options that only the Java client understands."""


def security(options: Mapping[str, str], files: Sequence[str] = ()) -> dict[str, Any]:
    """How a side is spoken to. ``files`` are those that are shipped with the job: options name them by base name."""
    given = {key[len("kafka.") :]: value for key, value in options.items() if key.startswith("kafka.")}
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    found: dict[str, Any] = {"protocol": protocol}
    if protocol.startswith("SASL"):
        found.update(_sasl(given))
    if protocol.endswith("SSL"):
        found.update(_tls(given, {os.path.basename(path): path for path in files}))
    return found


def _sasl(given: Mapping[str, str]) -> dict[str, Any]:
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        raise Unreadable(f"the check does not speak sasl.mechanism {mechanism}")
    fields = dict(FIELD.findall(given.get("sasl.jaas.config", "")))
    found = {"mechanism": mechanism, "service_name": given.get("sasl.kerberos.service.name", "")}
    if mechanism == "GSSAPI":
        return found
    if not {"username", "password"} <= set(fields):
        raise Unreadable("sasl.jaas.config names no username and password")
    unescaped = {key: re.sub(r"\\(.)", r"\1", fields[key]) for key in ("username", "password")}
    return {**found, **unescaped}


def _tls(given: Mapping[str, str], shipped: Mapping[str, str]) -> dict[str, Any]:
    def path(key: str) -> str:
        value = given.get(key, "")
        return shipped.get(os.path.basename(value), value) if value and not os.path.isabs(value) else value

    found: dict[str, Any] = {"verify_name": given.get("ssl.endpoint.identification.algorithm", "https") != ""}
    store = path("ssl.truststore.location")
    if given.get("ssl.truststore.certificates"):
        found["cafile"] = _written(given["ssl.truststore.certificates"])
    elif store:
        pem = given.get("ssl.truststore.type", "JKS").upper() == "PEM"
        found["cafile"] = store if pem else _exported(store, given.get("ssl.truststore.password", ""))
    if given.get("ssl.keystore.location") or given.get("ssl.keystore.key"):
        if given.get("ssl.keystore.type", "JKS").upper() != "PEM" or not given.get("ssl.keystore.location"):
            raise Unreadable("the check reads a client's certificate from a PEM file only (ssl.keystore.type=PEM)")
        found["certfile"] = path("ssl.keystore.location")
        found["keypassword"] = given.get("ssl.key.password")
    return found


def _exported(store: str, password: str) -> str:
    """The certificates of a Java truststore as PEM; the JDK's own keytool reads it."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "keytool") if home else "keytool"
    command = [program, "-list", "-rfc", "-keystore", store, *(["-storepass:env", "STORE"] if password else [])]
    try:
        done = subprocess.run(
            command, input=b"\n", capture_output=True, env={**os.environ, "STORE": password}, timeout=30, check=False
        )
    except OSError as error:
        raise Unreadable(f"{store} cannot be read without keytool: {error.strerror}") from None
    blocks = re.findall(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", done.stdout, re.DOTALL)
    if not blocks:
        said = done.stdout.decode(errors="replace").strip().splitlines()[:1] or ["it holds no certificate"]
        raise Unreadable(f"keytool reads no certificate from {store}: {said[0]}")
    return _written(b"\n".join(blocks).decode())


def _written(text: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:
        file.write(text)
    return file.name
