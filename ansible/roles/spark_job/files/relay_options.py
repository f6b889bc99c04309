"""Options of Kafka's Java client as the check's own client takes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
FIELD = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


class Unreadable(ValueError):
    """Options that only the Java client understands."""


def security(options: Mapping[str, str], files: Sequence[str] = ()) -> dict[str, Any]:
    """How a side is spoken to. ``files`` are those that are shipped with the job: options name them by base name."""
    given = kafka_s(options)
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    found: dict[str, Any] = {"protocol": protocol}
    if protocol.startswith("SASL"):
        found.update(login(given))
    if protocol.endswith("SSL"):
        found.update(_tls(given, _shipped(files)))
    return found


def kafka_s(options: Mapping[str, str]) -> dict[str, str]:
    """The options that Spark hands to Kafka's client, under Kafka's names."""
    return {key[len("kafka.") :]: value for key, value in options.items() if key.startswith("kafka.")}


def login(given: Mapping[str, str]) -> dict[str, Any]:
    """The login of a side. Raises Unreadable for one that only Java understands."""
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
    found: dict[str, Any] = {"verify_name": names_are_checked(given), "cadata": _trusted(given, shipped)}
    if given.get("ssl.keystore.location") or given.get("ssl.keystore.key"):
        if given.get("ssl.keystore.type", "JKS").upper() != "PEM" or not given.get("ssl.keystore.location"):
            raise Unreadable("the check reads a client's certificate from a PEM file only (ssl.keystore.type=PEM)")
        found["certfile"] = _path(given["ssl.keystore.location"], shipped)
        found["keypassword"] = given.get("ssl.key.password")
    return found


def names_are_checked(given: Mapping[str, str]) -> bool:
    """Kafka's client compares a certificate's names unless it is told not to."""
    return given.get("ssl.endpoint.identification.algorithm", "https") != ""


def trusted(options: Mapping[str, str], files: Sequence[str] = ()) -> str | None:
    """The certificates that a side's brokers are trusted by, as PEM; None where it speaks no TLS. Raises Unreadable."""
    given = kafka_s(options)
    if not given.get("security.protocol", "").upper().endswith("SSL"):
        return None
    return _trusted(given, _shipped(files))


def _trusted(given: Mapping[str, str], shipped: Mapping[str, str]) -> str:
    if given.get("ssl.truststore.certificates"):
        return given["ssl.truststore.certificates"]
    store = _path(given.get("ssl.truststore.location", ""), shipped)
    if not store:
        return _exported(os.path.join(_java_home(), "lib", "security", "cacerts"), "changeit")
    if given.get("ssl.truststore.type", "JKS").upper() != "PEM":
        return _exported(store, given.get("ssl.truststore.password", ""))
    try:
        with open(store, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Unreadable(f"{store} cannot be read on the edge: {error.strerror}") from None


def _shipped(files: Sequence[str]) -> dict[str, str]:
    return {os.path.basename(path): path for path in files}


def _path(value: str, shipped: Mapping[str, str]) -> str:
    return shipped.get(os.path.basename(value), value) if value and not os.path.isabs(value) else value


def _java_home() -> str:
    program = os.path.realpath(shutil.which("java") or "")
    return os.environ.get("JAVA_HOME") or os.path.dirname(os.path.dirname(program))


def _exported(store: str, password: str) -> str:
    """The certificates of a Java truststore as PEM; the JDK's own keytool reads it."""
    program = os.path.join(_java_home(), "bin", "keytool")
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
    return b"\n".join(blocks).decode() + "\n"
