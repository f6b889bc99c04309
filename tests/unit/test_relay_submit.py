"""How the relay is submitted and followed."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kafka.natmap.plugins.modules import spark_submit, yarn_application

PARAMETERS: dict[str, Any] = {
    "spark_home": "/opt/spark",
    "application": "/srv/relay.py",
    "arguments": ["@relay.args"],
    "jars": ["/srv/a.jar", "/srv/b.jar"],
    "files": ["/srv/relay.args"],
    "py_files": [],
    "proxy_user": "",
    "conf": {"spark.driver.memory": "1g"},
}


def report(state: str, final: str = "UNDEFINED", logs: str | None = "SUCCEEDED") -> dict[str, Any]:
    return {"state": state, "finalStatus": final, "diagnostics": "", "logAggregationStatus": logs}


def test_submits_in_cluster_mode_and_does_not_wait() -> None:
    command = spark_submit.command_line(PARAMETERS)
    assert command[:5] == ["/opt/spark/bin/spark-submit", "--master", "yarn", "--deploy-mode", "cluster"]
    assert command[-2:] == ["/srv/relay.py", "@relay.args"]
    assert command[command.index("--jars") + 1] == "/srv/a.jar,/srv/b.jar"
    assert command[command.index("--files") + 1] == "/srv/relay.args"
    assert {"spark.driver.memory=1g", "spark.yarn.submit.waitAppCompletion=false"} <= set(command)


def test_leaves_out_what_is_not_given() -> None:
    assert not {"--jars", "--files"} & set(spark_submit.command_line({**PARAMETERS, "jars": [], "files": []}))


def test_names_the_submitted_bytes_as_git_does(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_bytes(b"print('\xc3\xa4')\r\n")
    named = subprocess.run(
        ["git", "hash-object", "--no-filters", str(file)], capture_output=True, text=True, check=True
    )
    assert spark_submit.git_blob(str(file)) == named.stdout.strip()


@pytest.mark.parametrize(
    ("app", "running", "ended"),
    [
        (report("ACCEPTED"), False, False),
        (report("RUNNING"), True, False),
        (report("FINISHED", "SUCCEEDED", "RUNNING"), True, True),
        (report("FINISHED", "FAILED", "RUNNING"), False, False),
        (report("FINISHED", "FAILED", "NOT_START"), False, False),
        (report("FINISHED", "FAILED"), True, True),
        (report("FAILED", "FAILED", "DISABLED"), True, True),
        (report("KILLED", "KILLED", None), True, True),
    ],
)
def test_waits_for_a_state_and_for_the_logs_of_a_failure(app: dict[str, Any], running: bool, ended: bool) -> None:
    assert yarn_application.has_reached(app, "running") is running
    assert yarn_application.has_reached(app, "ended") is ended


def test_takes_the_cause_from_the_log_then_from_yarn() -> None:
    killed = report("KILLED", "KILLED")
    assert yarn_application.cause(killed, "java.io.IOException: x") == "java.io.IOException: x"
    assert yarn_application.cause({**killed, "diagnostics": "killed by etl\n"}, "") == "killed by etl"
    assert yarn_application.cause(killed, "") == "YARN says no more than KILLED"


def test_gives_up_on_a_silent_resourcemanager() -> None:
    code, log = spark_submit.run(
        ["sh", "-c", "echo Connecting to ResourceManager >&2; exec sleep 60"], {"PATH": "/bin"}, 1
    )
    assert code is None
    assert log == "Connecting to ResourceManager\n"


def test_says_what_is_missing(tmp_path: Path) -> None:
    assert "install Spark there" in spark_submit.missing(str(tmp_path / "spark-submit"), {})
    assert "HADOOP_CONF_DIR, which is not set" in spark_submit.missing("/bin/sh", {})
    (tmp_path / "yarn-site.xml").touch()
    assert not spark_submit.missing("/bin/sh", {"HADOOP_CONF_DIR": str(tmp_path)})
