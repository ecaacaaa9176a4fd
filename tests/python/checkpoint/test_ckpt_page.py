# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison in a browser: the map and the table show what differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, MISSING, Browser
from checkpoint_support import run, tensor, write_safetensors

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    browser = Browser(tmp_path / "profile")
    yield browser
    browser.close()
    assert browser.faults == []  # nothing may go wrong in the page


def test_page(tmp_path: Path, browser: Browser) -> None:
    names = [f"decoder.layers.{i}.{kind}" for i in range(12) for kind in ("mlp.fc1.weight", "attn.weight")]
    left = {name: tensor(name, 6, 4) for name in [*names, "<b>odd</b>", "only.left"]}
    right = {name: value.clone() for name, value in left.items() if name != "only.left"}
    right["decoder.layers.3.mlp.fc1.weight"][0, 0] += 1
    right["decoder.layers.7.attn.weight"][0, 0] = float("nan")
    write_safetensors(tmp_path / "a.safetensors", left)
    write_safetensors(tmp_path / "b.safetensors", right)
    run("ckpt", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "-o", tmp_path / "out.json")
    browser.open(tmp_path / "out.html", dark=True)
    shown = (
        'const names = () => [...document.querySelectorAll("#body td.name")].map(cell => cell.textContent);'
    )
    assert browser.run(shown + "return names()") == [
        "decoder.layers.7.attn.weight",  # not a number is the worst
        "decoder.layers.3.mlp.fc1.weight",
    ]
    assert browser.run('return document.querySelectorAll("#map tbody tr").length') == 13
    assert "only.left" in browser.run('return document.getElementById("only").textContent')
    colours = browser.run(
        'return [...document.querySelectorAll("#map tbody td")].map(cell => cell.style.background)'
    )
    assert len(set(filter(None, colours))) == 3  # equal, a little, not a number
    click = 'document.querySelectorAll("#map tbody tr")[3].children[1].click(); '
    assert browser.run(shown + click + "return names()") == [
        "decoder.layers.3.mlp.fc1.weight",
        "decoder.layers.3.attn.weight",
    ]
    everything = 'const box = document.getElementById("filter"); box.value = ""; box.oninput(); '
    assert len(browser.run(shown + everything + "return names()")) == 25
    assert "<b>odd</b>" in browser.run(shown + "return names()")
    sort = 'document.querySelectorAll("#head th")[0].click(); '
    assert browser.run(shown + sort + "return names()")[0] == "<b>odd</b>"
