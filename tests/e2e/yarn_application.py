"""Run one command as a YARN application, and say how its container ended. Runs on a node; standard library only.

Arguments: the user who submits, the ResourceManager's URL, the command. Prints {"node": ..., "code": exit code or None}.
"""

import json
import re
import sys
import time
import urllib.request
from typing import Any

SECONDS = 90


def call(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask the ResourceManager's REST API; a body, even an empty one, is sent by POST."""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as response:
        text = response.read()
    return dict(json.loads(text)) if text else {}


def main() -> None:
    """The command is the application's first container, an ApplicationMaster that never registers."""
    user, manager, command = sys.argv[1:]
    apps = manager + "/ws/v1/cluster/apps"
    who = "?user.name=" + user
    name = call(f"{apps}/new-application{who}", {})["application-id"]
    call(
        apps + who,
        {
            "application-id": name,
            "application-name": "one command",
            "application-type": "TEST",
            "am-container-spec": {"commands": {"command": command}},
            "max-app-attempts": 1,
            "resource": {"memory": 128, "vCores": 1},
        },
    )
    deadline = time.monotonic() + SECONDS
    while True:
        app = call(f"{apps}/{name}{who}")["app"]
        if app["finalStatus"] != "UNDEFINED" or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    code = re.search(r"exitCode: (-?\d+)", app["diagnostics"])
    node = app.get("amHostHttpAddress", "").partition(":")[0]
    print(json.dumps({"node": node, "code": int(code.group(1)) if code else None, "said": app["diagnostics"]}))


if __name__ == "__main__":
    main()
