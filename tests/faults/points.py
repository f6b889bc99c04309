"""Where a switch can be stopped: points of its protocol, each told by what it opens there, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faults.gate import Opening

OWNER = "faults"
STATE = f"/var/lib/kafka-natmap/{OWNER}"
Test = Callable[[Opening], bool]


def _runs(*arguments: str) -> Test:
    # nft reads this file before it does its work; its arguments are known by then.
    return lambda opening: opening.arguments == ("nft", *arguments) and opening.path == "/etc/iproute2/rt_realms"


def _begins(program: str) -> Test:
    return lambda opening: opening.path == f"/usr/bin/{program}" and "switch-now" in opening.arguments


def _writes_state(opening: Opening) -> bool:
    return opening.path.startswith(f"{STATE}/.kafka-natmap-")


def _wrote_state(opening: Opening) -> bool:
    return opening.path == STATE


def _probes(opening: Opening) -> bool:
    return "probe" in opening.arguments


def _installs(opening: Opening) -> bool:
    return opening.path == "/usr/libexec/kafka-natmap/.kafka-natmap.pyz"


_CHECK, _LOAD = _runs("-c", "-f", "-"), _runs("-f", "-")
_ARMED = (_CHECK, _writes_state)
_LOADED = (*_ARMED, _LOAD, _LOAD)
_PROBED = (*_LOADED, _probes)


@dataclass(frozen=True)
class Point:
    """A point of the protocol: the step it belongs to, what is about to happen, and the openings that lead there."""

    step: str
    about_to: str
    way: tuple[Test, ...]

    def matcher(self) -> Test:
        """True for the opening that completes the way, once."""
        left = list(self.way)

        def matches(opening: Opening) -> bool:
            if left and left[0](opening):
                left.pop(0)
                return not left
            return False

        return matches


# Prepare is over: what turns bad here, only the probe can find.
PREPARED = Point("arm", "install the program", (_CHECK, _installs))
PREPARE = Point("prepare", "check the new rules", (_CHECK,))
ARM = Point("arm", "save where it comes from", _ARMED)
TIMER = Point("arm", "start the undo timer", (*_ARMED, _begins("systemd-run")))
LOAD = Point("load", "load the first table", (*_ARMED, _LOAD))
HALF = Point("load", "load the second table", _LOADED)
PROBE = Point("probe", "ask the brokers", _PROBED)
CONFIRM = Point("confirm", "write the generation", (*_PROBED, _writes_state))
WRITTEN = Point("confirm", "disarm, the generation is written", (*_PROBED, _wrote_state))
DISARMED = Point("confirm", "stop the undo timer", (*_PROBED, _wrote_state, _begins("systemctl")))
# The same for mechanisms other than nftables: the state is written when armed, then when confirmed.
ANY_CONFIRM = Point("confirm", "write the generation", (_writes_state, _writes_state))
UNDO = Point("undo", "load the first old table", (*_PROBED, _LOAD))
UNDO_HALF = Point("undo", "load the second old table", (*_PROBED, _LOAD, _LOAD))

TO_LOAD: Sequence[Point] = (PREPARE, ARM, TIMER, LOAD, HALF, PROBE)
TO_CONFIRM: Sequence[Point] = (CONFIRM, WRITTEN, DISARMED)
TO_UNDO: Sequence[Point] = (UNDO, UNDO_HALF)
