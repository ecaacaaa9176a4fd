# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a user through the page, in a headless Chromium: with the keyboard alone, and with hostile
files."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from msprobe.viewer.export import export
from viewer_page import CHROMIUM, MISSING, serving
from viewer_samples import Node, model, plain, tensor, write

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

FC = "Module.layers.1.fc.Linear.forward.0"
UP = "Module.layers.1.up.Linear.forward.0"
BLOCK = "Module.layers.1.Block.forward.0"

SELECTED = "[...document.querySelectorAll('.pane-head .path')].map(e => e.textContent)"


@pytest.fixture
def page(running):
    """Nothing may go wrong in a page."""
    running.size(1500, 950)
    running.faults.clear()
    yield running
    assert running.faults == []


def selected(page):
    return page.run(f"return {SELECTED}")


def is_selected(page, target, golden):
    page.until(
        f"JSON.stringify({SELECTED}) === {json.dumps(json.dumps([target, golden], separators=(',', ':')))}"
    )


def press(page, text):
    """A button by its text."""
    begins = f"b => b.textContent.trim().startsWith({json.dumps(text)})"
    find = f"[...document.querySelectorAll('button')].find({begins})"
    page.until(f"{find} && !{find}.disabled")
    page.run(f"{find}.click()")


def text(page, selector="body"):
    return page.run(f"return document.querySelector({json.dumps(selector)})?.innerText ?? ''")


@contextlib.contextmanager
def shown(page, path, state):
    """A server whose page is left before it ends: no request is cut off."""
    with serving(path, state) as address:
        try:
            yield address
        finally:
            page.go("about:blank")


def tap(page, key):
    """A key, and what it does is done."""
    page.key(key)
    settle(page)


def settle(page):
    page.until("document.querySelector('main')?.getAttribute('aria-busy') !== 'true'")


def open_page(page, address, **options):
    page.run("localStorage.clear(); return 1") if page.run("return location.protocol") == "http:" else None
    page.go("about:blank")
    page.go(address, **options)
    page.until("document.querySelector('.finding, .tab-body p.pad:not(.soft), [role=alert], .files')")


def test_the_way_of_a_user(page, tmp_path):
    """Open, first divergence, its tensors, its peer, its source line, match by hand, undo, reload, share."""
    path = write(tmp_path / "a.vis.db")
    before = path.read_bytes()
    with shown(page, path, tmp_path / "state") as address:
        open_page(page, address)
        press(page, "First divergence")
        is_selected(page, "Tensor.add.1.forward", "Tensor.add.1.forward")
        page.until("document.querySelectorAll('.tensors tbody tr').length === 2")
        row = text(page, ".tensors tbody tr")
        assert re.match(r"input\s*input\.0\s+5\.2e5\s+float32", row.replace("\t", " ")), row

        press(page, "Stack")
        page.until("document.querySelectorAll('.stack li').length === 2")
        assert "model.py, line 7" in text(page, ".stack")
        assert "y = f(x)" in text(page, ".stack code")

        for name in (FC, UP):  # through the search, one on each side
            page.key("/")
            page.until("document.activeElement.id === 'search'")
            page.run("document.activeElement.select()")
            page.write(name)
            page.until(f"document.querySelector('.node .name')?.textContent === {json.dumps(name)}")
            page.run("document.querySelector('.node').click()")
            page.until(f"{SELECTED}.includes({json.dumps(name)})")
        is_selected(page, FC, UP)
        page.run("document.activeElement.blur()")
        press(page, "Match")
        press_exactly(page, "Match", ".buttons")
        page.until("document.querySelectorAll('.pairs li').length === 2")
        press(page, "Tensors")
        page.until("document.querySelectorAll('.tensors tbody tr').length === 3")
        link = page.run("return location.href")
        assert "w=" in link
        press(page, "Undo")
        page.until("document.querySelectorAll('.pairs li').length === 0")
        press(page, "Redo")
        page.until("document.querySelectorAll('.pairs li').length === 2")

        page.run("localStorage.clear()")  # a colleague, who has only the link
        page.go("about:blank")
        page.go(link)
        is_selected(page, FC, UP)
        page.until("document.querySelectorAll('.pairs li').length === 2")
        assert "token" not in link
    assert path.read_bytes() == before


def press_exactly(page, name, inside):
    find = (
        f"[...document.querySelectorAll('{inside} button')].find(b => b.textContent === {json.dumps(name)})"
    )
    page.until(f"{find} && !{find}.disabled")
    page.run(f"{find}.click()")


def spot(page, side, name):
    """Where a node is on the screen: the mouse goes down a side until the tool tip has its name."""
    box = page.run(
        f"const b = document.querySelector('canvas[data-side=\"{side}\"]').getBoundingClientRect(); "
        "return [b.left, b.top, b.width, b.height]"
    )
    for y in 3 * list(range(6, int(box[3]), 9)):  # a picture may still be on its way
        place = (box[0] + box[2] * 0.5, box[1] + y)
        page.move(*place)
        if page.run(f"return document.querySelector('canvas[data-side=\"{side}\"]').title") == name:
            return place
    raise AssertionError(f"{name} is not in sight")


def test_the_keyboard_alone_is_enough(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        tap(page, "f")
        is_selected(page, "Tensor.add.1.forward", "Tensor.add.1.forward")
        tap(page, "ArrowLeft")
        is_selected(page, BLOCK, BLOCK)
        tap(page, "ArrowLeft")  # closes it
        tap(page, "ArrowDown")
        is_selected(page, "Module.layers.2.Block.forward.0", "Module.layers.2.Block.forward.0")
        tap(page, "n")
        page.until(f"{SELECTED}[0] === 'Module.layers.2.fc.Linear.forward.0'")
        tap(page, "p")
        is_selected(page, "Tensor.add.1.forward", "Tensor.add.1.forward")
        page.key("?")
        page.until("document.querySelector('dialog[open]')")
        page.key("Escape")
        page.until("!document.querySelector('dialog[open]')")
        page.key("/")
        page.until("document.activeElement.id === 'search'")
        page.write("clone")
        page.until("document.querySelectorAll('.node').length === 1")
        seen = set()
        for _ in range(60):  # every control can be reached
            page.key("Tab")
            seen.add(
                page.run(
                    "const e = document.activeElement; return e.tagName + "
                    "(e.getAttribute('aria-label') ?? e.textContent).slice(0, 30)"
                )
            )
        assert any(one.startswith("CANVAS") for one in seen), seen
        assert sum(one.startswith("BUTTON") for one in seen) >= 8


def test_the_mouse_selects_opens_and_moves_both_sides(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        x, y = spot(page, 1, BLOCK)
        page.click(x, y)
        is_selected(page, BLOCK, BLOCK)
        left = page.run("return document.querySelector('canvas').getBoundingClientRect().left")
        golden = page.run("return document.querySelectorAll('canvas')[1].getBoundingClientRect().left")
        page.click(golden + 26, y)  # the arrow before the name: opens both sides
        page.until("location.hash.includes('o=')")
        assert spot(page, 0, "Tensor.add.1.forward")[1] == spot(page, 1, "Tensor.add.1.forward")[1]
        tap(page, "+")
        tap(page, "+")
        before = spot(page, 0, BLOCK)[1]
        page.drag((golden + 300, 460), (golden + 300, 520))  # on the golden side; the target goes along
        assert spot(page, 0, BLOCK)[1] > before + 30
        assert left < golden


def test_a_filter_dims_the_rest_and_counts_are_shown(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        page.until("document.querySelectorAll('.class b').length === 5")
        counts = page.run("return [...document.querySelectorAll('.class b')].map(b => Number(b.textContent))")
        assert counts == [9, 0, 4, 0, 2]
        page.run("document.querySelectorAll('.class')[2].click()")
        page.until("document.querySelector('.class[aria-pressed=true]') && location.hash.includes('c=2')")
        tap(page, "n")
        page.until(f"{SELECTED}[0] === 'Tensor.add.1.forward'")


def test_names_are_never_html(page, tmp_path):
    evil = '<img src=x onerror="window.broken=1">&lt;script&gt;\'"`{}\u202e</script>'
    call = Node(
        evil,
        peer=evil,
        index=1,
        inputs={f"{evil}.input.0": {**tensor(1.0, 0.5), "dtype": evil}},
        outputs={f"{evil}.output.0": tensor(1.0, 0.5)},
        merged=[evil],
        links={"communications_type": evil, "nodes_info": {"1": [evil, evil]}},
        stack=(f"File {evil}, line 1, in {evil}, \n {evil}",),
    )
    other = Node(evil, peer=evil, outputs={f"{evil}.output.0": plain()}, stack=(evil,))
    pair = (
        Node("DefaultModel", [call], 0, peer="DefaultModel"),
        Node("DefaultModel", [other], 0, peer="DefaultModel"),
    )
    path = write(tmp_path / "<b>x&amp;.vis.db", {(0, 0): pair, (0, 1): pair})
    out = tmp_path / "out.html"
    export(path, out, step=None, rank=None)
    with shown(page, path, tmp_path / "state") as address:
        for where in (address, out.as_uri()):
            open_page(page, where)
            tap(page, "f")
            page.until(f"{SELECTED}[0] === {json.dumps(evil)}")
            for tab in ("Stack", "Merge", "Communication", "Tensors"):
                press(page, tab)
                page.until("document.querySelector('.lower-body').innerText.includes('onerror')")
            press(page, "Search")
            page.until("document.querySelector('.node')")
            assert page.run("return window.broken ?? null") is None
            assert page.run("return document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + b"\0" * 500])
def test_a_file_that_cannot_be_shown_gives_a_page_that_says_why(page, tmp_path, content):
    path = tmp_path / "a.vis.db"
    path.write_bytes(content)
    with shown(page, path, tmp_path / "state") as address:
        page.go("about:blank")
        page.go(address)
        page.until("document.querySelector('[role=alert]')")
        assert "a.vis.db" in text(page, ".reason")
        assert "Traceback" not in text(page)
        path.unlink()
        write(path)  # the writer has finished
        press(page, "Try again")
        page.until("document.querySelector('.finding')")
    page.faults.clear()  # the browser notes the refused request


def test_steps_and_ranks_keep_the_selection(page, tmp_path):
    graphs = {(step, rank): model(0.5) for step in (0, 1) for rank in (0, 1)}
    with shown(page, write(tmp_path / "a.vis.db", graphs), tmp_path / "state") as address:
        open_page(page, address)
        tap(page, "f")
        is_selected(page, "Tensor.add.1.forward", "Tensor.add.1.forward")
        press(page, "Ranks")
        page.until("document.querySelectorAll('.heat .cell').length >= 4")
        page.run("document.querySelectorAll('.heat .cell')[3].click()")
        page.until("location.hash.includes('s=1') && location.hash.includes('r=1')")
        is_selected(page, "Tensor.add.1.forward", "Tensor.add.1.forward")
        page.until("document.querySelectorAll('.heat').length === 2")
        page.run("document.querySelectorAll('.heat')[1].querySelector('.cell').click()")
        page.until("document.querySelector('.pair')")
        page.run("document.querySelector('.pair').click()")
        page.until(f"{SELECTED}[0] === 'Distributed.all_reduce.0.forward'")
        page.until(
            "[...document.querySelectorAll('.lower [role=tab]')].some(b => "
            "b.textContent.startsWith('Communication'))"
        )
        press(page, "Communication")
        page.until("document.querySelector('.lower .pair')")
        page.run("document.querySelector('.lower .pair').click()")
        page.until("location.hash.includes('r=1') || location.hash.includes('r=0')")


def test_own_data_colours_the_graph(page, tmp_path):
    def give(content):
        page.run(
            "const input = document.querySelector('.menu input[type=file]');"
            "const chosen = new DataTransfer();"
            f"chosen.items.add(new File([{json.dumps(content)}], 'own.json'));"
            "input.files = chosen.files; input.dispatchEvent(new Event('change', {bubbles: true}))"
        )

    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        give(json.dumps({FC: 1.0, UP: 6.0, BLOCK: "none", "of no node": 3.5}))
        page.until("location.hash.includes('own')")
        page.until("document.body.innerText.includes('3 values loaded')")
        legend = [float(bound) for bound in re.findall(r"\d+(?:\.\d+)?", text(page, ".legend"))]
        assert {2.0, 3.0, 4.0, 5.0} <= set(legend), legend
        before = page.run("return location.hash")
        for wrong, reason in (("{", "JSON"), ('{"a": "b"}', "none of its members is a number")):
            give(wrong)
            page.until(f"document.body.innerText.includes({json.dumps(reason)})")
            assert page.run("return location.hash") == before
    page.faults.clear()  # the browser notes the refused request


def test_chinese_is_complete(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        press(page, "中文")
        page.until("document.documentElement.lang === 'zh-CN'")
        for number in range(4):
            page.run(f"document.querySelectorAll('.side [role=tab]')[{number}].click()")
            page.run("return new Promise(done => setTimeout(done, 200))")
            words = set(re.findall(r"[A-Za-z]{3,}", text(page, ".side .tabs") + text(page, ".top .primary")))
            assert words == set()
        press(page, "English")


def test_an_exported_page_needs_no_server(page, tmp_path):
    out = tmp_path / "out.html"
    said = export(write(tmp_path / "a.vis.db"), out, step=None, rank=None)
    assert "whole graph, 33 of 33" in said
    page.go("about:blank")
    page.go(out.as_uri())
    page.until("document.querySelector('.finding')")
    tap(page, "f")
    is_selected(page, "Tensor.add.1.forward", "Tensor.add.1.forward")
    page.until("document.querySelectorAll('.tensors tbody tr').length === 2")


def test_a_large_graph_is_exported_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr("msprobe.viewer.export.MOST_WHOLE", 10)
    monkeypatch.setattr("msprobe.viewer.export._MOST_PART", 4)
    said = export(write(tmp_path / "a.vis.db"), tmp_path / "out.html", step=0, rank=0)
    assert "suspicious part" in said
    with pytest.raises(ValueError, match="no step 5"):
        export(write(tmp_path / "b.vis.db"), tmp_path / "out.html", step=5, rank=0)
