# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page about records of the monitor, in Chromium."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "viewer"))

from msprobe.trend.command import main
from trend_records import Training, write_alarm, write_record
from viewer_page import CHROMIUM, MISSING, ViewerPage, serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

FIRST = "gradient.norm/layers.3"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    a = write_record(folder / "run_a", Training(1), 400)
    b = write_record(folder / "run_b", Training(1, noise=1e-4, fault=200), 400)
    write_alarm(b, 212, FIRST, 8.2)
    write_alarm(b, 214, "loss", "NaN", "nonfinite")
    return a, b


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    page = ViewerPage(tmp_path_factory.mktemp("profile"))
    page.size(1500, 900)
    yield page
    page.close()


@pytest.fixture
def page(running):
    yield from running.without_faults()


@pytest.fixture(scope="module", params=["served", "exported"])
def address(request, runs, running, tmp_path_factory):
    """The same page, from `msprobe view` and as one file."""
    a, b = runs
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "exported":
        assert main([str(a), str(b), "--quiet", "--export", str(folder / "trend.html")]) == 1
        yield (folder / "trend.html").as_uri()
    else:
        with serving(a, folder, str(b)) as found:
            yield found
            running.go("about:blank")


@pytest.fixture
def shown(address, page):
    page.go("about:blank")
    page.go(address)
    ready(page)
    return page


def ready(page):
    page.until("document.querySelectorAll('.finding').length > 4 && document.querySelector('.curve path')")
    page.until("document.querySelector('.heat-box canvas')?.height > 0")


def title(page):
    return page.run("return document.querySelector('.pane-head .path').textContent")


def press(page, text):
    find = f"[...document.querySelectorAll('button')].find(b => b.textContent.includes({json.dumps(text)}))"
    page.until(find)
    page.run(f"{find}.click()")


def colours(page):
    """Of the row of each layer, before and behind the fault."""
    return page.run("""
        const canvas = document.querySelector('.heat-box canvas'), copy = document.createElement('canvas');
        const pen = copy.getContext('2d', {willReadFrequently: true});
        [copy.width, copy.height] = [canvas.width, canvas.height];
        pen.drawImage(canvas, 0, 0);
        const row = canvas.height / 6, at = (layer, share) =>
            [...pen.getImageData(150 + (canvas.width - 162) * share, row * (layer + 0.3), 1, 1).data].join();
        return [at(3, 0.25), at(3, 0.9), at(0, 0.25)];""")


def until_drawn(page):
    """The map is drawn in parts."""
    for _ in range(50):
        before, behind, other = colours(page)
        if before == other != behind:
            return
        time.sleep(0.1)


def test_it_shows_where_the_runs_part(shown):
    # A page that is served gets curves, map and alarms one by one.
    shown.until("document.querySelectorAll('.curve').length === 2 && document.querySelector('.parting')")
    shown.until(
        "document.querySelectorAll('.band').length === 1 && document.querySelectorAll('.alarm').length === 2"
    )
    until_drawn(shown)
    first = shown.run("return document.querySelector('.finding.first').innerText")
    assert "run_b" in first
    assert FIRST in first
    assert title(shown).startswith(FIRST)
    assert "diverge at step 20" in shown.run("return document.querySelector('.parting').textContent")
    assert shown.run("return document.querySelectorAll('.curve').length") == 2
    assert shown.run("return document.querySelectorAll('.band').length") == 1
    assert shown.run("return document.querySelectorAll('.alarm').length") == 2
    before, behind, other = colours(shown)
    assert before == other != behind


def test_an_alarm_leads_to_its_series(shown):
    press(shown, "nonfinite")
    shown.until("document.querySelector('.pane-head .path').textContent === 'loss'")
    assert (
        shown.run("return document.querySelector('.alarm').getAttribute('fill')") != "none"
    )  # of this series
    # The loss is of the model alone: the map keeps the rows of what parts.
    assert shown.run("return document.querySelector('.lower .mono').textContent") == "gradient.norm"


def test_a_run_is_hidden_and_shown(shown):
    for left in (1, 2):
        shown.run("document.querySelectorAll('.runs button')[1].click()")
        shown.until(f"document.querySelectorAll('.curve').length === {left}")
        assert shown.run("return document.querySelectorAll('.runs [aria-pressed=true]').length") == left


def test_numbers_under_the_mouse_zoom_and_keys(shown):
    box = shown.run("const r = document.querySelector('.chart').getBoundingClientRect();"
                    "return [r.left, r.top, r.width, r.height]")  # fmt: skip
    left, top, width, height = box
    shown.move(left + width * 0.4, top + height / 2)
    shown.until("/Step 1\\d\\d.*±/.test(document.querySelector('.pane-head .readout')?.textContent ?? '')")
    shown.drag((left + width * 0.5, top + height / 2), (left + width * 0.7, top + height / 2))
    shown.until("/a=1\\d\\d/.test(location.hash)")
    shown.until("document.querySelector('.chart').getAttribute('aria-label').includes('steps 1')")
    shown.key("l")
    shown.until("document.querySelector('.top [aria-pressed=true]')")
    shown.key("0")
    shown.until("document.querySelector('.chart').getAttribute('aria-label').includes('steps 0 to 399')")
    shown.key("?")
    shown.until("document.querySelector('dialog[open]')?.innerText.includes('Log scale')")
    shown.key("Escape")


def test_series_are_searched_and_rows_are_clicked(shown):
    press(shown, "Series")
    shown.until("document.getElementById('search')")
    shown.run("document.getElementById('search').focus()")
    shown.write("weight layers.2.mlp.up norm")
    press(shown, "weight.norm/layers.2.mlp.up.weight")
    shown.until("document.querySelector('.pane-head .path').textContent.startsWith('weight.norm/layers.2')")
    shown.until("document.querySelector('.lower .mono').textContent === 'weight.norm'")
    place = shown.run("const r = document.querySelector('.heat-box canvas').getBoundingClientRect();"
                      "return [r.left + r.width / 2, r.top + r.height / 12]")  # fmt: skip
    shown.click(*place)
    shown.until("document.querySelector('.pane-head .path').textContent === 'weight.norm/layers.0'")


def test_dark_and_chinese(shown):
    page = shown
    page.run("[...document.querySelectorAll('.top .quiet')][0].click()")
    page.until("document.documentElement.dataset.theme")
    page.run("[...document.querySelectorAll('.top .quiet')][1].click()")
    page.until("document.body.innerText.includes('训练从哪里开始偏离')")
    page.run("[...document.querySelectorAll('.top .quiet')][1].click()")
    page.run("[...document.querySelectorAll('.top .quiet')][0].click()")


def test_one_run_alone(runs, page, tmp_path):
    with serving(runs[1], tmp_path) as address:
        page.go(address)
        page.until(
            "document.querySelectorAll('.finding').length === 2 && document.querySelector('.curve path')"
        )
        assert title(page) == "loss"
        page.go("about:blank")


def test_names_are_text(page, tmp_path):
    from msprobe.native import core

    evil = "</script><img src=x onerror=alert(1)>"
    store = core.MonitorStoreWriter(tmp_path / "monitor.db")
    store.add_series(core.MonitorSeries("custom", "", evil))
    for step in range(3):
        store.append(step, [step])
    store.flush()
    write_alarm(tmp_path, 1, f"custom/{evil}", 1.0, evil)
    assert main([str(tmp_path), "--quiet", "--export", str(tmp_path / "trend.html")]) == 1
    page.open(tmp_path / "trend.html")
    page.until("document.querySelector('.curve path')")
    assert evil in title(page)
    assert page.run("return document.querySelectorAll('img').length") == 0
