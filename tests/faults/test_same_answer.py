# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The pages of a diagnosis: the terminal, index.html, report.html and the viewer name the same culprit, and
every page can be read on a phone, light and dark.

Some faults always; twenty with MSPROBE_TEST_SLOW=faults.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from catalogue import BY_NAME
from run import cases, generate

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))

from browser import CHROMIUM, MISSING, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

# A call that only the reference makes, a setting, an operator, an input, a setting of the optimizer.
QUICK = ("residual_missing", "layer_norm_eps", "softmax_kernel", "token", "state_reset")
ALL = (
    *QUICK,
    *(name for name, item in BY_NAME.items() if hasattr(item, "kinds") and name not in QUICK),
)[:20]
NAMES = ALL if "faults" in os.environ.get("MSPROBE_TEST_SLOW", "") else QUICK
WIDTHS = (400, 1400)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages")
    faults = generate(out, cases(NAMES, ("quiet",)))
    assert not faults, "\n".join(faults)
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def diagnosed(recorded: Path, name: str) -> tuple[Path, dict[str, Any], str]:
    """The folder of the answer, its content, and what the terminal shows."""
    item = BY_NAME[name]
    reference = recorded / "golden" / f"{item.model}.{item.variant}"
    out = recorded / "answers" / name
    command = [
        sys.executable,
        "-m",
        "msprobe",
        "diagnose",
        reference,
        recorded / "quiet" / name,
        "-o",
        out,
        "--force",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr + done.stdout
    return out, json.loads((out / "diagnose.json").read_text()), done.stdout


def shown(browser: Browser, selector: str) -> str:
    """The text of an element, once it is there."""
    browser.page.wait_for_selector(selector, state="attached")
    text: str = browser.run(f"return document.querySelector({json.dumps(selector)}).textContent.trim()")
    return text


def of_dump(sentence: str) -> str:
    """As pages of the dump say it, which do not know how the program calls its data."""
    return re.sub(r"data differ: [^(]+ \((.*)\)$", r"\1", sentence)


@pytest.mark.parametrize("name", NAMES)
def test_all_pages_name_the_same_culprit(recorded: Path, browser: Browser, name: str) -> None:
    out, answer, printed = diagnosed(recorded, name)
    cause = answer["cause"]
    assert cause["part"] == "dump", cause
    browser.faults.clear()
    browser.page.set_viewport_size({"width": 1400, "height": 900})

    assert printed.splitlines()[0] == answer["sentence"]
    assert cause["plain"] in answer["sentence"]

    browser.open(out / "index.html")
    assert shown(browser, "#sentence") == answer["sentence"]

    browser.open(out / "dump/report.html")
    assert shown(browser, "#sentence") == of_dump(answer["sentence"])
    assert shown(browser, "#culprits b") == of_dump(cause["plain"])
    verdict = json.loads((out / "dump/verdict.json").read_text())
    assert verdict["culprits"][0]["name"] in cause["name"]
    assert verdict["sentence"] == of_dump(answer["sentence"])

    if cause["record"]:
        browser.run("document.querySelector('#culprits button').click()")
        assert cause["record"] in shown(browser, "#window .row.picked .mono")

    # The graph is opened at the cause: it is selected, and "First divergence" leads there.
    browser.open(out / "graph.html")
    first = '.finding.first[aria-current="true"]'
    assert of_dump(cause["plain"]) in shown(browser, first)
    node = shown(browser, f"{first} .name")
    if cause["record"]:
        assert node.split(".parameters_grad")[0] in cause["record"]
    browser.run("document.querySelector('.top .primary').click()")
    assert node in shown(browser, f".pane:nth-child({1 if cause['is_of_reference'] else 2}) .path")
    assert browser.faults == []


@pytest.mark.parametrize("name", QUICK[:1])
def test_every_page_can_be_read(recorded: Path, browser: Browser, name: str) -> None:
    out, _, _ = diagnosed(recorded, name)
    for page, ready in (
        ("index.html", "#sentence"),
        ("dump/report.html", "#culprits b"),
        ("graph.html", ".finding"),
    ):
        for width in WIDTHS:
            browser.page.set_viewport_size({"width": width, "height": 900})
            for dark in (False, True):
                browser.open(out / page, dark=dark)
                shown(browser, ready)
                assert browser.unreadable() == [], (page, width, dark)
    # On a phone both sides of the graph have room for a dozen rows.
    browser.page.set_viewport_size({"width": 400, "height": 900})
    browser.open(out / "graph.html")
    shown(browser, ".finding")
    heights = browser.run(
        "return [...document.querySelectorAll('.pane canvas')].map(one => one.clientHeight)"
    )
    assert len(heights) == 2
    assert min(heights) > 250
