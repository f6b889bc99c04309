#!/usr/bin/python
"""Look at a relay from the edge host, ask it to end, or check its settings against the live clusters."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: relay
short_description: Look at a relay from the edge host, ask it to end, or check it
description:
  - Carries the edge program over and runs one of its verbs; see C(roles/spark_job/files) of the collection.
  - The action of the same name waits and shows on the controller how the relay fares.
options:
  verb:
    description:
      - V(look) returns how the relays fare; V(withdraw) takes back that one was asked to end.
      - V(watch) starts a program that writes what it sees to a file, as long as the file beside it is touched. Its question
        may hold C(mark), C(stop) or C(drain), which asks a running relay to end.
      - V(check) compares settings with the live clusters.
      - V(read) returns a JSON file of a relay's state directory.
      - V(trust) returns the certificates by which the brokers of both sides are trusted, as PEM, out of the stores on the edge.
    type: str
    choices: [look, withdraw, watch, check, read, trust]
    required: true
  program:
    description: The program, a zipapp in Base64 (filter P(kafka.natmap.relay_program#filter)).
    type: str
    required: true
  request:
    description: The verb's question.
    type: dict
    required: true
  secrets:
    description: Options of source and sink that are secret, joined to the request in memory only.
    type: dict
  until:
    description: Only for the action, the states of a relay at which to stop waiting.
    type: list
    elements: str
    default: []
  timeout:
    description: Only for the action, seconds to wait for one of O(until); 0 watches until the relay ends.
    type: int
    default: 300
  application:
    description: Only for the action, the application whose word counts.
    type: str
    default: ""
  live:
    description: Only for the action, the columns of a terminal whose last line is written anew; 0 writes one line after the other.
    type: int
    default: 0
author:
  - The kafka-natmap authors
"""

EXAMPLES = """
- name: Look at all relays that were deployed from here
  kafka.natmap.relay:
    verb: look
    program: "{{ '/path/to/spark_app' | kafka.natmap.relay_program }}"
    request:
      spark_home: /opt/spark
      root: /srv/spark-jobs/tagdata
      environment: {HADOOP_CONF_DIR: /etc/hadoop/conf}
  register: looked
"""

RETURN = """
answer:
  description: What the program answered.
  type: dict
  returned: success
"""

START = 90
"""Seconds for the first look of a watch: a JVM has to start."""


def main() -> None:
    """Thin: hand over, run, return."""
    module = AnsibleModule(
        argument_spec={
            "verb": {
                "type": "str",
                "choices": ["look", "withdraw", "watch", "check", "read", "trust"],
                "required": True,
            },
            "program": {"type": "str", "required": True, "no_log": False},
            "request": {"type": "dict", "required": True},
            "secrets": {"type": "dict", "no_log": True},
            "until": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 300},
            "application": {"type": "str", "default": ""},
            "live": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    verb = module.params["verb"]
    changes = verb == "withdraw" or "mark" in module.params["request"]
    if changes and module.check_mode:
        module.exit_json(changed=True, answer={"views": []}, skipped=True)
    stage = tempfile.mkdtemp(prefix="relay-")
    request = dict(module.params["request"])
    for side, options in (module.params["secrets"] or {}).items():
        request["settings"][side]["options"].update(options)
    program = os.path.join(stage, "relay.pyz")
    with open(program, "wb") as stream:
        stream.write(base64.b64decode(module.params["program"]))
    answer = start_watch(program, stage, request) if verb == "watch" else ask(program, verb, request)
    if verb != "watch" or answer.get("error"):
        shutil.rmtree(stage, ignore_errors=True)
    # The arguments hold the whole program: it would travel back with each answer.
    invocation = {"module_args": {"verb": verb}}
    if answer.get("error"):
        text = "{}. Mend: {}.".format(answer["error"]["cause"].rstrip("."), answer["error"]["mend"].rstrip("."))
        module.fail_json(msg=text, invocation=invocation)
    module.exit_json(changed=changes and not module.check_mode, answer=answer, invocation=invocation)


def ask(program: str, verb: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run a verb to its end."""
    done = subprocess.run([sys.executable, program, verb], input=json.dumps(request).encode(), capture_output=True)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        return failed(done.stderr.decode(errors="replace"))


def start_watch(program: str, stage: str, request: dict[str, Any]) -> dict[str, Any]:
    """Start a watch that outlives this module; returns after its first look. It removes its stage when it ends."""
    path = os.path.join(stage, "views.json")
    with open(path + ".lease", "w"):
        pass
    with open(os.path.join(stage, "log"), "w+b") as log:
        # A shell takes the folder away after the watch, however it ends; a little later, so that an error is read first.
        script = '"$1" "$2" watch >/dev/null; sleep 5; rm -rf "$3"'
        command = ["/bin/sh", "-c", script, "relay", sys.executable, program, stage]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(dict(request, path=path)).encode())
        process.stdin.close()
        end = time.monotonic() + START
        while time.monotonic() < end:
            if os.path.exists(path):
                with open(path) as first:
                    return dict(json.load(first), path=path)
            if process.poll() is not None:
                break
            if os.path.exists(path + ".lease"):
                os.utime(path + ".lease")
            time.sleep(0.2)
        log.seek(0)
        return failed(log.read().decode(errors="replace"))


def failed(said: str) -> dict[str, Any]:
    """The program ended without an answer."""
    lines = [line for line in said.strip().splitlines() if line.strip()]
    said = "; ".join(lines[-3:]) or "it said nothing"
    mend = "see that python3 is 3.9 or later on the edge, and spark_job_spark_home and JAVA_HOME are right"
    return {"error": {"cause": "the edge program failed: " + said, "mend": mend}}


if __name__ == "__main__":
    main()
