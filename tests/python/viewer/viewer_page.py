# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page of the viewer in a headless Chromium, and a server of its own for it."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from browser import CHROMIUM, MISSING, Browser

__all__ = ["CHROMIUM", "MISSING", "ViewerPage", "serving"]

KEYS = {
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
}


@contextlib.contextmanager
def serving(path: Path, state: Path, *options: str) -> Iterator[str]:
    """The address that `msprobe view` prints. `state`: folder for what it keeps."""
    command = [sys.executable, "-m", "msprobe", "view", str(path), "--no-browser", "--port", "0", *options]
    folders = {"XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(state / "cache")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **folders}
    ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()


class ViewerPage(Browser):
    """Opens addresses, takes keys and pictures, and waits for what the page shows."""

    def size(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def go(self, address: str, *, dark: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)
        self._loaded = False
        self._call("Page.navigate", url=address)
        while not self._loaded:
            self._take()

    def key(self, key: str, **more: Any) -> None:
        text = {} if len(key) > 1 else {"text": key}
        code = KEYS.get(key, ord(key[0].upper()))
        common = {"key": key, "windowsVirtualKeyCode": code, **more}
        self._call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def until(self, condition: str, seconds: float = 30) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(f"return Boolean({condition})")
            if value:
                return
            assert time.monotonic() < end, (
                f"not so within {seconds} s: {condition}\n{self.run('return document.body.innerText')}"
            )
            time.sleep(0.03)

    def picture(self, path: Path) -> None:
        data = self._call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
