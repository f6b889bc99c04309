#!/usr/bin/python
"""Wait for a YARN application and say why it failed."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kafka.natmap.plugins.module_utils import spark_log

DOCUMENTATION = """
module: yarn_application
short_description: Wait for a YARN application and say why it failed
description:
  - Asks the ResourceManager until the application has come as far as O(reach), or O(timeout) is over.
  - Shows on the controller how far it is.
  - Of a failed application it reads the containers' logs and returns the line that says why.
options:
  application_id:
    description: The application's id.
    type: str
    required: true
  resourcemanager:
    description: Base URL of the ResourceManager's web server.
    type: str
    required: true
  reach:
    description: V(running) or V(ended). An application that has ended has also run.
    type: str
    choices: [running, ended]
    default: ended
  timeout:
    description: Seconds to wait. The application is left alone when they are over, and the task fails.
    type: int
    default: 900
  seen:
    description: Do not wait while the state is another than this one. Used by the action that shows each change.
    type: str
    default: ""
  yarn:
    description: Hadoop's C(yarn) program, which reads the logs.
    type: str
    default: yarn
  log_files:
    description: The names of the containers' log files in which the reason is looked for.
    type: list
    elements: str
    default: [stdout, stderr]
  environment:
    description: The environment of that program, such as C(HADOOP_CONF_DIR).
    type: dict
    default: {}
author:
  - The kafka-natmap authors
"""

EXAMPLES = """
- name: Wait until the application has ended
  kafka.natmap.yarn_application:
    application_id: application_1700000000000_0001
    resourcemanager: http://master:8088
  register: application
"""

RETURN = """
reached:
  description: Whether it has come as far as asked.
  returned: success
  type: bool
state:
  description: YARN's state, such as RUNNING.
  returned: success
  type: str
final_status:
  description: UNDEFINED, SUCCEEDED, FAILED or KILLED.
  returned: success
  type: str
tracking_url:
  description: Where to look at it.
  returned: success
  type: str
seconds:
  description: How long it has run, or ran.
  returned: success
  type: float
cause:
  description: Why it failed, in its own words, else empty.
  returned: success
  type: str
missed_brokers:
  description: The lines in which its Kafka client says which broker it could not connect to.
  returned: success
  type: list
  elements: str
"""

ENDED = ("FINISHED", "FAILED", "KILLED")
REACHED = {"running": ("RUNNING", *ENDED), "ended": ENDED}
# the last bytes of each container's log hold the reason; the whole of a long job's would be gigabytes
LOG_BYTES = 200000


def ask(base: str, application: str) -> dict[str, Any]:
    """The ResourceManager's report; OSError when it does not answer."""
    url = f"{base.rstrip('/')}/ws/v1/cluster/apps/{application}"
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read().decode())["app"]


def wait(params: dict[str, Any]) -> dict[str, Any]:
    """The last report within the time allowed."""
    end = time.monotonic() + params["timeout"]
    while True:
        try:
            report = ask(params["resourcemanager"], params["application_id"])
            done = has_reached(report, params["reach"]) or report["state"] not in (params["seen"], *ENDED)
            if done or time.monotonic() > end:
                return report
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(1)


def has_reached(report: dict[str, Any], reach: str) -> bool:
    """Whether an application has come so far; one that failed has ended when its logs can be read."""
    collecting = failed(report) and report.get("logAggregationStatus") in ("NOT_START", "RUNNING")
    return report["state"] in REACHED[reach] and not collecting


def failed(report: dict[str, Any]) -> bool:
    """Whether it has ended otherwise than well."""
    return report["state"] in ENDED and report["finalStatus"] != "SUCCEEDED"


def cause(report: dict[str, Any], log: str) -> str:
    """Why it failed: from its log, else from what YARN says of it."""
    return (
        spark_log.root_cause(log) or report["diagnostics"].strip() or f"YARN says no more than {report['finalStatus']}"
    )


def logs(module: AnsibleModule) -> str:
    """The end of each container's output; what Python says stands in stdout, what Java says in stderr."""
    command = [module.params["yarn"], "logs", "-applicationId", module.params["application_id"]]
    command += ["-log_files", ",".join(module.params["log_files"]), "-size", str(-LOG_BYTES)]
    return str(module.run_command(command, environ_update=module.params["environment"])[1])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "application_id": {"type": "str", "required": True},
            "resourcemanager": {"type": "str", "required": True},
            "reach": {"type": "str", "choices": ["running", "ended"], "default": "ended"},
            "timeout": {"type": "int", "default": 900},
            "seen": {"type": "str", "default": ""},
            "yarn": {"type": "str", "default": "yarn"},
            "log_files": {"type": "list", "elements": "str", "default": ["stdout", "stderr"]},
            "environment": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    try:
        report = wait(module.params)
    except OSError as error:
        asked = f"{module.params['resourcemanager']} does not answer about {module.params['application_id']}"
        module.fail_json(msg=f"{asked} ({error}): is the ResourceManager up, and its address right?")
    reached = has_reached(report, module.params["reach"])
    log = logs(module) if reached and failed(report) else ""
    module.exit_json(
        changed=False,
        reached=reached,
        state=report["state"],
        final_status=report["finalStatus"],
        tracking_url=report.get("trackingUrl", ""),
        seconds=report["elapsedTime"] / 1000.0,
        cause=cause(report, log) if failed(report) else "",
        missed_brokers=spark_log.missed_brokers(log),
    )


if __name__ == "__main__":
    main()
