# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page examined by axe-core (roles, names, contrast, order of focus) in both themes and languages.
axe-core is a development dependency of viewer/: `npm ci` there, or `./dev page`, brings it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from viewer_page import CHROMIUM, MISSING, serving
from viewer_samples import dump, model, write

AXE = Path(__file__).resolve().parents[3] / "viewer/node_modules/axe-core/axe.min.js"
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=MISSING),
    pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm ci in viewer/"),
]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
REST = "document.querySelector('main')?.getAttribute('aria-busy') !== 'true'"


@pytest.fixture
def page(running):
    running.size(1280, 800)
    return running


def examine(page, state):
    page.until(REST)
    page.run("await Promise.all(document.getAnimations().map(one => one.finished.catch(() => 0)))")
    if not page.run("return Boolean(window.axe)"):
        page.run(AXE.read_text("utf-8"))
    found = page.run(
        f"const found = await axe.run({{runOnly: {json.dumps(RULES)}}});"
        "return found.violations.map(v => [v.id, v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + ' ' + "
        "n.failureSummary)])"
    )
    return [f"{state}: {json.dumps(one, ensure_ascii=False)}" for one in found]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wrong_in_any_state(page, tmp_path, theme, language):
    wrong: list[str] = []
    folder = tmp_path / "runs"
    folder.mkdir()
    write(folder / "a.vis.db", {(step, rank): model(0.5) for step in (0, 1) for rank in (0, 1)})
    write(folder / "single.vis.db", {(0, 0): (model()[0], None)})
    dump(folder / "run", 1.0)
    (folder / "z.vis.db").write_bytes(b"no database")
    with serving(folder, tmp_path / "state") as address:
        page.go(address)
        page.run(
            f"localStorage.clear(); localStorage.setItem('msprobe.theme', {theme!r});"
            f"localStorage.setItem('msprobe.language', {language!r})"
        )
        base = address.split("?")[0]
        try:
            page.go("about:blank")
            page.go(base)
            page.until("document.querySelector('.files')")
            wrong += examine(page, "choice of files")
            page.go("about:blank")
            page.go(f"{base}#f=z.vis.db")
            page.until("document.querySelector('[role=alert]')")
            wrong += examine(page, "a file that cannot be shown")
            page.go("about:blank")
            page.go(f"{base}#f=single.vis.db")
            page.until("document.querySelector('.tab-body p.pad')")
            wrong += examine(page, "a single graph")
            page.go("about:blank")
            page.go(f"{base}#f=a.vis.db")
            page.until("document.querySelector('.finding')")
            wrong += examine(page, "just opened")
            page.key("f")
            page.until("document.querySelector('.tensors')")
            wrong += examine(page, "first divergence")
            for number in range(3):
                page.run(f"document.querySelectorAll('.lower [role=tab]')[{number}].click()")
                wrong += examine(page, f"details, tab {number}")
            for number in range(5):
                page.run(f"document.querySelectorAll('.side [role=tab]')[{number}].click()")
                page.until("!document.querySelector('.tab-body > p.soft.pad')", 10) if number < 3 else None
                wrong += examine(page, f"panel, tab {number}")
            page.until("document.querySelectorAll('.heat .cell').length > 4")
            page.run("[...document.querySelectorAll('.heat')].at(-1).querySelector('.cell').click()")
            page.until("document.querySelector('.pair')")
            wrong += examine(page, "operations of two ranks")
            page.run("document.querySelectorAll('.class')[2].click()")
            wrong += examine(page, "filter")
            page.run("document.querySelector('.menu summary').click()")
            wrong += examine(page, "menu")
            page.run("document.querySelector('.menu').open = false")
            page.key("?")
            page.until("document.querySelector('dialog[open]')")
            wrong += examine(page, "help")
        finally:
            page.go("about:blank")
    assert not wrong, "\n".join(wrong)


def test_the_focus_can_be_seen_everywhere(page, tmp_path):
    """Every stop of the Tab key has an outline that differs from what is around it."""
    with serving(write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        page.go(address)
        page.until("document.querySelector('.finding')")
        stops = set()
        for _ in range(60):
            page.key("Tab")
            found = page.run(
                "const e = document.activeElement; if (e === document.body) return null;"
                "const s = getComputedStyle(e);"
                "return [e.tagName + (e.getAttribute('aria-label') ?? e.textContent).slice(0, 20), "
                "s.outlineStyle, parseFloat(s.outlineWidth), e.getBoundingClientRect().width > 3]"
            )
            if found is not None:
                stops.add(found[0])
                assert found[1:3] == ["solid", 2], found
                assert found[3], found
        assert len(stops) > 15, stops
        page.go("about:blank")


def test_two_nodes_are_matched_with_the_keyboard_alone(page, tmp_path):
    selected = "JSON.stringify([...document.querySelectorAll('.pane-head .path')].map(e => e.textContent))"
    with serving(write(tmp_path / "a.vis.db"), tmp_path / "state") as address:
        page.go(address)
        page.until("document.querySelector('.finding')")
        page.key("f")  # Tensor.add.1; above it stands the module without a counterpart
        page.until(f"{selected}.includes('Tensor.add.1.forward')")
        page.key("ArrowUp")
        page.until(f"{selected}.includes('Module.layers.1.fc.Linear.forward.0')")
        page.key("o")
        for _ in range(40):
            if page.run(f"return {selected}.includes('Module.layers.1.up.Linear.forward.0')"):
                break
            page.key("Shift+ArrowDown")
            page.until(REST)
        theirs, ours = json.loads(page.run(f"return {selected}"))  # the reference stands at the left
        assert (ours, theirs) == (
            "Module.layers.1.fc.Linear.forward.0",
            "Module.layers.1.up.Linear.forward.0",
        )
        page.key("m")
        page.until("location.hash.includes('w=')")
        page.go("about:blank")
