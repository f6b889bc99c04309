"""A lab's own Ansible inventory, made of the committed one: other names, other addresses, only hosts that are there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from lab.topology import BUILD, ROOT, Lab

GROUPS = {"yarn_nodes": ("nm1", "nm2"), "nat_gateways": ("gateway",), "spark_edge": ("edge",)}
_VARIABLES = {
    "ansible_connection": "containers.podman.podman",
    "ansible_python_interpreter": "/usr/bin/python3",
}


def path(lab: str) -> Path:
    return BUILD / "lab" / lab / "inventory"


def write(lab: Lab, extra: Iterable[str] = ()) -> Path:
    """Write build/lab/NAME/inventory; added nodes are YARN nodes. Returns the folder."""
    folder = path(lab.name)
    folder.mkdir(parents=True, exist_ok=True)
    groups = {group: [h for h in names if lab.has(h)] for group, names in GROUPS.items()}
    groups["yarn_nodes"] += sorted(extra)
    children = {
        group: {"hosts": {h: {"ansible_host": lab.container(h)} for h in names}} for group, names in groups.items()
    }
    (folder / "hosts.json").write_text(json.dumps({"all": {"vars": _VARIABLES, "children": children}}, indent=2))
    for source in sorted((ROOT / "inventory/group_vars").rglob("*.yml")):
        target = folder / source.relative_to(ROOT / "inventory")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(translate(source.read_text(), lab))
    return folder


def translate(text: str, lab: Lab) -> str:
    """A text of the committed inventory with this lab's addresses."""
    default = Lab()
    for net in ("hq", "site", "nat"):
        # Through a name that no text holds, so that one lab's HQ is never taken for another's site.
        text = text.replace(f"{default.prefix(net)}.", f"\0{net}.")
    for net in ("hq", "site", "nat"):
        text = text.replace(f"\0{net}.", f"{lab.prefix(net)}.")
    return text
