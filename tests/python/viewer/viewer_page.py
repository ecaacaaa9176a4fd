# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page of the viewer in a headless Chromium, and a server of its own for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from browser import CHROMIUM, MISSING, Browser

__all__ = ["CHROMIUM", "MISSING", "ViewerPage", "serving"]


@contextlib.contextmanager
def serving(path: Path, state: Path, *options: str) -> Iterator[str]:
    """The address that `msprobe view` prints. `state`: folder for what it keeps."""
    command = [sys.executable, "-m", "msprobe", "view", str(path), *options, "--no-browser", "--port", "0"]
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
    """Takes keys and pictures, and waits for what the page shows."""

    def size(self, width: int, height: int) -> None:
        self.page.set_viewport_size({"width": width, "height": height})

    def key(self, keys: str) -> None:
        """As Playwright names them: `a`, `?`, `ArrowDown`, `Shift+ArrowDown`."""
        self.page.keyboard.press(keys)

    def write(self, text: str) -> None:
        self.page.keyboard.insert_text(text)

    def until(self, condition: str, seconds: float = 30) -> None:
        """Waits until an expression is true."""
        # Not wait_for_function: the content security policy of the page forbids it to ask twice.
        end = time.monotonic() + seconds
        while not self._holds(condition):
            assert time.monotonic() < end, (
                f"not so within {seconds} s: {condition}\n{self.run('return document.body.innerText')}"
            )
            self.page.wait_for_timeout(30)

    def _holds(self, condition: str) -> bool:
        from playwright.sync_api import Error

        try:
            return bool(self.run(f"return Boolean({condition})"))
        except Error as error:
            if "navigation" not in str(error):
                raise
            return False  # this page was left while it was asked

    def picture(self, path: Path) -> None:
        # To hide the caret, Playwright adds a style, which the content security policy forbids.
        self.page.screenshot(path=path, caret="initial")
