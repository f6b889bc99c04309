"""Write the controller's records: whole files at once, and lines that are only ever added."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Runs on the controller, whatever host the task is for; also in check mode, since no host is concerned."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The paths that were written."""
        super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "folder": {"type": "path", "required": True},
                "files": {"type": "dict", "default": {}},
                "append": {"type": "dict", "default": {}},
            }
        )
        folder = Path(arguments["folder"]).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in arguments["files"].items():
                _replace(folder / name, str(text))
            for name, line in arguments["append"].items():
                _append(folder / name, str(line))
        except OSError as error:
            where = error.filename or folder
            raise AnsibleActionFail(
                f"the record {where} cannot be written: {error.strerror}. "
                "Mend: free the place, or give another folder with -e natmap_records=DIR."
            ) from None
        written = [str(folder / name) for name in (*arguments["files"], *arguments["append"])]
        return {"changed": False, "paths": written}


def _replace(path: Path, text: str) -> None:
    """A reader sees the old file or the new one, also after a crash (rename(2))."""
    if not text:
        path.unlink(missing_ok=True)
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _append(path: Path, line: str) -> None:
    """One write of one line, so that two controllers' lines do not mix (open(2), O_APPEND)."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        data = (line.rstrip("\n") + "\n").encode("utf-8", "surrogateescape")
        if os.write(handle, data) != len(data):
            raise OSError(28, "no space left on the device", str(path))
        os.fsync(handle)
    finally:
        os.close(handle)
