#!/usr/bin/python
"""Put a relay's files on the edge host, all in one go."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: relay_files
short_description: Put a relay's files on the edge host, all in one go
description:
  - Writes files that differ, each whole or not at all, and says which jars are missing or differ.
options:
  folder:
    description: Where the files belong; it is made if need be.
    type: path
    required: true
  files:
    description: By name, the content in Base64. It may hold secrets, and is shown nowhere.
    type: dict
    required: true
  private:
    description: Names of files that nobody else may read (0600); the others are 0644.
    type: list
    elements: str
    default: []
  jars_folder:
    description: Where the jars belong; it is made if need be.
    type: path
    required: true
  jars:
    description: By name, the SHA-256 of the jars.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: Says what would change.
author:
  - The kafka-natmap authors
"""

EXAMPLES = """
- name: Install a relay
  kafka.natmap.relay_files:
    folder: /srv/spark-jobs/tagdata/audit
    files: {tagdata.json: e30=}
    private: [tagdata.json]
    jars_folder: /srv/spark-jobs/tagdata/jars
"""

RETURN = """
written:
  description: Files that were not as they should be.
  type: list
  elements: str
  returned: success
missing:
  description: Jars that are not as they should be.
  type: list
  elements: str
  returned: success
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True, "no_log": True},
            "private": {"type": "list", "elements": "str", "default": []},
            "jars_folder": {"type": "path", "required": True},
            "jars": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        if not module.check_mode:
            os.makedirs(params["folder"], exist_ok=True)
            os.makedirs(params["jars_folder"], exist_ok=True)
        written = [name for name in sorted(params["files"]) if put(params, name, module.check_mode)]
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}. Mend: let {os.getuid()} own spark_job_dir.")
    jars = params["jars"]
    missing = [name for name in sorted(jars) if digest(os.path.join(params["jars_folder"], name)) != jars[name]]
    module.exit_json(changed=bool(written), written=written, missing=missing)


def put(params: dict[str, Any], name: str, check: bool) -> bool:
    """Write one file; True when it was not there as it should be."""
    path, content = os.path.join(params["folder"], name), base64.b64decode(params["files"][name])
    mode = 0o600 if name in params["private"] else 0o644
    if digest(path) == hashlib.sha256(content).hexdigest() and os.stat(path).st_mode & 0o777 == mode:
        return False
    if not check:
        handle, draft = tempfile.mkstemp(dir=params["folder"])
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content)
        os.replace(draft, path)
    return True


def digest(path: str) -> str:
    """SHA-256 of a file; empty where there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
