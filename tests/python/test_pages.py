# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every page can be read: enough contrast, light and dark, and nothing wider than a phone.

Opt-in, as it runs two trainings and six commands: MSPROBE_TEST_SLOW=pages. tests/faults/test_same_answer.py
always reads those of a diagnosis.
"""

from __future__ import annotations

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

NAMES = ("diagnosis", "comparison", "graph", "config", "gradients", "checkpoint", "rl", "check", "perturb")


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
    for width in (400, 1400):
        browser.page.set_viewport_size({"width": width, "height": 900})
        for dark in (False, True):
            browser.open(pages[name], dark=dark)
            browser.page.wait_for_selector(".finding" if name == "graph" else "h1", state="attached")
            assert browser.unreadable() == [], (width, dark)
            backs.add(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(backs) == 2  # the same design: light and dark
    assert browser.faults == []
