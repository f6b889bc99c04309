"""What a plan does to connection tracking: any NAT rule makes the kernel track every connection of a node."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.kafka.natmap.plugins.module_utils.facts import NodeFacts
from ansible_collections.kafka.natmap.plugins.module_utils.plan import Rules


def effect(rules: Sequence[Rules], node: NodeFacts) -> tuple[bool, str]:
    """Whether the plan exempts all but the mapped connections (nft(8), ``notrack``), and the sentence that says so."""
    if not rules:
        return False, "none: this node gets no NAT rule"
    if node.tracked_by:
        return False, f"none: connections are tracked here already ({node.tracked_by[0]})"
    if any(one.backend == "iptables" for one in rules):
        return False, "every connection of this node will be tracked, since iptables does the NAT"
    if not node.notrack.usable:
        return False, f"every connection of this node will be tracked: {node.notrack.reason}"
    return True, "only connections to and from the mapped addresses will be tracked; all others are exempted"
