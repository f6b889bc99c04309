"""A real Chromium, spoken to by the DevTools protocol over two pipes; nothing but the standard library is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 60
# The browser's own services would ask the network.
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-dev-shm-usage", "--disable-sync", "--force-color-profile=srgb", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page. Every message that came is kept in `events`."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._buffer = b""
        self._sent = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command. Raises RuntimeError with what the browser says is wrong."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") != self._sent:
                self.events.append(said)
            elif "error" in said:
                raise RuntimeError(f"{method}: {said['error']['message']}")
            else:
                return dict(said["result"])

    def attach(self) -> None:
        """Take the one page that is there."""
        (page,) = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def open(self, path: Path, **media: str) -> None:
        """Show a file, until all of it is loaded; `media` are features such as prefers_color_scheme."""
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript on the page."""
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"]["exception"]["description"])
        return said["result"].get("value")

    def named(self) -> list[tuple[str, str]]:
        """(role, accessible name) of everything that a screen reader meets."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in nodes if not one["ignored"]]

    def size(self, width: int, height: int) -> None:
        """Give the page a window of so many pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path) -> None:
        """Keep the whole page as a picture."""
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def printed(self) -> bytes:
        """The page as a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            if not select.select([self._reads], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError(f"the browser said nothing for {_PATIENCE} s")
            part = os.read(self._reads, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A fresh Chromium with a profile of its own; both are gone after the block."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    assert program, "no Chromium is installed. Mend: make setup, or apt-get install chromium"
    to_it, writes = os.pipe()
    reads, from_it = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        # The protocol's pipes are its file descriptors 3 and 4.
        command = f'exec "$@" 3<&{to_it} 4>&{from_it}'
        started = subprocess.Popen(
            ["bash", "-c", command, "bash", program, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_it, from_it),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it)
        os.close(from_it)
        page = Browser(reads, writes)
        try:
            page.attach()
            yield page
        finally:
            started.terminate()
            started.wait()
            os.close(writes)
            os.close(reads)
