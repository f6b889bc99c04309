"""Ask the edge host about a relay, and show on the controller how it fares until it has come as far as asked."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.kafka.natmap.plugins.filter import relay as filters
from ansible_collections.kafka.natmap.plugins.module_utils import relay_view

TICK = 1.0
TELL = 10.0
"""Seconds between two lines while nothing changes but figures, where no terminal's line is written anew."""


class ActionModule(ActionBase):
    """Call the module; where O(until) or a watch asks for it, follow what it sees."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result; of a watch the last views, ``reached`` and the seconds it took."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        arguments = dict(self._task.args)
        self._app_dir = arguments.pop("app_dir", "")
        if arguments["verb"] != "watch":
            result: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars)
            return result
        result = self._execute_module(module_args=arguments, task_vars=task_vars)
        return result if result.get("failed") or result.get("skipped") else self._follow(result, arguments)

    def _follow(self, result: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        path, live = shlex.quote(result["answer"]["path"]), int(arguments.get("live") or 0)
        began, told, when, lost = time.monotonic(), "", 0.0, 0
        timeout = int(arguments.get("timeout", 300))
        answer: dict[str, Any] = result["answer"]
        while True:
            said = self._low_level_execute_command(f"touch {path}.lease && cat {path}")
            lost = 0 if said["rc"] == 0 else lost + 1
            if lost > 5:
                return {
                    **result,
                    "failed": True,
                    "msg": f"the watch on the edge host is gone: {said['stderr'].strip()}",
                }
            answer = json.loads(said["stdout"]) if said["rc"] == 0 else answer
            views = [relay_view.judged(view) for view in answer.get("views", [])]
            text = self._text(answer, views)
            if live or text.split("  ")[0] != told.split("  ")[0] or time.monotonic() - when > TELL:
                self._show(text, told, live)
                told, when = text, time.monotonic()
            seconds = round(time.monotonic() - began, 1)
            wanted = arguments.get("until") or [], arguments.get("application") or ""
            reached = not answer.get("error") and relay_view.reached(views, *wanted)
            if reached or (timeout and seconds > timeout):
                self._low_level_execute_command(f"rm -f {path}.lease")
                return {**result, "reached": reached, "views": views, "seconds": seconds, "answer": answer}
            time.sleep(TICK)

    def _text(self, answer: dict[str, Any], views: list[dict[str, Any]]) -> str:
        if answer.get("error"):
            return f"{answer['error']['cause']}; waiting for it"
        return "\n".join(filters.relay_lines(views, self._app_dir))

    @staticmethod
    def _show(text: str, told: str, live: int) -> None:
        if not live or "\n" in text:
            Display().display(("\n" if live and told else "") + text)
        else:
            Display().display("\r\x1b[K" + text[: live - 1], screen_only=True, newline=False)
