"""Each role's defaults, argument_specs and README say the same; the collection builds, installs and is whole."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import role_readme
import yaml
from unit.nodes import ROOT

ROLES = sorted(path for path in role_readme.ROLES.iterdir() if path.is_dir())
# Facts that roles hand on, and the map: they have no default, since only another role or the inventory knows them.
HANDED = {
    "nat_map",
}


def defaults(role: Path) -> dict[str, Any]:
    path = role / "defaults" / "main.yml"
    return (yaml.safe_load(path.read_text()) or {}) if path.exists() else {}


def each_role(function: Any) -> Any:
    return pytest.mark.parametrize("role", ROLES, ids=[role.name for role in ROLES])(function)


@each_role
def test_every_default_is_specified(role: Path) -> None:
    specified = {name: one.get("default") for name, one in role_readme.options(role).items() if name not in HANDED}
    assert defaults(role) == specified


@each_role
def test_entry_points_agree(role: Path) -> None:
    seen: dict[str, Any] = {}
    for spec in role_readme.entry_points(role).values():
        assert spec["short_description"]
        for name, one in spec.get("options", {}).items():
            assert seen.setdefault(name, one) == one, name


@each_role
def test_every_entry_point_has_its_tasks(role: Path) -> None:
    assert set(role_readme.entry_points(role)) <= {path.stem for path in (role / "tasks").glob("*.yml")}


@each_role
def test_the_readme_has_the_table_of_the_specs(role: Path) -> None:
    assert (role / "README.md").read_text() == role_readme.written(role), "python tests/role_readme.py writes it anew"


@each_role
def test_variables_carry_the_role_s_prefix(role: Path) -> None:
    named = set(defaults(role)) | set(role_readme.options(role)) - HANDED
    assert all(name.startswith(f"{role.name}_") for name in named)
    for path in role.glob("tasks/*.yml"):
        private = {name for task in yaml.safe_load(path.read_text()) for name in task.get("vars", {})}
        assert all(name.startswith(f"__{role.name}_") for name in private), path
    for path in role.glob("vars/*.yml"):
        assert all(name.startswith(f"__{role.name}_") for name in yaml.safe_load(path.read_text())), path


@each_role
def test_task_files_are_tables_of_contents(role: Path) -> None:
    for path in role.glob("tasks/*.yml"):
        assert len(path.read_text().splitlines()) < 60, path


# ------------------------------------------------------------ the collection


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), "collection", f"OUT={folder}"],
        check=True,
        capture_output=True,
    )
    (made,) = folder.glob("kafka-natmap-*.tar.gz")
    return made


def test_the_collection_installs_with_its_templates(tarball: Path, tmp_path: Path) -> None:
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    command = [str(galaxy), "collection", "install", "--offline", str(tarball), "-p", str(tmp_path)]
    # Elsewhere, since this repository's ansible.cfg says that the collection is there already.
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    installed = tmp_path / "ansible_collections" / "kafka" / "natmap"
    wanted = {path.relative_to(ROOT / "ansible") for path in (ROOT / "ansible").glob("roles/*/templates/*")}
    assert wanted
    for path in wanted:
        assert not (installed / path).is_symlink()
        assert (installed / path).read_text() == (ROOT / "ansible" / path).read_text()
    for path in ("README.md", "LICENSE", "meta/runtime.yml", "playbooks/apply.yml", "plugins/filter/natmap.py"):
        assert (installed / path).is_file(), path


def test_the_collection_holds_nothing_but_itself(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = archive.getnames()
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc") or "tests/" in name]


def test_the_collection_says_what_it_needs() -> None:
    galaxy = yaml.safe_load((ROOT / "ansible" / "galaxy.yml").read_text())
    assert (galaxy["namespace"], galaxy["name"], galaxy["license_file"]) == ("kafka", "natmap", "LICENSE")
    runtime = yaml.safe_load((ROOT / "ansible" / "meta" / "runtime.yml").read_text())
    assert runtime["requires_ansible"] == ">=2.16.0"
