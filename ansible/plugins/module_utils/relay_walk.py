"""How the YARN nodes ask a relay's brokers: with the job's own protocol, as far as a node can go. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

NEAR = ("name", "route", "rule", "tcp", "tls")
"""Hops that need no login."""


class Walk(NamedTuple):
    """`security` is as the doctor takes it; `short` says why a node goes no further than TCP and TLS, `unchecked` why
    certificates are not checked there. Both are empty where there is no reason."""

    security: dict[str, Any]
    short: str
    unchecked: str


def walk(given: Mapping[str, str], trust: Mapping[str, Any], login: Callable[[Mapping[str, str]], Any]) -> Walk:
    """The walk of one side.

    :param given: the options of Kafka's client, without their prefix
    :param trust: ``cadata`` as PEM, or ``why`` it could not be read
    :param login: gives username, password and mechanism; raises ValueError for what only Java understands
    """
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    security: dict[str, Any] = {"protocol": "SSL" if protocol.endswith("SSL") else "PLAINTEXT"}
    short = unchecked = ""
    if protocol.endswith("SSL"):
        if trust.get("cadata"):
            named = given.get("ssl.endpoint.identification.algorithm", "https") != ""
            security.update(cadata=trust["cadata"], verify_name=named)
        else:
            security["verify"] = False
            unchecked = trust.get("why") or "the edge was not asked for its truststore"
        if given.get("ssl.keystore.location") or given.get("ssl.keystore.key"):
            short = "the brokers may ask for the client's certificate, and its key stays on the edge"
    if protocol.startswith("SASL"):
        try:
            account = login(given)
            if account["mechanism"] == "GSSAPI":
                short = "the login is by Kerberos, and a node holds no ticket of the job's"
            elif not short:
                security.update(account, protocol=protocol)
        except ValueError as error:
            short = str(error)
    return Walk(security, short, unchecked)


def pairs(nat_map: Mapping[str, Any], bootstrap: Iterable[str]) -> list[dict[str, Any]]:
    """The brokers of the NAT map's cluster to which these addresses lead: without a login nobody names them."""
    known = set(bootstrap)
    for cluster in (nat_map.get("clusters") or {}).values():
        brokers = cluster.get("brokers") or []
        if any(known & {broker["advertised"], broker["reachable"]} for broker in brokers):
            return [{key: broker.get(key) for key in ("id", "advertised", "reachable")} for broker in brokers]
    return []


def notes(walks: Mapping[str, Walk]) -> list[dict[str, str]]:
    """What the nodes did not see, by side."""
    found = []
    for side, one in walks.items():
        about = {"level": "note", "code": "UNPROVEN", "path": f"{side}.options"}
        if one.short:
            cause = f"the YARN nodes went as far as the listeners, without a login: {one.short}"
            found.append({**about, "cause": cause, "mend": "none is needed; the job itself logs in when it starts"})
        if one.unchecked:
            cause = f"the YARN nodes did not check the brokers' certificates: {one.unchecked}"
            mend = "name the store in spark_job_files, or give ssl.truststore.certificates"
            found.append({**about, "cause": cause, "mend": mend})
    return found
