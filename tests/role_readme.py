"""The variables table of each role's README, from its argument_specs. `python tests/role_readme.py` writes them anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).parents[1] / "ansible" / "roles"
HEAD = "| variable | type | default | meaning |\n|---|---|---|---|\n"


def options(role: Path) -> dict[str, dict[str, Any]]:
    """Every option of a role by name, those of its further entry points after those of main."""
    return {name: one for spec in entry_points(role).values() for name, one in spec.get("options", {}).items()}


def entry_points(role: Path) -> dict[str, dict[str, Any]]:
    """The argument specs of a role, by entry point."""
    specs: dict[str, dict[str, Any]] = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())
    return specs["argument_specs"]


def table(role: Path) -> str:
    """The table as Markdown."""
    rows = [
        f"| `{name}` | {one.get('type', 'str')} | {default(one)} | {meaning(one)} |\n"
        for name, one in options(role).items()
    ]
    return HEAD + "".join(rows) if rows else ""


def default(option: dict[str, Any]) -> str:
    """A default as it may stand in a table; empty where there is none."""
    if option.get("required"):
        return "required"
    value = option.get("default")
    if value in (None, "", [], {}):
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return "`" + text.replace("|", "\\|") + "`"


def meaning(option: dict[str, Any]) -> str:
    """The description without Ansible's markup."""
    text = option["description"] if isinstance(option["description"], str) else " ".join(option["description"])
    text = re.sub(r"P\(([\w.]+)#role\)", r"`\1`", text)
    return re.sub(r"[COVB]\(([^)]*)\)", r"`\1`", text).replace("|", "\\|")


def written(role: Path) -> str:
    """The README with its table as it should be."""
    text = (role / "README.md").read_text()
    start = text.find(HEAD)
    return (text if start < 0 else text[:start]) + table(role)


if __name__ == "__main__":
    for folder in sorted(ROLES.iterdir()):
        (folder / "README.md").write_text(written(folder))
