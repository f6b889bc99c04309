"""A node's state in a folder of the test: every path constant of the node program leads there, its programs are the real ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import kafka_natmap_guard  # noqa: F401 - loads every module whose paths are changed
import kafka_natmap_inotify  # noqa: F401
import kafka_natmap_status  # noqa: F401
import kafka_natmap_watch  # noqa: F401
import pytest
from ansible_collections.kafka.natmap.plugins.module_utils import bundle
from kafka_natmap_layers import FILES, layers_of
from kafka_natmap_system import digest_of_texts
from unit.nodes import JINJA, node, planned, printed

LAYER_OF = {"nftables.nft": "nftables", "iptables.rules": "iptables", "hosts": "hosts"}
UNIT = "kafka-natmap-a.service"


class Machine:
    """The folders of one node."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.etc, self.lib, self.run, self.units = (root / name for name in ("etc", "lib", "run", "units"))
        for folder in (self.etc, self.lib, self.run, self.units):
            folder.mkdir()
        self.hosts = root / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n")
        paths = {"ETC": self.etc, "LIB": self.lib, "RUN": self.run, "UNITS": self.units, "HOSTS": self.hosts}
        for name, module in list(sys.modules.items()):
            for constant, path in paths.items() if name.startswith("kafka_natmap_") else ():
                if hasattr(module, constant):
                    monkeypatch.setattr(module, constant, str(path))

    @property
    def generation(self) -> Path:
        return self.lib / "a" / "generation.json"

    def confirm(
        self, natmap: Any, drift: str = "repair", more: dict[str, str] | None = None, **facts: Any
    ) -> dict[str, Any]:
        """Put a map's layers on this node and keep them, as a switch leaves it; ``more`` texts by layer beside them."""
        plan = planned(natmap, node(**facts))
        texts = (more or {}) | {LAYER_OF[name]: text for name, text in printed(plan).items() if name in LAYER_OF}
        if plan.exempt:
            texts["notrack"] = JINJA.get_template("notrack.nft.j2").render(plan=plan.as_dict())
        units = {UNIT: "[Unit]\n"}
        made = bundle.make_bundle(natmap, plan, node(**facts), texts, units, sys.executable, drift)
        layers = dict(layers_of({**made["names"], "owner": "a"}))
        state: dict[str, Any] = {}
        for folder in (self.lib / "a", self.etc / "a"):
            folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            layers[name].load(text, state)
        snapshots = {name: layers[name].snapshot() for name in texts}
        made.update(state=state, since="2026-01-01T00:00:00Z", by="ops", snapshots=snapshots)
        made["digest"] = digest_of_texts({key: made[key] for key in ("owner", "texts", "units")})
        (self.units / UNIT).write_text(units[UNIT])
        for name, text in texts.items():
            (self.etc / "a" / FILES[name]).write_text(text)
        self.generation.write_text(json.dumps(made))
        return made

    def audited(self) -> list[dict[str, Any]]:
        """The node's record."""
        file = self.lib / "audit.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def said(self) -> dict[str, Any]:
        """What the watch says of itself."""
        found: dict[str, Any] = json.loads((self.run / "watch-a.json").read_text())
        return found
