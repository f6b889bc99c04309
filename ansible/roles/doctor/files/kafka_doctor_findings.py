"""Every code that the doctor knows: how bad it is, why it is so, and what mends it. Python 3.6 syntax.

The order is that of a report: what breaks first stands first, what only follows from it last.
"""

from typing import Any, Dict, List, NamedTuple


class Code(NamedTuple):
    """`cause` and `mend` are one sentence each, filled in with what a finding holds."""

    severity: str
    cause: str
    mend: str


APPLY = "ansible-playbook apply --limit {node}"
CODES: Dict[str, Code] = {
    "NO_ROUTE": Code(
        "error",
        "this node has no way to {ip}, and without one a connection fails before any rule is asked",
        "ip route get {ip} on {node}, then add a default route or one for {ip}",
    ),
    "DNS": Code(
        "error",
        "the name {host} does not lead where it should on this node",
        "getent ahostsv4 {host} on {node}, then correct /etc/hosts there, or map the name: " + APPLY,
    ),
    "BOOTSTRAP_UNREACHABLE": Code(
        "error",
        "no bootstrap address takes a connection from this node, so the NAT or a firewall before HQ drops or refuses them",
        "nc -vz {ip} {port} on {node}, and ask whoever runs the NAT of HQ for {address}",
    ),
    "SCOPE_WRONG": Code(
        "error",
        "the rules of this node hold for others than {user}, who asked",
        "name {user} in the map's scope, then " + APPLY,
    ),
    "NOT_REWRITTEN": Code("error", "no rule rewrote the connection to {advertised}", APPLY),
    "FOREIGN_RULE": Code(
        "error",
        "a rule that is not ours sends connections to {advertised} elsewhere",
        "take that rule away (nft list ruleset, iptables-save -t nat), or take the pair out of the map",
    ),
    "UNMAPPED_BROKER": Code(
        "error",
        "metadata names broker {broker} at {advertised}, which this node cannot use and the map does not cover",
        "add {{id: {broker}, advertised: '{advertised}', reachable: 'IP:port'}} to the map, then " + APPLY,
    ),
    "LISTENER_MISSING": Code(
        "error",
        "broker {broker} is alive, but has no listener of the name through which the others were asked",
        "let HQ add that listener name to listeners and advertised.listeners of broker {broker}",
    ),
    "MIXED_LISTENERS": Code(
        "error",
        "the bootstrap addresses lead to different listeners or clusters, so a job's brokers depend on which one it asks",
        "keep only addresses of one listener in the bootstrap list, or let the NAT lead them to the same one",
    ),
    "WRONG_CLUSTER": Code(
        "error",
        "the way to {advertised} leads into another Kafka cluster",
        "correct the reachable address {reachable} of {advertised} in the map or at HQ's NAT, then " + APPLY,
    ),
    "PROXY_BALANCED": Code(
        "error",
        "one address is balanced over several brokers, but a client must reach the very broker that it dials",
        "give each broker a port of its own in the proxy, or use mechanism nginx_stream: " + APPLY,
    ),
    "PROXY_HTTP": Code(
        "error",
        "an http server stands in front of Kafka, which does not speak HTTP",
        "move it to a stream block with one port a broker, then nginx -t && systemctl reload nginx",
    ),
    "WRONG_BROKER": Code(
        "error",
        "another broker than {broker} answers at {advertised}: two addresses are swapped",
        "correct the reachable address {reachable} of broker {broker} in the map or at HQ's NAT, then " + APPLY,
    ),
    "TCP_REFUSED": Code(
        "error",
        "something at {address} refuses the connection: the broker is down, or the NAT leads to a port without listener",
        "nc -vz {ip} {port} on {node}; let HQ look at the broker and its NAT for {address}",
    ),
    "TCP_TIMEOUT": Code(
        "error",
        "packets to {address} are dropped on the way, as a firewall or a NAT without that entry does",
        "let HQ open {address} for {node} in its firewall and its NAT, then make doctor",
    ),
    "MTU_BLACK_HOLE": Code(
        "error",
        "small packets pass and full ones are lost: a link on the way carries less, and its message about it is dropped",
        "lower the MTU of the route on {node} (ip route change ... mtu 1400), or let the network pass ICMP type 3 code 4",
    ),
    "NOT_KAFKA": Code(
        "error",
        "what answers at {address} is no Kafka broker",
        "correct the address, or the NAT's entry for {address}",
    ),
    "TLS": Code("error", "TLS with {address} fails", "set protocol and cafile of the cluster's security in the map"),
    "SASL": Code(
        "error", "the login at {address} fails", "set mechanism, username and password of the security in the map"
    ),
    "DOWN_AT_HQ": Code(
        "warning",
        "broker {broker} is down at HQ: it holds replicas, and metadata does not name it among the living",
        "let HQ start broker {broker}; nothing is to be done on {node}",
    ),
    "UNPROVEN": Code(
        "warning",
        "who answers at {advertised} could not be proven",
        "let the asking user describe a topic that broker {broker} leads (kafka-acls.sh --add --operation Describe)",
    ),
    "SCOPE_LEAK": Code(
        "error",
        "connections of a user outside the scope are rewritten too",
        "narrow the map's scope, then " + APPLY,
    ),
    "CONNTRACK_LEFTOVER": Code(
        "warning",
        "a connection that began before the rule carries past it, and the next one from its port would too",
        "conntrack -D -p tcp --orig-src {source} --sport {source_port} --orig-dst {ip} --dport {port} on {node}",
    ),
    "IDLE_TIMEOUT_SHORT": Code(
        "warning",
        "a proxy ends idle connections before the clients do (connections.max.idle.ms), which they see as errors",
        "set proxy_timeout 24h; in that server block, then nginx -t && systemctl reload nginx",
    ),
    "CONNECT_TIMEOUT_SHORT": Code(
        "warning",
        "a proxy gives up on a slow broker sooner than the clients would",
        "set proxy_connect_timeout 8s; in that server block, then nginx -t && systemctl reload nginx",
    ),
    "CONTAINER_NETWORK": Code(
        "error",
        "containers with a network of their own pass the node's rules by",
        "let YARN's docker runtime use the host's network, or run these jobs without it",
    ),
    "NODE_UNMANAGED": Code(
        "warning",
        "YARN runs containers on hosts that the inventory does not know",
        "add them to yarn_nodes in the inventory, then ansible-playbook apply",
    ),
    "STALE_ENTRY": Code(
        "warning",
        "the map names {advertised}, and no broker advertises it any more",
        "take {advertised} out of the map, then ansible-playbook apply",
    ),
    "COORDINATOR_UNREACHABLE": Code(
        "error",
        "the coordinator of {of} cannot be used from this node, so its consumers cannot join",
        "mend what is wrong with broker {broker} ({advertised}); it is listed above",
    ),
    "LEADER_UNREACHABLE": Code(
        "error",
        "a leader of {of} cannot be used from this node, so its partitions can neither be read nor written",
        "mend what is wrong with broker {broker} ({advertised}); it is listed above",
    ),
}
# Where a detail says more than its code.
DETAILS: Dict[str, Dict[str, str]] = {
    "expired": {"cause": "the certificate of {address} has expired", "mend": "let HQ renew it; here nothing helps"},
    "not_yet_valid": {
        "cause": "the certificate of {address} is not valid yet, or the clock of {node} is slow",
        "mend": "timedatectl on {node}; if its clock is right, let HQ issue the certificate anew",
    },
    "name": {
        "cause": "the certificate of {address} is for other names than the advertised one",
        "mend": "let HQ put {host} into its subjectAltName, or advertise a name that is there",
    },
    "chain": {
        "cause": "{node} does not know the authority that signed the certificate of {address}",
        "mend": "set security.cafile of the cluster in the map to the file of HQ's authority on {node}",
    },
    "tls_port": {
        "cause": "{address} wants TLS, and was asked without",
        "mend": "set security.protocol of the cluster to SSL or SASL_SSL in the map",
    },
    "plain_port": {
        "cause": "{address} does not speak TLS, and was asked with",
        "mend": "set security.protocol of the cluster to PLAINTEXT or SASL_PLAINTEXT in the map",
    },
    "client_certificate": {
        "cause": "{address} wants a certificate of the client that it knows",
        "mend": "set security.certfile and keyfile of the cluster in the map",
    },
    "login": {
        "cause": "{address} refuses this login",
        "mend": "correct username and password of the cluster's security: ansible-vault edit",
    },
    "mechanism": {
        "cause": "{address} does not offer this login mechanism",
        "mend": "set security.mechanism of the cluster to one that it offers",
    },
    "no_login": {
        "cause": "{address} takes no login",
        "mend": "set security.protocol of the cluster to PLAINTEXT or SSL in the map",
    },
    "wants_login": {
        "cause": "{address} wants a login first, and was asked without",
        "mend": "set security.protocol of the cluster to SASL_PLAINTEXT or SASL_SSL, and its mechanism, in the map",
    },
    "gssapi": {
        "cause": "this node's Python cannot log in by Kerberos",
        "mend": "apt install python3-gssapi (RHEL: dnf install python3-gssapi) on {node}",
    },
    "http": {"cause": "{address} is an HTTP server, no Kafka broker", "mend": "give the port of a Kafka listener"},
    "silent": {
        "cause": "{address} takes connections and says nothing: a hung broker, a proxy without its broker, or no Kafka",
        "mend": "let HQ look at what stands behind {address}",
    },
    "not_applied": {"cause": "the map is not applied on {node}", "mend": APPLY},
    "missing_rule": {"cause": "the rule for {advertised} is gone from the loaded rules of {node}", "mend": APPLY},
    "counter_still": {
        "cause": "the rule for {advertised} is loaded, and connections of {user} pass it by",
        "mend": "nft list ruleset on {node}: look for a chain that comes before ours",
    },
    "dead_address": {
        "cause": "one of the addresses of {host} is dead, and new connections wait for it",
        "mend": "getent ahostsv4 {host} on {node}, then let its owner take the dead address out of DNS",
    },
    "old_plan": {"cause": "{node} holds the plan of another map than this one", "mend": APPLY},
    "old_scope": {"cause": "the map's scope names {user}, and the rules of {node} hold for others", "mend": APPLY},
    "no_address": {
        "cause": "{host} has no address on {node}",
        "mend": "getent ahostsv4 {host} on {node}; map the name (its hosts line comes with it): " + APPLY,
    },
    "hosts_line": {
        "cause": "a line of /etc/hosts on {node} leads {host} elsewhere than the map",
        "mend": "take the line named in the evidence out of /etc/hosts on {node}",
    },
    "no_user": {
        "cause": "the scope's user {user} is unknown on {node}, so no connection of a job there is rewritten",
        "mend": "getent passwd {user} on {node}; name the user that YARN's containers run as in the map's scope",
    },
    "containers": {
        "cause": "YARN's containers on {node} run as {user}, whom the map's scope does not hold",
        "mend": "set scope: {{users: [{user}]}} or scope: {{discover: yarn}} in the map, then " + APPLY,
    },
    "no_topic": {
        "cause": "{of} is not there, or this user may not see it",
        "mend": "kafka-topics.sh --describe; or kafka-acls.sh --add --operation Describe for the job's user",
    },
    "no_leader": {
        "cause": "{of} has partitions without a leader that this listener knows",
        "mend": "kafka-topics.sh --describe --unavailable-partitions, and let HQ look at the brokers that hold them",
    },
    "no_coordinator": {
        "cause": "the cluster names no coordinator for {of}, so its consumers cannot join",
        "mend": "let HQ look at the partitions of __consumer_offsets: kafka-topics.sh --describe --unavailable-partitions",
    },
    "live": {
        "cause": "a running job has connections from before the rule, which carry past it until they end",
        "mend": "restart that job, or ss -K dst {ip} dport = {port} on {node}",
    },
    "map_id": {
        "cause": "the map calls the broker at {advertised} another number than the cluster does",
        "mend": "set id: {broker} at {advertised} in the map",
    },
    "unmapped_free": {
        "cause": "{address} is not reachable from here, and there is no map that covers it",
        "mend": "make discover BOOTSTRAP={bootstrap} drafts a map",
    },
}
# What mends it where no map is: the options of the program, which the playbook takes as -e doctor_security.
WITHOUT_MAP: Dict[str, str] = {
    "DNS": "getent ahostsv4 {host} on {node}, then correct /etc/hosts there or the name",
    "no_address": "getent ahostsv4 {host} on {node}; make discover BOOTSTRAP={bootstrap} drafts a map for such names",
    "WRONG_CLUSTER": "let HQ correct what its NAT leads {advertised} to, or take that address out of the bootstrap list",
    "WRONG_BROKER": "let HQ correct what its NAT leads {advertised} to",
    "PROXY_BALANCED": "give each broker a port of its own in the proxy",
    "TLS": "--protocol and --cafile as the listener wants them",
    "chain": "--cafile with the file of HQ's authority on {node}",
    "tls_port": "--protocol SSL, or SASL_SSL with --mechanism and --username",
    "plain_port": "--protocol PLAINTEXT, or SASL_PLAINTEXT with --mechanism and --username",
    "client_certificate": "-e '{{doctor_security: {{protocol: SSL, certfile: FILE, keyfile: FILE}}}}'",
    "SASL": "--mechanism and --username as the listener wants them; the password comes by standard input",
    "login": "give the right --username, and its password by standard input",
    "mechanism": "--mechanism with one that it offers",
    "no_login": "--protocol PLAINTEXT or SSL",
    "wants_login": "--protocol SASL_PLAINTEXT or SASL_SSL, with --mechanism and --username",
}
RANK = {code: number for number, code in enumerate(CODES)}
SEVERITIES = ("error", "warning", "note")


class _Blank(dict):
    def __missing__(self, key: str) -> str:
        return "?"


def finding(
    code: str, hop: str, evidence: str, about: Dict[str, Any], detail: str = "", severity: str = ""
) -> Dict[str, Any]:
    """One finding.

    :param hop: the broken hop, or the place: map, metadata, scope, conntrack, nginx, yarn
    :param about: node, cluster, user, broker, advertised ("host:port"), reachable, address ("IP:port"), of, bootstrap;
        free where there is no map to mend
    """
    known = CODES[code]
    more = DETAILS.get(detail, {})
    address = about.get("address") or about.get("advertised") or ""
    ip, _, port = address.rpartition(":")
    host = (about.get("advertised") or address).rpartition(":")[0]
    given = {key: value for key, value in about.items() if value is not None}
    words = _Blank(given, ip=ip, port=port, host=host, address=address)
    words.setdefault("bootstrap", address)
    words.setdefault("advertised", address)
    return {
        "code": code,
        "detail": detail,
        "severity": severity or known.severity,
        "node": about.get("node"),
        "cluster": about.get("cluster"),
        "as": about.get("user"),
        "hop": {
            "name": hop,
            "address": ip or None,
            "host": host or None,
            "port": int(port) if port.isdigit() else None,
        },
        "broker": about.get("broker"),
        "advertised": about.get("advertised"),
        "evidence": evidence,
        "cause": more.get("cause", known.cause).format_map(words),
        "mend": _mend(code, detail, bool(about.get("free"))).format_map(words),
    }


def _mend(code: str, detail: str, free: bool) -> str:
    special, usual = DETAILS.get(detail, {}).get("mend"), CODES[code].mend
    if not free:
        return special or usual
    return WITHOUT_MAP.get(detail) or special or WITHOUT_MAP.get(code) or usual


def ordered(findings: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Worst first, causes before what follows from them; each said once."""
    seen, kept = set(), []
    for one in findings:
        key = (one["code"], one["cluster"], one["as"], one["advertised"], one["evidence"])
        if key not in seen:
            seen.add(key)
            kept.append(one)
    return sorted(kept, key=lambda one: (SEVERITIES.index(one["severity"]), RANK[one["code"]], str(one["advertised"])))


def verdict(findings: List[Dict[str, Any]], walks: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The one sentence, and whether this node is healthy."""
    bad = [one for one in findings if one["severity"] != "note"]
    brokers = [walk for walk in walks if walk["role"] != "bootstrap"]
    good = sum(walk["state"] == "ok" for walk in brokers)
    if bad:
        first = bad[0]
        where = " at {}".format(first["advertised"]) if first["advertised"] else ""
        more = "; {} finding{} in all".format(len(bad), "s" if len(bad) > 1 else "") if len(bad) > 1 else ""
        return {
            "state": "findings",
            "code": first["code"],
            "text": first["code"] + where + ": " + first["cause"] + more,
        }
    text = "healthy: {} of {} brokers answer as themselves".format(good, len(brokers))
    return {"state": "healthy", "code": None, "text": text}
