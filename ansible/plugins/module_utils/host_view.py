"""One host as a play saw it: what it was asked before a change, and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """Why a host must stay as it is, and what to do about it."""

    cause: str
    mend: str

    @classmethod
    def read(cls, text: str) -> Refusal:
        """From a message that ends with its mend."""
        cause, _, mend = text.partition(". Mend: ")
        return cls(cause.strip(), mend.strip().rstrip(".") or "see the message")

    def __str__(self) -> str:
        return f"{self.cause}. Mend: {self.mend}."


CHANGE, SAME, REFUSED, UNREACHED, PLANNED = "change", "same", "refused", "unreached", "planned"


@dataclass(frozen=True)
class HostView:
    """What is known of one host before it is switched; ``state`` is one of those above, ``bundle`` is JSON."""

    host: str
    state: str
    refusals: tuple[Refusal, ...] = ()
    bundle: str = ""
    preview: Mapping[str, Any] = field(default_factory=dict)
    inspected: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str | None:
        """Of what the host will hold; None where that is not to be carried out."""
        return str(self.preview["digest"]) if self.state in (CHANGE, SAME) else None

    @property
    def before_digest(self) -> str | None:
        """Of what the host holds now."""
        return str(self.preview["before_digest"]) if self.state in (CHANGE, SAME) else None

    @classmethod
    def read(cls, host: str, facts: Mapping[str, Any]) -> HostView:
        """From the facts ``plan_inspected``, ``plan_result``, ``switch_bundle`` and ``switch_preview``."""
        inspected, failure = _answer(facts.get("plan_inspected"))
        if inspected is None:
            return cls._failed(host, failure, "it was not asked")
        problems = (facts.get("plan_result") or {}).get("problems") or ()
        if problems:
            return cls(host, REFUSED, tuple(map(Refusal.read, problems)), inspected=inspected)
        bundle = (facts.get("switch_bundle") or {}).get("text", "")
        if facts.get("switch_preview", {"skipped": True}).get("skipped"):
            return cls(host, PLANNED, (), bundle, {}, inspected)
        preview, failure = _answer(facts["switch_preview"])
        if preview is None:
            return cls._failed(host, failure, "it could not be asked what would change", bundle, inspected)
        if preview["refusal"]:
            refusal = Refusal(preview["refusal"]["cause"], preview["refusal"]["mend"])
            return cls(host, REFUSED, (refusal,), bundle, preview, inspected)
        return cls(host, CHANGE if preview["changes"] else SAME, (), bundle, preview, inspected)

    @classmethod
    def _failed(
        cls,
        host: str,
        failure: str | None,
        otherwise: str,
        bundle: str = "",
        inspected: Mapping[str, Any] | None = None,
    ) -> HostView:
        if failure is None:
            lost = Refusal(otherwise, "make it reachable for Ansible, or take it out of the inventory")
            return cls(host, UNREACHED, (lost,), bundle, {}, inspected or {})
        return cls(host, REFUSED, (Refusal.read(failure),), bundle, {}, inspected or {})


def _answer(registered: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, str | None]:
    """A registered result's answer, or None with the message of the failure; None twice where nobody answered."""
    registered = registered or {}
    if registered.get("unreachable"):
        return None, None
    if registered.get("failed"):
        return None, str(registered.get("msg") or "the module failed")
    return registered.get("answer"), None
