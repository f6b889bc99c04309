"""What YARN says on a node: whose processes its containers are, and which nodes it sends them to. Python 3.6 syntax."""

import threading

from kafka_doctor_findings import finding
from kafka_natmap_inspect import account_of
from kafka_natmap_resourcemanager import nodes
from kafka_natmap_yarn import discovered

_OWN_NETWORK = ("network of their own", "network namespace of its own")


class Asked:
    """The ResourceManager's list, asked beside the dials."""

    def __init__(self, wanted):
        self.answer = (
            {"nodes": [], "resource_manager": None, "problem": "it gave no answer in time"} if wanted else None
        )
        self.thread = threading.Thread(target=self._ask, daemon=True)
        if wanted:
            self.thread.start()

    def _ask(self):
        self.answer = nodes()

    def wait(self, seconds):
        """The list, or why there is none; None where it was not asked."""
        if self.answer is not None:
            self.thread.join(max(seconds, 0))
        return self.answer


def container_findings(node, scope, identities):
    """Containers that no rule of the scope holds for: of another user, or with a network of their own.

    :param scope: the map's, with users, groups and uid_ranges
    :param identities: whoever of it is known on this node
    """
    found = discovered()
    about = {"node": node, "user": ", ".join(found["users"]) or None}
    said = list(found["notices"]) + ([found["refusal"]["cause"]] if found["refusal"] else [])
    findings = [
        finding("CONTAINER_NETWORK", "yarn", text, about) for text in said if any(word in text for word in _OWN_NETWORK)
    ]
    if (found["users"] or found["uid_ranges"]) and not _meet(found, scope, identities):
        why = "; ".join(found["found"])
        findings.append(finding("SCOPE_WRONG", "yarn", why, about, "containers"))
    return findings


def _meet(found, scope, identities):
    """Whether any user that containers can run as is in the scope."""
    ranges = [tuple(bounds) for bounds in scope.get("uid_ranges") or []]
    uids = {who["uid"] for who in identities if not who["label"].startswith(("group ", "uid "))}
    gids = {who["gid"] for who in identities if who["label"].startswith("group ")}
    accounts = [account for account in map(account_of, found["users"]) if account]
    if any(a["uid"] in uids or a["gid"] in gids or _within(a["uid"], ranges) for a in accounts):
        return True
    spans = [tuple(bounds) for bounds in found["uid_ranges"]]
    overlap = any(low <= last and first <= high for low, high in spans for first, last in ranges)
    # Whose primary group a submitter has cannot be known before he comes.
    return overlap or any(_within(uid, spans) for uid in uids) or bool(spans and gids)


def _within(uid, ranges):
    return any(low <= uid <= high for low, high in ranges)
