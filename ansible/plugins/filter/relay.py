"""The controller's face of the relay job: its settings checked and resolved, what it is submitted with, its edge program."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.filter import doctor, natmap
from ansible_collections.kafka.natmap.plugins.module_utils import (
    bundle,
    relay_conf,
    relay_findings,
    relay_view,
    relay_walk,
)
from ansible_collections.kafka.natmap.plugins.plugin_utils import relay_yaml

ROLES = Path(__file__).parents[2] / "roles"
SECRET = re.compile("pass|secret|jaas|token|ssl.*key", re.IGNORECASE)
_MAIN = b"import sys\nfrom relay_edge import main\nsys.exit(main(sys.argv[1:]))\n"


def relay_settings(read: Any, app_dir: str, run: str = "", start: str = "") -> dict[str, Any]:
    """The settings as the job gets them, every default filled in.

    :param read: what YAML holds, with the values of variables in their places
    :param run: the name of a replay, or empty
    :param start: where that replay begins, or empty
    """
    settings = _job(app_dir, "settings")
    found: dict[str, Any] = settings.resolved(settings.parse(_plain(read), _plain(run), _plain(start)))
    return found


def relay_wrong(
    read: Any, app_dir: str, run: str, start: str, more: Mapping[str, Any], login: Mapping[str, str]
) -> list[str]:
    """All that is wrong with the settings, and with what they are to be submitted with; a line each."""
    settings = _job(app_dir, "settings")
    wrong = relay_conf.contradictions(login)
    try:
        resolved = relay_settings(read, app_dir, run, start)
    except settings.SettingsError as error:
        return [f"{one.path}: {one.wrong}. Mend: {one.mend}" for one in error.problems] + wrong
    return wrong + relay_conf.broken(resolved, _plain(more))


def relay_unreadable(path: str) -> str:
    """Why a file is no settings file; empty when it is one."""
    try:
        return relay_yaml.read(Path(path).read_text(encoding="utf-8"))[1]
    except (OSError, UnicodeDecodeError) as error:
        return str(error)


def relay_place(resolved: Mapping[str, Any], app_dir: str) -> dict[str, str]:
    """Where a relay is found: its title, its folder's name on the edge, its state directory, and its tag at YARN."""
    settings = _job(app_dir, "settings")
    path = settings.parse(_plain(resolved)).state_path
    title = "/".join(filter(None, (resolved["name"], resolved["run"])))
    tag = "tagdata-" + hashlib.sha256(path.encode()).hexdigest()[:16]
    return {"title": title, "folder": title.replace("/", "."), "state_path": path, "tag": tag}


@lru_cache(maxsize=2)
def relay_program(app_dir: str) -> str:
    """What runs on the edge, as a zipapp in Base64: its own modules, the job's, the probe's session and kafka-python."""
    folders = [
        (ROLES / "switch" / "files", ("kafka_natmap_session.py", "kafka_natmap_wire.py"), ""),
        (ROLES / "spark_job" / "files", ("relay_*.py",), ""),
        (Path(app_dir) / "tagdata", ("*.py",), "tagdata/"),
    ]
    sources = {
        prefix + path.name: path.read_bytes()
        for folder, names, prefix in folders
        for name in names
        for path in folder.glob(name)
    }
    return base64.b64encode(bundle.pack({**doctor._kafka_python(), **sources, "__main__.py": _MAIN})).decode()


def relay_secrets(resolved: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Options of source and sink that no log may show, by side."""
    sides = {side: _options(resolved, side, secret=True) for side in ("source", "sink")}
    return {side: options for side, options in sides.items() if options}


def relay_public(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without their secrets."""
    sides = {side: {**resolved[side], "options": _options(resolved, side, secret=False)} for side in ("source", "sink")}
    return {**_plain(resolved), **_plain(sides)}


def _options(resolved: Mapping[str, Any], side: str, secret: bool) -> dict[str, str]:
    options = _plain(resolved[side]["options"])
    return {key: value for key, value in options.items() if bool(SECRET.search(key)) is secret}


def relay_doctor(
    resolved: Mapping[str, Any], side: str, host: str, user: str, trust: Any = None, nat_map: Any = None
) -> str:
    """What the doctor of a YARN node is asked about one side: every broker, as the job's user.

    :param trust: by side, the certificates that the edge's stores hold
    :param nat_map: the inventory's, which names the brokers where no login does
    """
    one = _walks(resolved, trust)[side]
    topics = resolved["source"].get("topics", []) if side == "source" and not one.short else []
    options = {"topics": topics, "deadline": 10.0, "yarn": False}
    bootstrap = list(resolved[side]["bootstrap"])
    open_ = {key: value for key, value in one.security.items() if key not in ("cadata", "verify", "verify_name")}
    asked = json.loads(doctor.doctor_request(None, host, [], options, ",".join(bootstrap), open_, user))
    for cluster in asked["probe"][0]["clusters"]:
        cluster["security"].update((key, value) for key, value in one.security.items() if key not in open_)
        cluster["brokers"] = relay_walk.pairs(_plain(nat_map) or {}, bootstrap) if one.short else []
    return json.dumps(asked)


def relay_doctor_secrets(resolved: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The secrets of that question."""
    return doctor.doctor_secrets(None, ",".join(resolved[side]["bootstrap"]), _walks(resolved, None)[side].security)


def relay_walked(
    nodes: list[str],
    hostvars: Mapping[str, Any],
    known: list[Mapping[str, Any]],
    resolved: Mapping[str, Any],
    trust: Any,
) -> list[dict[str, str]]:
    """What the YARN nodes found, and what they could not see."""
    walks = _walks(resolved, trust)
    short = [side for side, one in walks.items() if one.short]
    return relay_findings.walked(nodes, hostvars, known, short) + relay_walk.notes(walks)


def relay_asks_for_trust(resolved: Mapping[str, Any]) -> bool:
    """Whether a side speaks TLS."""
    given = (_options_module().kafka_s(resolved[side]["options"]) for side in ("source", "sink"))
    return any(str(one.get("security.protocol", "")).upper().endswith("SSL") for one in given)


def _walks(resolved: Mapping[str, Any], trust: Any) -> dict[str, relay_walk.Walk]:
    read, found = _options_module(), _plain(trust) or {}
    return {
        side: relay_walk.walk(read.kafka_s(_plain(resolved[side]["options"])), found.get(side) or {}, read.login)
        for side in ("source", "sink")
    }


@lru_cache(maxsize=1)
def _options_module() -> ModuleType:
    """The edge's own reading of options, so that both say the same."""
    spec = importlib.util.spec_from_file_location("relay_options", ROLES / "spark_job" / "files" / "relay_options.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def relay_files(resolved: Mapping[str, Any], place: Mapping[str, str], app_dir: str, logging: str) -> dict[str, str]:
    """What is installed for a relay, each file in Base64; the package as a zip, the same bytes for the same sources."""
    own = {"tagdata.json": relay_json(resolved), "relay.json": relay_json(place), "log4j2.properties": logging}
    return _installed(app_dir, "tagdata.py", own)


def relay_audit_files(app_dir: str, logging: str) -> dict[str, str]:
    """What is installed for an audit; its settings are those that the relay was deployed with."""
    return _installed(app_dir, "audit.py", {"log4j2.properties": logging})


def _installed(app_dir: str, program: str, texts: Mapping[str, str]) -> dict[str, str]:
    folder = Path(app_dir)
    package = {f"tagdata/{path.name}": path.read_bytes() for path in (folder / "tagdata").glob("*.py")}
    files = {program: (folder / program).read_bytes(), "tagdata.zip": bundle.pack(package)}
    files.update((name, str(text).encode()) for name, text in texts.items())
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def relay_digests(paths: list[str]) -> dict[str, str]:
    """SHA-256 of files by their names."""
    return {Path(path).name: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def relay_json(resolved: Mapping[str, Any]) -> str:
    """The settings as a file."""
    return json.dumps(_plain(resolved), indent=1, sort_keys=True) + "\n"


def _plain(value: Any) -> Any:
    """What Ansible read, as plain Python: its own kinds of text carry tags."""
    value = natmap._plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _job(app_dir: str, name: str) -> ModuleType:
    """A module of the job's own package, so that both say the same."""
    if not (Path(app_dir) / "tagdata" / f"{name}.py").is_file():
        raise AnsibleFilterError(f"{app_dir} holds no tagdata/{name}.py. Mend: set spark_job_app_dir")
    if app_dir not in sys.path:
        sys.path.append(app_dir)
    return importlib.import_module(f"tagdata.{name}")


def relay_title(named: str, run: str = "") -> str:
    """The title of a relay that is named by itself or by its settings' file; empty stands for all of them."""
    named = _plain(named)
    if Path(named).is_file():
        # Its name alone is wanted: values that come from a vault may be out of reach here.
        data, wrong = relay_yaml.read(Path(named).read_text(encoding="utf-8"))
        if wrong or not (data or {}).get("name"):
            raise AnsibleFilterError(f"{named}: {wrong or 'it names no relay'}. Mend: RELAY=NAME instead")
        named = str(data["name"])
    elif "/" in named or "." in named:
        raise AnsibleFilterError(f"{named} is no file. Mend: RELAY=FILE, or RELAY=NAME of one that was deployed")
    return "/".join(filter(None, (named, _plain(run) if named else "")))


def relay_lines(views: list[dict[str, Any]], app_dir: str) -> list[str]:
    """A line for each relay, as people read it."""
    return [relay_view.told(view, _job(app_dir, "status").line) for view in views]


def relay_prometheus(views: list[dict[str, Any]], app_dir: str) -> str:
    """All relays in Prometheus' text format; one that has died is in none of the states that it could tell."""
    status = _job(app_dir, "status")
    judged = [relay_view.judged(view) for view in views if view["status"]]
    return relay_view.merged([status.prometheus({**view["status"], "state": view["state"]}) for view in judged])


def relay_audit_lines(figures: Mapping[str, Any], title: str, app_dir: str) -> list[str]:
    """What an audit found: the verdict, then the job's own table."""
    wrong = relay_audit_problems(figures, app_dir)
    verdict = ", ".join(wrong) if wrong else "nothing lost, altered or reordered"
    return [f"audit of {title}: {verdict}", "", *_job(app_dir, "figures").lines(figures)]


def relay_audit_problems(figures: Mapping[str, Any], app_dir: str) -> list[str]:
    """What makes an audit fail."""
    return list(_job(app_dir, "figures").problems(figures))


def relay_audit_report(figures: Mapping[str, Any], title: str) -> str:
    """An audit as JSON, for programs."""
    return relay_json({"format": 1, "relay": title, **figures})


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "relay_settings": relay_settings,
            "relay_wrong": relay_wrong,
            "relay_unreadable": relay_unreadable,
            "relay_secrets": relay_secrets,
            "relay_public": relay_public,
            "relay_doctor": relay_doctor,
            "relay_doctor_secrets": relay_doctor_secrets,
            "relay_title": relay_title,
            "relay_place": relay_place,
            "relay_program": relay_program,
            "relay_files": relay_files,
            "relay_digests": relay_digests,
            "relay_audit_files": relay_audit_files,
            "relay_audit_lines": relay_audit_lines,
            "relay_audit_problems": relay_audit_problems,
            "relay_audit_report": relay_audit_report,
            "relay_audit_conf": relay_conf.audited,
            "relay_unclear": relay_view.unclear,
            "relay_conf": relay_conf.submitted,
            "relay_lines": relay_lines,
            "relay_prometheus": relay_prometheus,
            "relay_problems": relay_view.problems,
            "relay_report": relay_view.report,
            "relay_applications": relay_view.applications,
            "relay_walked": relay_walked,
            "relay_asks_for_trust": relay_asks_for_trust,
            "relay_check_lines": relay_findings.lines,
        }
