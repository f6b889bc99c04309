"""Connections that a change touches: those that would carry past a new rule, and those whose rule is gone."""

import ipaddress

import kafka_natmap_conntrack as conntrack
from kafka_natmap_system import run


def forget_unrewritten(generation):
    """Delete tracked attempts that began before the rule: the next connection from the same port would not be rewritten."""
    mapped = targets_of(generation)
    for entry in list(conntrack.ct_dump()) if generation["pairs"] or generation.get("prefixes") else ():
        if mapped(entry.dialled) and not entry.rewritten and entry.state != "ESTABLISHED":
            conntrack.ct_delete(entry)


def carried_flows(generation):
    """The connections that the rules of a generation, or of one before it, rewrote."""
    mapped = targets_of(generation)
    return [entry for entry in conntrack.ct_dump() if entry.rewritten and mapped(entry.dialled)]


def targets_of(generation):
    """Where a generation sends a destination: a function of (address, port), None where it leaves it alone."""
    pairs = {(address, port): (to, to_port) for address, port, to, to_port in generation["pairs"]}
    networks = [
        (ipaddress.ip_network(network), set(ports), ipaddress.ip_network(to))
        for network, ports, to in generation.get("prefixes", ())
    ]

    def target(dialled):
        address, port = dialled
        if dialled in pairs:
            return pairs[dialled]
        for network, ports, to in networks:
            host = ipaddress.ip_address(address)
            if port in ports and host in network:
                return str(to[int(host) - int(network.network_address)]), port
        return None

    return target


def end_flows(entries):
    """End connections whose rewrite is gone, so that their clients learn it at once (SOCK_DESTROY, ss(8))."""
    for entry in entries:
        source, port, destination, destination_port = entry.orig
        run(["ss", "-K", "-t", "src", "%s:%d" % (source, port), "dst", "%s:%d" % (destination, destination_port)])
        conntrack.ct_delete(entry)
