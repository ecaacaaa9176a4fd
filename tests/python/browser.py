# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that opens a page and runs scripts in it, over the pipe of its DevTools protocol."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
MISSING = "no Chromium on this machine (apt-get install chromium)"

# A machine may be slow; a browser that never answers must not stop the tests for good.
PATIENCE = 180


class Browser:
    """One page at a time. `faults`: what went wrong in it, exceptions, warnings, what it was refused."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for the profile."""
        assert CHROMIUM, MISSING
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--no-first-run", f"--user-data-dir={folder}", "--window-size=1300,900"]
        # The browser reads from descriptor 3 and writes to 4, whatever number a pipe had here.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *command, "--remote-debugging-pipe"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._received = b""
        self._session: str | None = None
        self._loaded = False
        self.faults: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._out)  # the browser ends when its pipe does
        os.close(self._in)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def open(self, path: Path, *, dark: bool = False) -> None:
        """Returns when the page and its scripts have run."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)
        self._loaded = False
        self._call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._take()

    def run(self, script: str) -> Any:
        """Runs the body of an async function and gives back what it returns."""
        expression = f"(async () => {{ {script} }})()"
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """The mouse, in pixels of the window."""
        self.drag((x, y), (x, y))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        for kind, (x, y) in (("Pressed", start), ("Moved", end), ("Released", end)):
            self._call(
                "Input.dispatchMouseEvent",
                type=f"mouse{kind}",
                x=x,
                y=y,
                button="left",
                buttons=1,
                clickCount=1,
            )

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _take(self) -> dict[str, Any]:
        """The next message; of events, what they tell is kept."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], max(end - time.monotonic(), 0))
            assert ready, f"the browser did not answer for {PATIENCE} s"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._received += piece
        first, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        method = message.get("method")
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.faults.append(json.dumps(message["params"]))
        return message
