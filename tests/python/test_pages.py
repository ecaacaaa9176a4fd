# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every page can be read: enough contrast, light and dark, nothing wider than a phone, nothing that axe-core
(WCAG 2.1 A and AA, best practice) finds, and every stop of the Tab key can be seen.

Opt-in, as it runs two trainings and six commands: MSPROBE_TEST_SLOW=pages. tests/faults/test_same_answer.py
always reads those of a diagnosis.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, MISSING, Browser
from sample_pages import made

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=MISSING),
    pytest.mark.skipif(
        "pages" not in os.environ.get("MSPROBE_TEST_SLOW", ""), reason="MSPROBE_TEST_SLOW=pages runs it"
    ),
]

AXE = Path(__file__).resolve().parents[2] / "viewer/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
NAMES = (
    *("diagnosis", "comparison", "ranks", "graph", "config"),
    *("gradients", "checkpoint", "rl", "check", "perturb"),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_can_be_read(pages: dict[str, Path], browser: Browser, name: str) -> None:
    browser.faults.clear()
    backs = set()
    for width in (390, 1400):
        browser.page.set_viewport_size({"width": width, "height": 900})
        for dark in (False, True):
            browser.open(pages[name], dark=dark)
            browser.page.wait_for_selector(".finding" if name == "graph" else "h1", state="attached")
            assert browser.unreadable() == [], (width, dark)
            assert _found_by_axe(browser) == [], (width, dark)
            backs.add(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(backs) == 2  # the same design: light and dark
    assert browser.faults == []


def _found_by_axe(browser: Browser) -> list[str]:
    if not AXE.is_file():  # npm ci in viewer/
        return []
    browser.page.evaluate(AXE.read_text("utf-8"))
    found: list[str] = browser.run(
        f"const found = await axe.run({{iframes: false, runOnly: {json.dumps(RULES)}}});"
        "return found.violations.map(one => `${one.id}: ${one.nodes[0].html.slice(0, 160)}`)"
    )
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_focus_can_be_seen(pages: dict[str, Path], browser: Browser, name: str) -> None:
    browser.faults.clear()
    browser.open(pages[name])
    browser.page.wait_for_selector(".finding" if name == "graph" else "h1", state="attached")
    for _ in range(20):
        browser.page.keyboard.press("Tab")
        seen = browser.run(
            "const e = document.activeElement;"
            "if (e === document.body || e.tagName === 'IFRAME') return null;"
            "const s = getComputedStyle(e); const box = e.getBoundingClientRect();"
            "return [e.outerHTML.slice(0, 80), s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0, "
            "box.width > 0 && box.bottom > 0 && box.top < innerHeight]"
        )
        assert seen is None or seen[1:] == [True, True], seen
    assert browser.faults == []
