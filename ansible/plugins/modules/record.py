#!/usr/bin/python
"""What ``ansible-doc`` shows of the action ``kafka.natmap.record``."""

DOCUMENTATION = """
module: record
short_description: Write records on the controller
description:
  - Writes whole files at once, and adds lines to files that only ever grow. It runs on the controller, also in check mode.
options:
  folder:
    description: The folder on the controller; it is made where it is missing.
    type: path
    required: true
  files:
    description: Texts by file name. An empty text takes the file away.
    type: dict
    default: {}
  append:
    description: One line for each file name, added at the end of the file.
    type: dict
    default: {}
author:
  - kafka-natmap
"""

EXAMPLES = """
- name: Keep the plan, and say so in the audit record
  kafka.natmap.record:
    folder: records
    files:
      plan.json: "{{ report_plan }}"
    append:
      audit.jsonl: "{{ line }}"
"""

RETURN = """
paths:
  description: The files that were written.
  type: list
  returned: success
"""
