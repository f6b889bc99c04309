#!/usr/bin/python
"""Submit a Spark application to YARN."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kafka.natmap.plugins.module_utils import spark_log

DOCUMENTATION = """
module: spark_submit
short_description: Submit a Spark application to YARN
description:
  - Runs C(spark-submit) in cluster mode and returns as soon as the ResourceManager has accepted the application.
  - Follow it with M(kafka.natmap.yarn_application).
options:
  spark_home:
    description: Where Spark is installed.
    type: path
    required: true
  application:
    description: The application's main file.
    type: path
    required: true
  arguments:
    description: Its arguments. They can be seen in the process list, so secrets belong in a file.
    type: list
    elements: str
    default: []
  jars:
    description: Jars on the class path of driver and executors.
    type: list
    elements: path
    default: []
  files:
    description: Files that are put into the working directory of driver and executors.
    type: list
    elements: path
    default: []
  py_files:
    description: Python files and zips for the driver's path.
    type: list
    elements: path
    default: []
  proxy_user:
    description: Whom to submit as, where the cluster lets the submitting user stand in for others.
    type: str
    default: ""
  conf:
    description: Spark's properties.
    type: dict
    default: {}
  environment:
    description: The environment of C(spark-submit); C(HADOOP_CONF_DIR) says which cluster it submits to.
    type: dict
    default: {}
  timeout:
    description: Seconds that the ResourceManager has to accept the application.
    type: int
    default: 300
author:
  - The kafka-natmap authors
"""

EXAMPLES = """
- name: Submit the relay
  kafka.natmap.spark_submit:
    spark_home: /opt/spark
    application: /srv/spark-jobs/relay/relay.py
    arguments: ["@relay.args"]
    files: [/srv/spark-jobs/relay/relay.args]
    environment:
      HADOOP_CONF_DIR: /etc/hadoop/conf
"""

RETURN = """
application_id:
  description: The application's id at the ResourceManager.
  returned: success
  type: str
tracking_url:
  description: The ResourceManager's page of the application.
  returned: success
  type: str
git_blob:
  description: The name that git gives to the bytes of the submitted main file.
  returned: success
  type: str
"""


ENDS = {None: "had no answer from the ResourceManager in time", 0: "submitted nothing"}


def git_blob(path: str) -> str:
    """The object name of a file's bytes in a git repository of SHA-1 format (gitformat-pack)."""
    with open(path, "rb") as file:
        content = file.read()
    # usedforsecurity is missing before Python 3.9; this names bytes, it protects nothing
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def command_line(params: dict[str, Any]) -> list[str]:
    """What is run."""
    command = [os.path.join(params["spark_home"], "bin", "spark-submit")]
    command += ["--master", "yarn", "--deploy-mode", "cluster"]
    for option in "jars", "files", "py_files":
        if params[option]:
            command += ["--" + option.replace("_", "-"), ",".join(params[option])]
    if params["proxy_user"]:
        command += ["--proxy-user", params["proxy_user"]]
    conf = dict(params["conf"], **{"spark.yarn.submit.waitAppCompletion": "false"})
    for key in sorted(conf):
        command += ["--conf", f"{key}={conf[key]}"]
    return [*command, params["application"], *params["arguments"]]


def missing(program: str, environment: dict[str, str]) -> str:
    """What is not there that spark-submit needs, and how to mend it; empty when all is."""
    if not os.access(program, os.X_OK):
        return f"{program} is no program: install Spark there or set spark_home"
    folder = environment.get("HADOOP_CONF_DIR", "")
    if not os.path.isfile(os.path.join(folder, "yarn-site.xml")):
        return f"no yarn-site.xml in {folder or 'HADOOP_CONF_DIR, which is not set'}: let it name the cluster's configuration"
    return ""


def run(command: list[str], environment: dict[str, str], seconds: int) -> tuple[int | None, str]:
    """Exit code, or None when the time was over, and what it wrote."""
    with tempfile.TemporaryFile() as log:
        try:
            code = subprocess.run(
                command, env=environment, stdout=log, stderr=log, timeout=seconds, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
        log.seek(0)
        return code, log.read().decode(errors="replace")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "spark_home": {"type": "path", "required": True},
            "application": {"type": "path", "required": True},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "jars": {"type": "list", "elements": "path", "default": []},
            "files": {"type": "list", "elements": "path", "default": []},
            "py_files": {"type": "list", "elements": "path", "default": []},
            "proxy_user": {"type": "str", "default": ""},
            "conf": {"type": "dict", "default": {}},
            "environment": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 300},
        },
    )
    command = command_line(module.params)
    wrong = missing(command[0], module.params["environment"])
    if wrong:
        module.fail_json(msg=wrong)
    environment = {**os.environ, **module.params["environment"], "SPARK_HOME": module.params["spark_home"]}
    code, log = run(command, environment, module.params["timeout"])
    application = spark_log.application_id(log)
    if code or not application:
        reason = spark_log.root_cause(log) or "; ".join(log.strip().splitlines()[-3:]) or "it said nothing"
        module.fail_json(msg=f"spark-submit {ENDS.get(code, f'ended with {code}')}: {reason}", cmd=command, stderr=log)
    module.exit_json(
        changed=True,
        application_id=application,
        tracking_url=spark_log.tracking_url(log),
        git_blob=git_blob(module.params["application"]),
        cmd=command,
    )


if __name__ == "__main__":
    main()
