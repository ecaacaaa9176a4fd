# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html in a browser: it opens with 100000 rows, answers a search with few elements, and a click
leads to the row.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from browser import CHROMIUM, MISSING, Browser
from msprobe.compare.culprit import culprits_of
from msprobe.compare.report import report_html, write_report
from report_samples import STACK, finding, pair, report_rows, result

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

ROWS = 100_000
MOST_ELEMENTS = 200

# What the tests ask of a page.
WORDS = """
const shown = () => [...document.querySelectorAll("#window .row")];
const texts = () => shown().map(row => row.children[2].textContent);
const picked = () => document.querySelector("#window .picked")?.children[2].textContent;
const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
const text = id => document.getElementById(id).textContent;
function enter(id, value, kind) {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event(kind));
}
// Where a point of an element is in the window, which is scrolled to it.
function spot(id, x, y) {
  document.getElementById(id).scrollIntoView({block: "center"});
  const box = document.getElementById(id).getBoundingClientRect();
  return [box.left + x, box.top + y];
}
// Where a row of all stands in the chart, by the margins that it has.
const chartX = row => 86 + row / 100000 * (document.getElementById("line").clientWidth - 98);
"""
SHOWN = "const {from, to} = document.getElementById('line').dataset; return [+from, +to]"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(running):
    yield from running.without_faults()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "report.html"
    path.write_text(large_page(), "utf-8")
    return path


def large_page():
    names = [f"Module.layers.{i // 100}.fc{i % 100}.Linear.forward.0" for i in range(ROWS * 6 // 10)]
    names += [f"Module.layers.{i // 100}.fc{i % 100}.Linear.backward.0" for i in range(ROWS - len(names))]
    errors = [0.0 if i < 20_000 else 10 ** (i % 70 / 10) for i in range(ROWS)]
    errors[30_000], errors[30_001] = -1, -2
    blamed = finding(name=names[20_000], record=names[20_000])
    pairs = [
        pair(
            0,
            0,
            [blamed],
            report_rows(names, errors, message="max relative error exceeds 0.5", total=400_000),
        ),
        pair(0, 1, report=report_rows(["Torch.add.0.forward", "Torch.mul.0.forward"], [0.0, 7.0])),
        pair(1, 0, report=report_rows(["Torch.sub.0.forward"])),
    ]
    compared = result(pairs, [blamed])
    return report_html(compared, culprits_of(compared.verdict, lambda _: STACK))


def test_a_hundred_thousand_rows(browser, large):
    browser.open(large)
    assert browser.run(WORDS + 'return [text("found"), picked(), shown().length < 200]') == [
        "100,000 of 100,000 rows",
        "Module.layers.200.fc0.Linear.forward.0.output.0",
        True,
    ]
    assert browser.run(WORDS + 'return text("sentence")').startswith("First difference: step 0, ")
    assert browser.run(WORDS + 'return text("cut")').startswith("Shown are 100,000 of 400,000 rows")
    assert "100,000 rounding errors" in browser.run(WORDS + 'return text("detail")')
    found, rows = browser.run(
        WORDS + 'enter("search", "LAYERS.399. fc7.", "input"); await frame(); return [text("found"), texts()]'
    )
    assert found == "2 of 100,000 rows"
    assert rows == [f"Module.layers.399.fc7.Linear.{way}.0.output.0" for way in ("forward", "backward")]


def test_only_the_rows_in_sight_are_elements(browser, large):
    browser.open(large)
    found, *counts, last, elements = browser.run(
        WORDS
        + """
        const counts = [shown().length];
        enter("search", "exceeds", "input");
        await frame();
        counts.push(shown().length);
        document.getElementById("rows").scrollTop = 1e9;
        await frame();
        counts.push(shown().length);
        return [text("found"), ...counts, texts().pop(), document.querySelectorAll("*").length];
        """
    )
    assert found == "100,000 of 100,000 rows"
    assert 0 < min(counts) <= max(counts) < MOST_ELEMENTS
    assert last == "Module.layers.399.fc99.Linear.backward.0.output.0"
    assert elements < 1000  # in the whole page


def test_filters_and_order(browser, large):
    browser.open(large)
    counts, worst = browser.run(
        WORDS
        + """
        const counts = [], kinds = ["differs", "alone", "renamed", "all"].map(kind => "kind " + kind);
        for (const choice of [...kinds, "way backward", "part input"]) {
          enter(...choice.split(" "), "change");
          counts.push(Number(text("found").split(" ")[0].replace(",", "")));
        }
        enter("part", "", "change");
        enter("way", "", "change");
        enter("order", "worst", "change");
        return [counts, shown().slice(0, 2).map(row => row.children[4].textContent)];
        """
    )
    assert counts == [79_999, 1, 0, 100_000, 40_000, 0]
    assert worst == ["no measure", "7.9e+6"]


def test_a_click_on_a_point_selects_its_row(browser, large):
    browser.open(large)
    browser.click(*browser.run(WORDS + 'return spot("line", chartX(30001), 17.6)'))
    chosen = browser.run(WORDS + "return picked()")
    # Several rows lie under one pixel: the one without a counterpart is alone in its line.
    assert chosen == "Module.layers.300.fc1.Linear.forward.0.output.0"


def test_a_click_on_a_cell_opens_its_pair(browser, large):
    browser.open(large)
    browser.click(*browser.run(WORDS + 'return spot("cells", 78, 44)'))
    assert browser.run(
        WORDS + 'return [picked(), document.getElementById("pair").selectedOptions[0].textContent]'
    ) == ["Torch.mul.0.forward.output.0", "step 0, rank 1 (1 row differs)"]
    assert (
        browser.run(WORDS + 'document.querySelector("#culprits button").click(); return picked()')
        == "Module.layers.200.fc0.Linear.forward.0.output.0"
    )


def test_dragging_looks_closer(browser, large):
    browser.open(large)
    start = browser.run(WORDS + 'return spot("line", chartX(50000), 90)')
    end = browser.run(WORDS + 'return spot("line", chartX(60000), 90)')
    browser.drag(start, end)
    assert browser.run(SHOWN) == pytest.approx([50_000, 60_000], abs=500)
    browser.run('document.getElementById("whole").click()')
    assert browser.run(SHOWN) == [0, 100_000]


def test_the_points_are_painted(browser, large):
    colours = """
        const canvas = document.getElementById("line");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(pixels.buffer)).size;
    """
    browser.open(large)
    bright = browser.run(colours)
    background = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(background)
    browser.open(large, dark=True)
    assert browser.run(background) != light
    assert bright > 6
    assert browser.run(colours) > 6


HOSTILE = ["</script><script>document.title='broken'</script>", "<b id=x>", "\u2028\x00\udc80", "__proto__"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(name, browser, tmp_path):
    blamed = finding(name=name, record=name, module=name, reason=name)
    compared = result([pair(findings=[blamed], report=report_rows([name], [5.0], message=name))], [blamed])
    path = tmp_path / "report.html"
    write_report(path, compared, culprits_of(compared.verdict, lambda _: [name]))
    browser.open(path)
    shown = re.sub("[\u2028\x00\udc80]", "\ufffd", name)
    assert browser.run(WORDS + 'return [document.title, texts(), document.querySelectorAll("b").length]') == [
        "The runs differ \u2013 comparison",
        [f"{shown}.output.0"],
        1,
    ]


def test_a_page_without_rows_opens(browser, tmp_path):
    write_report(tmp_path / "report.html", result([pair(), pair(0, 1)]), [])
    browser.open(tmp_path / "report.html")
    assert browser.run(WORDS + 'return [text("found"), shown().length]') == [
        "The rows of this pair are not in the page.",
        0,
    ]


class TestManyRanks:
    """64 of them in a grid: tensor, data and pipeline parallel."""

    @pytest.fixture
    def opened(self, browser, tmp_path):
        layout = {
            "world_size": 64,
            "groups": [[*range(64)], [*range(4)], [*range(0, 32, 4)], [0, 32]],
            "group_names": ["", "mesh_tp", "DATA_PARALLEL_GROUP", "mesh_pp"],
        }
        (tmp_path / "step0/rank0").mkdir(parents=True)
        (tmp_path / "step0/rank0/dump.json").write_text("{}")
        (tmp_path / "step0/rank0/diagnosis.json").write_text(json.dumps({"layout": layout}))
        blamed = finding(step=1, rank=37)
        rows = [report_rows(["a"], [100.0 * (step > 0)]) for step in range(2)]
        pairs = [
            pair(step, rank, [blamed] if (step, rank) == (1, 37) else [], rows[step])
            for step in range(2)
            for rank in range(64)
        ]
        compared = replace(result(pairs, [blamed]), target=tmp_path)
        write_report(tmp_path / "report.html", compared, culprits_of(compared.verdict))
        browser.open(tmp_path / "report.html")
        return browser

    def place(self, browser, rank, step=1):
        """Of the middle of a cell: four of tp, then a gap; a stage is four rows, then a gap."""
        column, row = rank % 8, rank % 32 // 8 + rank // 32 * 4
        wide = 74 + 8 * 14 + 4 + 16
        x, y = step * wide + 74 + column * 14 + column // 4 * 4, 22 + row * 14 + rank // 32 * 4
        return browser.run(WORDS + f'return spot("cells", {x + 7}, {y + 7})')

    def test_a_cell_says_where_its_rank_is(self, opened):
        opened.page.mouse.move(*self.place(opened, 37))
        told = opened.run(WORDS + 'return text("tip")')
        assert "step 1, rank 37" in told
        assert "tp 1, data parallel 1, pp 1" in told
        assert "neighbours in tp, and one below each 32 of the same place in pp" in opened.run(
            WORDS + 'return text("map-note")'
        )

    def test_the_one_that_began_stands_out(self, opened):
        """As it is, and framed; those with it are pale, and those before it as they are."""
        began, *others = (
            self.place(opened, rank, step) for rank, step in ((37, 1), (36, 1), (20, 1), (20, 0))
        )
        frame = [began[0] - 8, began[1]]
        gap_without = [began[0] - 8 - 14, began[1]]
        colours = opened.run(
            """
            const canvas = document.getElementById("cells"), box = canvas.getBoundingClientRect();
            const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const at = ([x, y]) => {
              const [left, top] = [x - box.left, y - box.top].map(one => Math.floor(one * devicePixelRatio));
              return all.data.slice(4 * (top * all.width + left), 4 * (top * all.width + left) + 4).join();
            };
            """
            + f"return {[began, *others, frame, gap_without]}.map(at)"
        )
        cause, beside, also_beside, before, framed, plain = colours
        assert beside == also_beside  # both came with it
        assert len({cause, beside, before}) == 3
        assert framed != plain

    def test_the_page_has_the_rows_of_the_ranks_that_tell_something(self, opened):
        opened.click(*self.place(opened, 37))
        assert opened.run(WORDS + 'return text("cut")') == ""
        opened.click(*self.place(opened, 20))
        told = opened.run(WORDS + 'return text("cut")')
        assert "of the ranks with a finding and of one beside them" in told
