"""A relay's settings on the controller, and what is submitted with them."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.filter import relay
from ansible_collections.kafka.natmap.plugins.module_utils import relay_conf
from ansible_collections.kafka.natmap.plugins.modules import relay_files, spark_submit
from unit.nodes import ROOT

APP = str(ROOT / "spark_app")
NOBODY = {"keytab": "", "principal": "", "proxy_user": ""}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p w";'


def read(**changes: Any) -> dict[str, Any]:
    """The example's settings, changed."""
    return {**yaml.safe_load((ROOT / "spark_app" / "relay.yml.example").read_text()), **changes}


def submitted(
    more: dict[str, Any] | None = None, share: dict[str, Any] | None = None, **changes: Any
) -> dict[str, str]:
    resolved = relay.relay_settings(read(**changes), APP)
    return relay_conf.submitted(resolved, relay.relay_place(resolved, APP), share or {}, more or {})


def test_the_example_will_do() -> None:
    assert relay.relay_wrong(read(), APP, "", "", {}, NOBODY) == []
    assert relay.relay_settings(read(), APP)["limits"]["max_records_per_batch"] == 500_000


def test_every_problem_is_told_at_once() -> None:
    wrong = relay.relay_wrong(
        read(name="Ä", nmae=1), APP, "", "earliest", {"spark.speculation": True}, {**NOBODY, "keytab": "/k", "proxy_user": "x"}
    )  # fmt: skip
    assert [line.split(":")[0] for line in wrong if "Mend" in line] == [
        "name", "nmae", "FROM", "spark_job_keytab", "spark_job_proxy_user",
    ]  # fmt: skip
    more = relay.relay_wrong(read(), APP, "", "", {"spark.speculation": True, "spark.task.maxFailures": 4}, NOBODY)
    assert [line.split("=")[0] for line in more] == [
        "spark_job_conf: spark.speculation",
        "spark_job_conf: spark.task.maxFailures",
    ]


def test_settings_that_agree_with_the_fixed_ones_are_taken() -> None:
    assert not relay.relay_wrong(read(), APP, "", "", {"spark.speculation": False, "spark.task.maxFailures": 1}, NOBODY)


def test_a_replay_has_a_place_and_a_tag_of_its_own() -> None:
    main = relay.relay_place(relay.relay_settings(read(), APP), APP)
    replay = relay.relay_place(relay.relay_settings(read(), APP, "again", "earliest"), APP)
    assert (main["title"], replay["title"], replay["folder"]) == ("audit", "audit/again", "audit.again")
    assert main["state_path"].endswith("/main")
    assert replay["state_path"].endswith("/runs/again")
    assert main["tag"] != replay["tag"]
    assert max(len(main["tag"]), len(replay["tag"])) <= 100


def test_secrets_are_apart_from_the_rest_and_come_together_again() -> None:
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    source = {**read()["source"], "options": {"kafka.sasl.jaas.config": JAAS, **login}}
    resolved = relay.relay_settings(read(source=source), APP)
    assert JAAS not in str(relay.relay_public(resolved))
    assert relay.relay_secrets(resolved) == {"source": {"kafka.sasl.jaas.config": JAAS}}
    assert relay.relay_public(resolved)["source"]["options"] == login


def test_the_nodes_ask_as_the_job_does() -> None:
    options = {
        "kafka.sasl.jaas.config": JAAS,
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.security.protocol": "SASL_PLAINTEXT",
    }
    resolved = relay.relay_settings(read(source={**read()["source"], "options": options}), APP)
    asked = relay.relay_doctor(resolved, "source", "nm1", "yarn")
    assert "p w" not in asked
    assert '"topics": ["audit"]' in asked
    assert [one["password"] for one in relay.relay_doctor_secrets(resolved, "source").values()] == ["p w"]


PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
SCRAM = {"kafka.sasl.jaas.config": JAAS, "kafka.sasl.mechanism": "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("options", "trust", "asked", "short", "unchecked"),
    [
        ({}, {}, {"protocol": "PLAINTEXT"}, "", ""),
        ({"kafka.security.protocol": "SSL"}, {"cadata": PEM}, {"protocol": "SSL", "cadata": PEM, "verify_name": True}, "", ""),
        ({"kafka.security.protocol": "SSL"}, {"why": "no keytool"}, {"protocol": "SSL", "verify": False}, "", "no keytool"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.location": "k.jks"}, {"cadata": PEM},
            {"protocol": "SSL", "cadata": PEM, "verify_name": True}, "client's certificate", "",
        ),
        (
            {**SCRAM, "kafka.security.protocol": "SASL_SSL", "kafka.ssl.endpoint.identification.algorithm": ""}, {"cadata": PEM},
            {"protocol": "SASL_SSL", "cadata": PEM, "verify_name": False, "mechanism": "SCRAM-SHA-512"}, "", "",
        ),
        ({"kafka.security.protocol": "SASL_PLAINTEXT"}, {}, {"protocol": "PLAINTEXT"}, "Kerberos", ""),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"}, {"cadata": PEM},
            {"protocol": "SSL", "cadata": PEM}, "OAUTHBEARER", "",
        ),
    ],
)  # fmt: skip
def test_the_nodes_speak_the_job_s_protocol_as_far_as_they_can(
    options: dict[str, str], trust: dict[str, str], asked: dict[str, Any], short: str, unchecked: str
) -> None:
    resolved = relay.relay_settings(read(source={**read()["source"], "options": options}), APP)
    nat_map = {"clusters": {"hq": {"brokers": [{"id": 1, "advertised": "a:1", "reachable": "198.18.3.21:9092"}]}}}
    request = json.loads(relay.relay_doctor(resolved, "source", "nm1", "yarn", {"source": trust}, nat_map))
    (cluster,) = request["probe"][0]["clusters"]
    security = cluster["security"]
    assert {key: security.get(key) for key in asked} == asked
    assert "p w" not in str(request)
    # Without a login nobody names the brokers, so the map does; nor can a topic be asked for.
    assert bool(cluster["brokers"]) is bool(short)
    assert request["topics"] == ([] if short else ["audit"])
    told = relay.relay_walked([], {}, [], resolved, {"source": trust})[1:]
    assert all(one["level"] == "note" and one["mend"] for one in told)
    assert [part in one["cause"] for part, one in zip(filter(None, (short, unchecked)), told, strict=True)] == [
        True
    ] * len(told)
    assert relay.relay_asks_for_trust(resolved) is security["protocol"].endswith("SSL")


def test_a_relay_is_named_by_its_name_or_its_file(tmp_path: Path) -> None:
    file = tmp_path / "r.yml"
    file.write_text("# x\nname: audit # y\nsink: {password: !vault x}\n")
    assert relay.relay_title(str(file)) == "audit"
    assert relay.relay_title("audit", "again") == "audit/again"
    assert relay.relay_title("") == ""
    with pytest.raises(AnsibleFilterError, match="is no file"):
        relay.relay_title("no/such.yml")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("name: audit\nsink: {password: !vault x}\n", ""),
        ("$ANSIBLE_VAULT;1.1;AES256\n6162\n", ""),
        ("a: [", "line 1, column 5: expected the node content, but found '<stream end>'"),
        ("name: a\nsink:\n  x: 1\n  x: 2\n", "line 4, column 3: the key x is there twice"),
        ("", "it holds no keys with values"),
        ("- a", "it holds no keys with values"),
    ],
)
def test_a_file_is_yaml_with_each_key_once(text: str, wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "r.yml"
    file.write_text(text)
    assert relay.relay_unreadable(str(file)) == wrong


# ------------------------------------------------------------ what is submitted


def test_the_table_of_the_readme_is_what_is_submitted() -> None:
    parameters = {"spark_home": "/s", "application": "t.py", "arguments": [], "jars": [], "files": [], "py_files": []}
    command = spark_submit.command_line({**parameters, "proxy_user": "", "conf": submitted()})
    told = relay_conf.table()
    assert told in (ROOT / "README.md").read_text(), "print(relay_conf.table()) writes it anew"
    rows = [row.split(" | ") for row in told.splitlines()[2:]]
    assert len(rows) == len(relay_conf.LASTING)
    for name, value, _ in rows:
        assert f"{name.strip('| `')}={value.strip('`')}".replace("\\|", "|") in command


def test_a_task_may_be_tried_again_where_nobody_counts_on_it() -> None:
    assert submitted()["spark.task.maxFailures"] == "1"
    assert submitted(dedup=False)["spark.task.maxFailures"] == "4"


def test_the_site_s_own_properties_come_last_and_empty_ones_not_at_all() -> None:
    share = {"spark.driver.memory": "1g", "spark.yarn.queue": "", "spark.yarn.tags": "team-a"}
    conf = submitted({"spark.yarn.maxAppAttempts": 2, "spark.driver.memory": "2g"}, share)
    assert (conf["spark.yarn.maxAppAttempts"], conf["spark.driver.memory"]) == ("2", "2g")
    assert "spark.yarn.queue" not in conf
    assert conf["spark.yarn.tags"].split(",")[0::2] == ["tagdata", "team-a"]


def test_an_audit_is_submitted_as_the_relay_s_user_and_never_taken_for_the_relay() -> None:
    place = relay.relay_place(relay.relay_settings(read(), APP), APP)
    share = {"spark.kerberos.keytab": "/k", "spark.yarn.queue": "", "spark.yarn.tags": place["tag"]}
    conf = relay_conf.audited(place, share, {"spark.yarn.maxAppAttempts": 4})
    assert (conf["spark.kerberos.keytab"], conf["spark.yarn.maxAppAttempts"]) == ("/k", "1")
    assert "spark.yarn.queue" not in conf
    assert place["tag"] not in conf["spark.yarn.tags"]
    assert set(relay.relay_audit_files(APP, "x")) == {"audit.py", "tagdata.zip", "log4j2.properties"}


def test_what_is_installed_is_whole_and_the_same_each_time() -> None:
    resolved = relay.relay_settings(read(), APP)
    files = relay.relay_files(resolved, relay.relay_place(resolved, APP), APP, "rootLogger.level = info\n")
    assert files == relay.relay_files(resolved, relay.relay_place(resolved, APP), APP, "rootLogger.level = info\n")
    names = zipfile.ZipFile(io.BytesIO(base64.b64decode(files["tagdata.zip"]))).namelist()
    assert {"tagdata/__init__.py", "tagdata/settings.py"} <= set(names)
    assert base64.b64decode(files["tagdata.py"]) == (ROOT / "spark_app" / "tagdata.py").read_bytes()
    assert relay.relay_settings(json.loads(base64.b64decode(files["tagdata.json"])), APP) == resolved


def test_files_are_written_where_they_differ(tmp_path: Path) -> None:
    content = base64.b64encode(b"x").decode()
    params = {"folder": str(tmp_path), "files": {"a": content, "b": content}, "private": ["b"]}
    assert relay_files.put(params, "a", check=True)
    assert not list(tmp_path.iterdir())
    assert relay_files.put(params, "a", check=False)
    assert relay_files.put(params, "b", check=False)
    assert not relay_files.put(params, "b", check=False)
    assert [(path.name, path.stat().st_mode & 0o777) for path in sorted(tmp_path.iterdir())] == [
        ("a", 0o644),
        ("b", 0o600),
    ]
    (tmp_path / "b").chmod(0o644)
    assert relay_files.put(params, "b", check=False)
