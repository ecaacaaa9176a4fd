# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a user through the page, in a headless Chromium: with the keyboard alone, and with hostile
files."""

from __future__ import annotations

import contextlib
import json
import re
import time

import pytest
from msprobe.viewer.export import export
from viewer_actions import (
    BLOCK,
    SELECTED,
    choose,
    chosen,
    is_selected,
    open_page,
    press,
    press_exactly,
    settle,
    shown,
    tap,
    text,
)
from viewer_page import CHROMIUM, MISSING
from viewer_samples import FC, UP, Node, model, plain, tensor, write

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


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
        assert counts == [9, 0, 4, 0, 5]  # without a counterpart: of both sides
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
        page.go(f"{address}#t=search&q=add")
        page.until("document.querySelector('[role=alert]')")
        assert "a.vis.db" in text(page, ".reason")
        assert "Traceback" not in text(page)
        path.unlink()
        write(path)  # the writer has finished
        press(page, "Try again")
        page.until("document.querySelectorAll('.node').length === 6")
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


def test_lists_are_those_of_the_graph_that_is_shown(page, tmp_path):
    graphs = {(0, 0): model(0.5), (0, 1): (Node("DefaultModel", kind=0, peer="DefaultModel"),) * 2}
    with shown(page, write(tmp_path / "a.vis.db", graphs), tmp_path / "state") as address:
        open_page(page, f"{address}#t=search&q=linear")
        page.until("document.querySelector('.count').innerText === '12 nodes'")
        choose(page, "Rank", 1)
        page.until("document.querySelector('.count').innerText === 'No node fits.'")
        press(page, "Structure")
        page.until("document.body.innerText.includes('Both sides have the same structure')")
        choose(page, "Rank", 0)
        page.until("document.querySelectorAll('.node').length === 3")


def test_copies_reach_the_clipboard_without_a_secure_context(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, address)
        page.run(
            "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true});"
            "document.execCommand = () => {"
            "  window.copied = document.activeElement.value; return window.lets }"
        )
        tap(page, "f")
        page.until("document.querySelectorAll('.tensors tbody tr').length === 2")
        page.run("window.lets = true")
        press_exactly(page, "Copy", ".lower-body")
        page.until("document.body.innerText.includes('Copied')")
        rows = page.run("return window.copied").splitlines()
        assert len(rows) == 3
        assert "[4, 4]" in rows[1].split("\t")
        press(page, "Copy link")
        page.until("document.body.innerText.includes('Link copied')")
        assert page.run("return window.copied === location.href")
        page.run("window.lets = false")
        press(page, "Copy link")
        page.until("document.body.innerText.includes('did not let the page copy')")


def test_a_graph_that_cannot_be_shown_leaves_the_page_where_it_is(page, tmp_path):
    graphs = {(0, 0): model(), (0, 2): model()}  # their communication is with rank 1
    with shown(page, write(tmp_path / "a.vis.db", graphs), tmp_path / "state") as address:
        open_page(page, f"{address}#n=0Distributed.all_reduce.0.forward&d=links")
        page.until("document.querySelector('.lower .pair')")
        page.run("document.querySelector('.lower .pair').click()")
        page.until("document.querySelector('.notice')?.innerText.includes('no step 0 with a rank 1')")
        assert chosen(page, "Rank") == "0"
        tap(page, "f")
        is_selected(page, "Tensor.add.1.forward", "Tensor.add.1.forward")
        assert "r=0" in page.run("return location.hash")
    page.faults.clear()  # the browser notes the refused request


def test_a_link_shows_what_its_sender_saw(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, f"{address}#by=constructor")
        assert chosen(page, "Colour") == "index"
        clone = "Tensor.clone.0.forward"
        page.run(f"location.hash = 'n=1{clone}&t=search&q=l&k=1&qs=1&only=leaves&sort=name&down=1'")
        page.until(f"{SELECTED}.includes({json.dumps(clone)}) && document.querySelector('.node')")
        names = page.run("return [...document.querySelectorAll('.node')].map(one => one.title)")
        assert clone in names  # calls of the golden side alone, the last name first
        assert names == sorted(names, reverse=True)
        kept = page.run("return location.hash")
        assert all(part in kept for part in ("k=1", "qs=1", "only=leaves", "sort=name", "down=1")), kept

        page.run("location.hash = 'n=0Module.layers.0.Block.forward.0&by=difference&lim=0+100'")
        page.until(f"{SELECTED}[0] === 'Module.layers.0.Block.forward.0'")
        page.until("document.querySelectorAll('.class').length === 4")
        assert "q=" not in page.run("return location.hash")
        page.run("location.hash = 'f=elsewhere.vis.db'")
        page.until("document.body.innerText.includes('There is no file elsewhere.vis.db here')")


def test_what_is_open_on_the_golden_side_alone_stays_open(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, f"{address}#n=1Functional.linear.1.forward")
        page.until(f"location.hash.includes('g=' + encodeURIComponent({json.dumps(UP)}))")
        link = page.run("return location.href.replace(/n=[^&]*/, '')")
        page.go("about:blank")
        page.go(link)
        page.until("document.querySelector('.finding')")
        assert spot(page, 1, "Functional.linear.1.forward")


def test_a_link_names_the_matches_that_are_applied(page, tmp_path):
    with shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        open_page(page, f"{address}#n=0{FC}&t=match")
        page.until(f"{SELECTED}.includes({json.dumps(FC)})")
        x, y = spot(page, 1, UP)
        page.page.keyboard.down("Shift")
        page.click(x, y)
        page.page.keyboard.up("Shift")
        is_selected(page, FC, UP)
        press_exactly(page, "Match", ".buttons")
        page.until("location.hash.includes('w=')")
        page.go("about:blank")
        page.go(address)  # the same user again, who does not open the tab
        page.until("document.querySelector('.finding') && location.hash.includes('w=')")


SLOW = """
    const ask = window.fetch;
    window.isReading = true;
    window.fetch = async (path, ...more) => {
      if (path === 'api/open') await new Promise(done => setTimeout(done, window.openingTakes ?? 0));
      const answer = await ask(path, ...more);
      if (path !== 'api/tree' || !window.isReading) return answer;
      return new Response(JSON.stringify({...await answer.json(), ready: false, progress: 0.5}), answer);
    };"""


@contextlib.contextmanager
def reading(page):
    """Values of graphs are being read until `window.isReading` is false; to open a file takes
    `window.openingTakes` milliseconds."""
    page.cdp.send("Page.enable")
    script = page.cdp.send("Page.addScriptToEvaluateOnNewDocument", {"source": SLOW})
    try:
        yield
    finally:
        page.cdp.send("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})


def test_a_node_can_be_looked_at_while_values_are_read(page, tmp_path):
    with reading(page), shown(page, write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        page.go("about:blank")
        page.go(address)
        page.until("document.querySelector('.notice')?.innerText.includes('50 %')")
        settle(page)
        x, y = spot(page, 0, BLOCK)
        page.click(x, y)
        page.until("document.querySelector('.lower-body').innerText.includes('no tensors')")
        page.run("window.isReading = false")
        page.until("document.querySelector('.finding')")


def test_another_file_can_be_opened_while_values_are_read(page, tmp_path):
    write(tmp_path / "first.vis.db", {(7, 3): model(0.5)})
    write(tmp_path / "second.vis.db")  # has no step 7 and no rank 3
    with reading(page), shown(page, tmp_path, tmp_path / "state") as address:
        page.go("about:blank")
        page.go(f"{address}#f=first.vis.db")
        page.until("document.querySelector('.notice')?.innerText.includes('50 %')")
        page.run("window.openingTakes = 1500; location.hash = 'f=second.vis.db'; return 1")
        page.until("document.title.startsWith('second')")
        page.run("window.isReading = false")
        page.until("document.querySelector('.finding')")
        assert page.run("return document.querySelector('[role=alert]')") is None


def test_a_notice_is_of_the_file_that_is_shown(page, tmp_path):
    target, _ = model()
    write(tmp_path / "single.vis.db", {(0, 0): (target, None)})
    write(tmp_path / "two.vis.db")
    with shown(page, tmp_path, tmp_path / "state") as address:
        page.go(f"{address}#f=single.vis.db")
        page.until("document.title.startsWith('single')")
        settle(page)
        tap(page, "n")
        page.until("document.querySelector('.notice')")
        page.run("location.hash = 'f=two.vis.db'; return 1")
        page.until("document.title.startsWith('two')")
        assert page.run("return document.querySelector('.notice')") is None
        page.run("location.hash = 'f=none.vis.db'; return 1")
        page.until("document.querySelector('.notice')?.innerText === 'There is no file none.vis.db here.'")


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


def test_a_large_graph_is_fitted_as_bars_with_names(page, tmp_path):
    """A row is a fifth of a pixel there: what is seen is the worst of each line, and as many names as fit."""

    def named(name, children=(), kind=1, index=0.0):
        return Node(name, list(children), kind, index, peer=name)

    def side():
        calls = [named(f"Functional.f.{i}.forward", index=float(i >= 2000)) for i in range(4000)]
        layers = [named(f"Module.l{i}.L.forward.0", calls[200 * i : 200 * i + 200], 0) for i in range(20)]
        return named("DefaultModel", layers, 0)

    graph = {(0, 0): (side(), side())}
    with shown(page, write(tmp_path / "a.vis.db", graph), tmp_path / "state") as address:
        open_page(page, address)
        page.run("""
            const box = document.querySelector("select[aria-label=Levels]");
            box.value = "100";
            box.dispatchEvent(new Event("change", {bubbles: true}));
        """)
        settle(page)
        page.run("document.activeElement.blur()")
        tap(page, "0")
        settle(page)

        def names_and_colours() -> tuple[int, list[str]]:
            return page.run("""
                const canvas = document.querySelector(".pane canvas"), high = canvas.height;
                const copy = document.createElement("canvas");  // one often read makes a warning
                [copy.width, copy.height] = [canvas.width, high];
                const painted = copy.getContext("2d", {willReadFrequently: true});
                painted.drawImage(canvas, 0, 0);
                const line = painted.getImageData(canvas.width >> 1, 0, 1, high).data;
                const pixel = y => line.slice(4 * Math.round(y), 4 * Math.round(y) + 3).join();
                return [Number(canvas.dataset.boxes), [pixel(0.3 * high), pixel(0.8 * high)]];
            """)

        end = time.monotonic() + 20  # a busy machine paints late
        while len(set(names_and_colours()[1])) == 1 and time.monotonic() < end:
            time.sleep(0.1)
        names, colours = names_and_colours()
        assert 5 < names < 60
        assert colours[0] != colours[1]  # the worse half
