#!/usr/bin/python
"""Run the node program of kafka-natmap."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: node
short_description: Run the node program of kafka-natmap
description:
  - Carries the node program over, runs one of its verbs, and returns what it answers.
  - The program does the work; see C(roles/switch/files) of the collection.
options:
  verb:
    description: What the program is to do.
    type: str
    choices: [inspect, preview, switch, verify, status, yarn, doctor, discover]
    required: true
  program:
    description: The program, a zipapp in Base64 (filter P(kafka.natmap.program#filter)).
    type: str
    required: true
  kafka_python:
    description: The package kafka as a zip in Base64, for verbs that probe; left out where the node has it.
    type: str
  request:
    description: The verb's question.
    type: dict
    required: true
  secrets:
    description: The probe's secrets by cluster. They are joined to the request in memory only.
    type: dict
attributes:
  check_mode:
    support: full
    description: The real run without its last steps.
  diff_mode:
    support: full
    description: The texts before and after, by layer.
author:
  - The kafka-natmap authors
"""

EXAMPLES = """
- name: Ask this node
  kafka.natmap.node:
    verb: inspect
    program: "{{ '/path/to/files' | kafka.natmap.program }}"
    request: "{{ nat_map | kafka.natmap.questions }}"
  register: inspected
"""

RETURN = """
answer:
  description: What the program answered.
  type: dict
  returned: success
"""

STAGES = "/run/kafka-natmap"


def main():
    """Thin: hand over, run, return."""
    module = AnsibleModule(
        argument_spec={
            "verb": {
                "type": "str",
                "choices": ["inspect", "preview", "switch", "verify", "status", "yarn", "doctor", "discover"],
                "required": True,
            },
            "program": {"type": "str", "required": True, "no_log": False},
            "kafka_python": {"type": "str"},
            "request": {"type": "dict", "required": True},
            "secrets": {"type": "dict", "no_log": True},
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        fail(module, "not root on the node", "let Ansible become root (become: true, or connect as root)")
    os.makedirs(STAGES, mode=0o700, exist_ok=True)
    stage = tempfile.mkdtemp(prefix="stage-", dir=STAGES)
    try:
        answer = ask(module, stage)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    if answer.get("error"):
        fail(module, answer["error"]["cause"], answer["error"]["mend"])
    changed, diff = bool(answer.pop("changed", False)), answer.pop("diff", [])
    # The arguments hold the program and every text: they would travel back with each answer.
    module.exit_json(changed=changed, diff=diff, answer=answer, invocation=invocation(module))


def ask(module, stage):
    """Stage the program, run the verb; its answer."""
    program = os.path.join(stage, "kafka-natmap.pyz")
    for name, content in ((program, module.params["program"]), ("kafka-python.zip", module.params["kafka_python"])):
        if content:
            with open(os.path.join(stage, name), "wb") as stream:
                stream.write(base64.b64decode(content))
    request = dict(module.params["request"], check=module.check_mode)
    give_secrets(request, module.params["secrets"] or {})
    done = subprocess.run(
        [sys.executable, "-I", program, module.params["verb"]],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = "; ".join(done.stderr.strip().splitlines()[-3:])
        return {"error": {"cause": "the node program failed: " + said, "mend": "report this as a fault"}}


def give_secrets(request, secrets):
    """Join the secrets to the clusters that the probe is to ask."""
    for probe in (request.get("bundle") or {}).get("probe") or request.get("probe") or []:
        for cluster in probe["clusters"]:
            cluster["security"].update(secrets.get(cluster["name"], {}))


def fail(module, cause, mend):
    """One message: what happened, and what to do."""
    text = "%s. Mend: %s." % (cause.rstrip("."), mend.rstrip("."))
    module.fail_json(msg=text, invocation=invocation(module))


def invocation(module):
    """What a verbose run shows of the call."""
    return {"module_args": {"verb": module.params["verb"]}}


if __name__ == "__main__":
    main()
