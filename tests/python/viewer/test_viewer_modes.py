# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A result of every mode of mindstudio-probe in a headless Chromium, in English and in Chinese."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from archives import unpack
from viewer_actions import (
    SELECTED,
    box_of,
    choose,
    chosen,
    give_own,
    open_page,
    press,
    selected,
    settle,
    shown,
    tap,
    text,
)
from viewer_page import CHROMIUM, MISSING
from viewer_samples import Node, write

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


SAMPLES = Path(__file__).resolve().parents[2] / "data/graph/samples"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of mindstudio-probe: a result of every mode."""
    folder = tmp_path_factory.mktemp("results")
    unpack(SAMPLES / "results.tar.xz", folder)
    return folder


MODES = [
    *("single_cmp", "md5_ranks", "tensor_cmp", "struct_cmp", "micro_cmp", "nan_oc_cmp", "pm_tppp"),
    *("steps_cmp", "var_default", "micro_build", "nan_oc_build", "ranks_build", "pm_build"),
]
# Where there is nothing to go to.
NOTHING_SUSPICIOUS = (
    "Nothing is suspicious: there is nothing to compare with, and the file holds no statistics. "
    "A class of the legend can be walked through too."
)
NO_FAULT = {
    NOTHING_SUSPICIOUS,
    "No further suspicious node in this direction.",
    "Nothing differs, and nothing overflows.",
    "Nothing overflows, and there is nothing to compare with.",
}


def test_every_mode_of_the_existing_tool_can_be_looked_at(page, results, tmp_path):
    with shown(page, results, tmp_path / "state") as address:
        page.go(address)
        page.until("document.querySelector('.files')")
        for mode in MODES:
            (file,) = (results / mode).glob("*.vis.db")
            page.run(f"location.hash = 'f=' + encodeURIComponent({json.dumps(f'{mode}/{file.name}')})")
            page.until(f"document.title.startsWith({json.dumps(mode)})")
            page.until("document.querySelector('.finding, .tab-body p.pad:not(.soft)')")
            look_around(page, mode)


def look_around(page, mode):
    for key in ("f", "n", "n", "p"):
        page.run("document.querySelector('.notice')?.click()")  # one of another graph
        tap(page, key)
        said = set(page.run("return [...document.querySelectorAll('.notice')].map(e => e.innerText)"))
        assert said <= NO_FAULT, (mode, key, said)
    for tabs in (".side", ".lower-head"):
        for number in range(page.run(f"return document.querySelectorAll('{tabs} [role=tab]').length")):
            page.run(f"document.querySelectorAll('{tabs} [role=tab]')[{number}].click()")
            settle(page)
            page.until("!document.querySelector('.work').innerText.includes('Loading')")
    colours = page.run(f"return [...{box_of('Colour')}.options].map(one => one.value)")
    assert len(colours) == (2 if mode.endswith("build") else len(set(colours))) >= 2
    for colour in colours:
        choose(page, "Colour", colour)
        settle(page)
    for place in ("Step", "Rank", "Micro"):
        last = page.run(f"return [...({box_of(place)}?.options ?? [])].at(-1)?.value ?? null")
        if last is not None:
            choose(page, place, last)
            settle(page)
            assert chosen(page, place) == last
    assert page.run("return document.querySelector('[role=alert]')") is None
    assert page.faults == [], mode


# Texts and descriptions in the page, without names of nodes and files, stacks and names of columns.
SAID = """
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const place = walker.currentNode.parentElement;
  if (!place.closest('.mono, .name, .stack, .tensors thead, option')) found.push(walker.currentNode.data);
}
for (const name of ['title', 'aria-label', 'placeholder'])
  for (const one of document.querySelectorAll(`[${name}]:not(.tensors *):not(canvas)`))
    found.push(one.getAttribute(name));
return found;
"""


@pytest.mark.parametrize("mode", ["pm_cmp", "ranks_cmp", "struct_cmp", "nan_oc_build", "single_build"])
def test_no_english_is_left_in_chinese(page, results, tmp_path, mode):
    (file,) = (results / mode).glob("*.vis.db")
    english = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")
    with shown(page, file, tmp_path / "state") as address:
        open_page(page, address)
        press(page, "ZH")
        for key in ("f", "n", "?"):
            tap(page, key)
            assert [one for one in page.run(SAID) if english.search(one)] == [], key
        page.key("Escape")
        for tabs in (".lower-head", ".side"):
            for number in range(page.run(f"return document.querySelectorAll('{tabs} [role=tab]').length")):
                page.run(f"document.querySelectorAll('{tabs} [role=tab]')[{number}].click()")
                settle(page)
                assert [one for one in page.run(SAID) if english.search(one)] == [], (tabs, number)
        press(page, "EN")


def test_chinese_is_complete(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        press(page, "ZH")
        page.until("document.documentElement.lang === 'zh-CN'")
        for number in range(4):
            page.run(f"document.querySelectorAll('.side [role=tab]')[{number}].click()")
            page.run("return new Promise(done => setTimeout(done, 200))")
            words = set(re.findall(r"[A-Za-z]{3,}", text(page, ".side .tabs") + text(page, ".top .primary")))
            assert words == set()
        give_own(page, "{}")
        page.until("document.querySelector('.notice')?.innerText === '自有数据:没有任何一项是数值'")
        press(page, "EN")
    page.faults.clear()  # the browser notes the refused request


def test_no_call_is_suspicious_where_nothing_is_known_of_it(page, tmp_path):
    calls = [Node(f"Torch.a.{number}.forward") for number in range(3)]
    path = write(tmp_path / "a.vis.db", {(0, 0): (Node("DefaultModel", calls, 0), None)})
    with shown(page, path, tmp_path / "state") as address:
        open_page(page, address)
        for key in ("n", "p"):
            tap(page, key)
            page.until(f"document.querySelector('.notice')?.innerText === {json.dumps(NOTHING_SUSPICIOUS)}")
            assert selected(page) == [""]
            page.run("document.querySelector('.notice').click()")
        press(page, "call")
        settle(page)
        tap(page, "n")
        page.until(f"{SELECTED}[0]?.includes('.forward')")
