# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that opens a page and runs scripts in it, by Playwright. The browser is that of the
machine: none is downloaded."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import ConsoleMessage, Error
    from typing_extensions import Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
PLAYWRIGHT = importlib.util.find_spec("playwright") is not None
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None) if PLAYWRIGHT else None
MISSING = (
    "no Chromium on this machine (apt-get install chromium)"
    if PLAYWRIGHT
    else "no Playwright (pip install -r .ci/requirements.txt)"
)

# A machine may be slow; a browser that never answers must not stop the tests for good.
PATIENCE = 180

# What a person could not read: text with too little contrast to the nearest background (disabled controls are
# meant to be faint), and a page that is wider than its window.
_UNREADABLE = """
const parse = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const back = node => {
  for (; node; node = node.parentElement) {
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const own = node => [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
const seen = node => node.checkVisibility() && !node.closest("svg, option, script, style, :disabled");
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
return [...document.querySelectorAll("body *")].filter(own).filter(seen).map(node => {
  const [a, b] = [light(parse(getComputedStyle(node).color)), light(back(node))];
  return [node.textContent.trim().slice(0, 40), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
}).filter(([, contrast]) => contrast < 4.5)
  .map(([text, contrast]) => `contrast ${contrast.toFixed(2)}: ${text}`)
  .concat(wide > 0 ? [`${wide} pixels wider than the window`] : []);
"""


class Browser:
    """One page. `faults`: what went wrong in it, exceptions, warnings, what it was refused.

    One browser at a time: until `close`, Playwright has an event loop running in this thread.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: for the profile."""
        assert CHROMIUM, MISSING
        from playwright.sync_api import sync_playwright

        with contextlib.ExitStack() as stack:
            context = stack.enter_context(sync_playwright()).chromium.launch_persistent_context(
                folder,
                executable_path=CHROMIUM,
                chromium_sandbox=False,  # root has none, nor have most containers
                args=["--disable-gpu"],
                ignore_default_args=["--hide-scrollbars"],  # pictures show what a user sees
                viewport={"width": 1300, "height": 900},
                timeout=1000 * PATIENCE,
            )
            stack.callback(context.close)
            context.set_default_timeout(1000 * PATIENCE)
            self.page = context.pages[0]
            self.cdp = context.new_cdp_session(self.page)
            self.faults: list[str] = []
            self.page.on("console", self._said)
            self.page.on("pageerror", self._failed)
            self._stack = stack.pop_all()

    def without_faults(self) -> Iterator[Self]:
        """For a fixture: nothing may go wrong in a page."""
        self.faults.clear()
        yield self
        assert self.faults == []

    def close(self) -> None:
        self._stack.close()

    def open(self, path: Path, *, dark: bool = False) -> None:
        """Returns when the page and its scripts have run."""
        self.go(path.as_uri(), dark=dark)

    def go(self, address: str, *, dark: bool = False) -> None:
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        self.page.goto(address)

    def run(self, script: str) -> Any:
        """Runs the body of an async function and gives back what it returns."""
        # Playwright waits for a script without a limit.
        late = f"new Promise((_, fail) => setTimeout(fail, {1000 * PATIENCE}, Error('no answer')))"
        return self.page.evaluate(f"() => Promise.race([(async () => {{ {script} }})(), {late}])")

    def unreadable(self) -> list[str]:
        """What cannot be read in the page as it is shown now."""
        found: list[str] = self.run(_UNREADABLE)
        return found

    def move(self, x: float, y: float) -> None:
        """The mouse, in pixels of the window."""
        self.page.mouse.move(x, y)

    def click(self, x: float, y: float) -> None:
        self.page.mouse.click(x, y)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end)
        self.page.mouse.up()

    def _said(self, message: ConsoleMessage) -> None:
        self.faults.append(f"{message.type}: {message.text} {message.location}")

    def _failed(self, error: Error) -> None:
        self.faults.append(f"{error.stack or error}")
