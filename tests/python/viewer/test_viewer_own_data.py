# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Data and notes of the user, and what he makes of the colours, in a headless Chromium."""

from __future__ import annotations

import json
import re

import pytest
from viewer_actions import BLOCK, COLOURED, box_of, choose, chosen, give_own, open_page, press, shown, text
from viewer_page import CHROMIUM, MISSING
from viewer_samples import FC, UP, Node, model, write

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


def test_own_data_may_hold_notes(page, tmp_path):
    hostile = "<img src=x onerror=alert(1)> looked at on Monday"
    note = "document.querySelector('.note-text b')?.innerText"
    options = f"[...{box_of('Colour')}.options].length"
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        before = page.run(f"return {options}")
        give_own(page, json.dumps({"Tensor.add.1.forward": hostile, "nobody": "text"}))
        page.until("document.querySelector('.notice')?.innerText === '2 notes loaded.'")
        assert page.run(f"return {options}") == before  # there is nothing to colour by
        page.run("document.querySelector('.finding').click()")
        page.until(f"{note} === {json.dumps(hostile)}")
        page.page.reload()
        page.until(f"{note} === {json.dumps(hostile)}")
        assert page.run("return document.querySelector('.lower img')") is None


def test_own_data_stay_with_the_user(page, tmp_path):
    graphs = {(0, 0): model(), (0, 1): model()}
    with shown(page, write(tmp_path / "a.vis.db", graphs), tmp_path / "state") as address:
        open_page(page, address)
        give_own(page, json.dumps({FC: 1.0, BLOCK: 6.0}))
        page.until(f"location.hash.includes('own') && {COLOURED} === 2")
        mine = chosen(page, "Colour")
        choose(page, "Rank", 1)
        page.until(f"location.hash.includes('r=1') && {COLOURED} === 2")
        give_own(page, json.dumps({FC: 77.0}))  # as another user would
        page.until(f"{COLOURED} === 1")
        assert chosen(page, "Colour") != mine
        choose(page, "Colour", "difference")
        page.until("location.hash.includes('by=difference')")
        choose(page, "Colour", mine)
        page.until(f"{COLOURED} === 2")
        link = page.run("return location.href")
        page.go("about:blank")
        page.go(link)
        page.until(f"document.querySelector('.class b') && {COLOURED} === 2")
        press(page, "Search")
        page.until("document.querySelector('.sort option[value=colour]')")
        page.run(
            "const box = document.querySelector('.sort select'); box.value = 'colour';"
            "box.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        page.until("document.querySelectorAll('.node').length === 2")
        assert page.run("return document.querySelector('.node').title") == BLOCK


def test_own_data_colours_the_graph(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        give_own(page, json.dumps({FC: 1.0, UP: 6.0, BLOCK: "none", "of no node": 3.5}))
        page.until("location.hash.includes('own')")
        page.until("document.body.innerText.includes('3 values loaded')")
        legend = [float(bound) for bound in re.findall(r"\d+(?:\.\d+)?", text(page, ".legend"))]
        assert {2.0, 3.0, 4.0, 5.0} <= set(legend), legend
        before = page.run("return location.hash")
        for wrong, reason in (("{", "JSON"), ('{"a": [1]}', "none of its members is a number")):
            give_own(page, wrong)
            page.until(f"document.body.innerText.includes({json.dumps(reason)})")
            assert page.run("return location.hash") == before
    page.faults.clear()  # the browser notes the refused request


def test_the_limits_of_the_classes_are_changed_and_the_colours_stay(page, tmp_path):
    colours = "[...document.querySelectorAll('.class i')].map(one => one.style.background).join()"
    field = "document.querySelector('.bounds input')"
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        before = page.run(f"return {colours}")
        assert page.run(f"return {field}.value") == "0.2 0.4 0.8"
        page.run(f"{field}.value = '0.1 0.4 0.6'; {field}.form.requestSubmit(); return 1")
        page.until("document.querySelector('.class').textContent.startsWith('≤ 0.1')")
        assert page.run(f"return {colours}") == before
        assert page.run(f"return {field}.value") == "0.1 0.4 0.6"


def test_the_colours_of_the_classes_are_changed_and_kept(page, tmp_path):
    colours = "[...document.querySelectorAll('.class i')].map(one => one.style.background)"
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        before = page.run(f"return {colours}")
        page.run(
            "const one = document.querySelectorAll('.class-colours input')[1]; one.value = '#123456';"
            "one.dispatchEvent(new Event('input', {bubbles: true})); return 1"
        )
        after = [before[0], "rgb(18, 52, 86)", *before[2:]]
        page.until(f"JSON.stringify({colours}) === {json.dumps(json.dumps(after, separators=(',', ':')))}")
        page.page.reload()
        page.until(f"{colours}[1] === 'rgb(18, 52, 86)'")
        press(page, "Reset")
        page.until(f"{colours}[1] === {json.dumps(before[1])}")
        assert page.run(f"return {colours}") == before


LEVELS = (None, "medium", "critical")


def test_the_legend_counts_the_micro_step_that_is_shown(page, tmp_path):
    calls = [Node(f"Torch.a.{i}.forward", micro=int(i > 0), overflow=level) for i, level in enumerate(LEVELS)]
    path = tmp_path / "a.vis.db"
    write(path, {(0, 0): (Node("DefaultModel", calls, 0), None)}, overflow=True, micro_steps=2)
    legend = "[...document.querySelectorAll('.class b')].map(one => Number(one.textContent)).join()"
    with shown(page, path, tmp_path / "state") as address:
        open_page(page, address)
        for micro, counts in (("-1", "2,1,0,1"), ("0", "2,0,0,0"), ("1", "1,1,0,1")):
            choose(page, "Micro", micro)
            page.until(f"{legend} === {json.dumps(counts)}")
        choose(page, "Colour", "kind")  # the module, and the calls
        page.until(f"{legend} === '1,2,0,0'")
