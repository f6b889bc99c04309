"""Follow a YARN application, and show on the controller how far it is."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# seconds of one call on the host: how long the terminal may stay silent
PATIENCE = 15


class ActionModule(ActionBase):
    """Call the module of the same name again and again, until it is done or the time is over."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's last result."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        arguments = {"timeout": 900, **self._task.args}
        end = time.monotonic() + int(arguments["timeout"])
        seen = ""
        while True:
            patience = max(0, min(PATIENCE, int(end - time.monotonic())))
            result: dict[str, Any] = self._execute_module(
                module_args={**arguments, "timeout": patience, "seen": seen}, task_vars=task_vars
            )
            if result.get("failed") or result["reached"]:
                return result
            seen = result["state"]
            where = f"{task_vars['inventory_hostname']}: {arguments['application_id']}"
            if time.monotonic() >= end:
                given = f"{where} is {seen} after {arguments['timeout']} s"
                return {**result, "failed": True, "msg": f"{given}, and goes on; see {result['tracking_url']}"}
            Display().display(f"{where} {seen}, {result['seconds']:.0f} s")
