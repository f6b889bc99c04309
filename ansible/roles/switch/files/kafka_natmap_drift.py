"""What of a confirmed generation this node no longer holds as it was left, layer by layer, in words."""

import json
import os

from kafka_natmap_layers import FILES, layers_of
from kafka_natmap_system import ETC, UNITS, read_text, run

# Of a difference, this many lines are told.
MOST_LINES = 12
LONGEST = 160


def differences(generation, only=None):
    """What differs now: a list of {"what", "before", "now"}; `what` is a layer, a unit or a file of ours.

    :param only: the names of the layers to look at; None looks at all of them, at units and at files
    """
    found = []
    for name, layer in layers_of(dict(generation["names"], owner=generation["owner"])):
        if generation["texts"].get(name) is None or (only is not None and name not in only):
            continue
        kept, live = generation["snapshots"].get(name), layer.snapshot()
        if kept != live:
            found.append(described(name, kept, live))
    if only is None or "files" in only:
        found += [
            described(path, text, read_text(path)) for path, text in files_of(generation) if read_text(path) != text
        ]
    return found


def files_of(generation):
    """(path, text) of every file that belongs to a generation, but for those that a layer itself looks at."""
    units = [(os.path.join(UNITS, unit), text) for unit, text in sorted(generation["units"].items())]
    folder = os.path.join(ETC, generation["owner"])
    return units + [
        (os.path.join(folder, FILES[name]), text)
        for name, text in sorted(generation["texts"].items())
        if name not in ("nginx", "routes")
    ]


def described(what, kept, live):
    """One difference: the lines that are gone, and those that stand there instead."""
    for whole in (False, True):
        before, now = ([] if text is None else lines_of(text, whole) for text in (kept, live))
        gone, new = _without(before, now), _without(now, before)
        if gone or new:
            break
    return {"what": what, "before": shortened(gone), "now": shortened(new) if live is not None else "nothing at all"}


def _without(lines, others):
    held = set(others)
    return [line for line in lines if line not in held]


def shortened(lines):
    """The first lines, and how many more there are."""
    more = ["and %d more" % (len(lines) - MOST_LINES)] if len(lines) > MOST_LINES else []
    told = [line if len(line) <= LONGEST else line[:LONGEST] + " ..." for line in lines[:MOST_LINES]]
    return "\n".join(told + more)


def lines_of(text, whole=False):
    """A snapshot in words, one line each; nft's JSON as a person would name its items.

    :param whole: rules with all that they do, not only by their comment
    """
    found = []
    for line in text.splitlines():
        try:
            item = json.loads(line)
        except ValueError:
            item = None
        found += _nft_words(item, whole) if isinstance(item, dict) else [line]
    return found


def _nft_words(item, whole):
    kind, value = next(iter(item.items()))
    if kind == "rule":
        said = "rule in chain %s" % value["chain"]
        comment = ' "%s"' % value["comment"] if value.get("comment") else ""
        return [said + comment + (": " + json.dumps(value["expr"], sort_keys=True) if whole or not comment else "")]
    if kind in ("map", "set"):
        head = "%s %s" % (kind, value["name"])
        return [head] + ["%s: %s" % (head, _element(one)) for one in value.get("elem", ())]
    if kind == "chain" and "hook" in value:
        return ["chain %(name)s at hook %(hook)s, priority %(prio)s, policy %(policy)s" % value]
    return ["%s %s" % (kind, value.get("name"))]


def _element(value):
    if isinstance(value, list):
        return " -> ".join(_element(part) for part in value)
    if isinstance(value, dict) and "elem" in value:
        return _element(value["elem"]["val"])
    if isinstance(value, dict) and "concat" in value:
        return ":".join(str(part) for part in value["concat"])
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def enabled(unit):
    """Whether systemd starts a unit at boot."""
    return run(["systemctl", "is-enabled", "--quiet", unit])[0] == 0
