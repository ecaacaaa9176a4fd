# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""index.html of a diagnosis: what stands in it, and how it looks in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from browser import CHROMIUM, MISSING, Browser
from msprobe.diagnose.answer import Answer, PartResult
from msprobe.diagnose.answer_file import console_text
from msprobe.diagnose.cause import Cause
from msprobe.diagnose.curves import curves
from msprobe.diagnose.figures import rounded, told_apart
from msprobe.diagnose.losses import compare_losses
from msprobe.diagnose.page import page_html

LONG = "layers.10." + "a_module_with_a_long_name." * 6
A = {step: 2.5 - 0.1 * step for step in range(12)}
B = {step: loss + (0.05 if step >= 4 else 0) for step, loss in A.items()}

CAUSE = Cause(
    stage="operators",
    part="dump",
    name=f"missing call {LONG}rot",
    reason="only the reference calls it",
    confidence=0.9,
    step=4,
    rank=0,
    module="layers.10",
    plain="only the reference calls layers.10.rot at model.py:30",
    reference_stack=("/home/me/model.py:30 in forward: x = self.rot(x)", "/home/me/train.py:9 in main: m(x)"),
)
ANSWER = Answer(
    status="differ",
    sentence=f"First difference: step 4, {CAUSE.said}",
    cause=CAUSE,
    others=(replace(CAUSE, stage="gradients", name="gradient of <b>x</b>"),),
    parts=(
        PartResult("config", "equal", "The set-ups are equal", report=Path("out/config/report.html")),
        PartResult("losses", "differ", "the loss differs first at step 4 of 12", first_step=4,
                   curves=compare_losses(A, B)),
        PartResult("dump", "differ", "The runs diverge", report=Path("out/dump/report.html"), first_step=4),
    ),
    missing=(),
    next_commands=("msprobe view out/graph",),
    again=("msprobe run -o b_again train.py", "msprobe diagnose a b_again -o diagnosis"),
    notes=("the command lines differ: " + "word" * 60,),
    graph=Path("out/graph.html"),
)  # fmt: skip


def page(answer: Answer = ANSWER) -> str:
    return page_html(answer, Path("a"), Path("b"), Path("out"))


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_it_can_be_read_on_every_screen(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(page(), encoding="utf-8")
    browser = Browser(tmp_path / "profile")
    try:
        backs = set()
        for width in (400, 1400):
            browser.page.set_viewport_size({"width": width, "height": 900})
            for dark in (False, True):
                browser.open(path, dark=dark)
                assert browser.unreadable() == []
                backs.add(browser.run("return getComputedStyle(document.body).backgroundColor"))
                said = browser.run('return document.getElementById("sentence").textContent')
                assert said == console_text(ANSWER, Path("out")).splitlines()[0]
                assert browser.run('return document.querySelectorAll("svg").length') == 2
        assert len(backs) == 2  # light and dark
        assert browser.faults == []
    finally:
        browser.close()


def test_a_call_of_the_reference_alone_has_its_lines() -> None:
    said = page()
    assert "/home/me/model.py:30 in forward" in said
    assert "This run does not make the call." in said
    assert "  at /home/me/model.py:30 in forward: x = self.rot(x) (reference)" in console_text(
        ANSWER, Path("out")
    )


def test_what_comes_next_is_there() -> None:
    said = page()
    for command in (*ANSWER.next_commands, *ANSWER.again):
        assert command in text_of(said)
    assert 'href="graph.html"' in said
    assert "first differing step: 4" in said
    assert "<b>x</b>" not in said


def test_what_follows_is_a_consequence() -> None:
    said = text_of(page()) + console_text(ANSWER, Path("out"))
    assert "consequence" in said
    assert "behind" not in said


def test_equal_runs_have_no_cause_and_no_mark() -> None:
    parts = (PartResult("losses", "equal", "the losses of 12 steps are equal", curves=compare_losses(A, A)),)
    said = page(Answer("equal", "The runs are equal", None, (), parts, ()))
    assert said.count("<svg") == 1
    assert "first differing step" not in said
    assert "Source lines" not in said


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({0: 1.0}, {0: 2.0}),
        ({0: float("nan"), 1: 1.0}, {0: 1.0, 1: float("inf")}),
        ({0: float("nan")}, {0: float("inf")}),
        ({0: 1.7e308, 1: -1.7e308}, {0: 1.0, 1: 1.0}),
        (dict.fromkeys(range(50_000), 1.0), dict.fromkeys(range(0, 50_000, 2), 1.5)),
        ({0: 1.0}, {}),
        ({0: 5e-324, 1: 0.0}, {0: 0.0, 1: 5e-324}),
    ],
)
def test_curves_of_odd_losses(a: dict[int, float], b: dict[int, float]) -> None:
    drawn = curves(compare_losses(a, b))
    assert not re.search(r"(?:nan|inf)[ \d\"LMh]", " ".join(re.findall(r' d="([^"]*)"', drawn)))
    places = [float(y) for _, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", drawn)]
    assert all(0 <= y <= 220 for y in places)
    assert len(drawn) < 60_000


def test_numbers_are_rounded_to_what_they_mean() -> None:
    assert rounded("agree for 0.8229166666666666 of") == "agree for 0.823 of"
    assert rounded("agree for 0.9999996 of") == "agree for 0.9999996 of"
    assert rounded("eps = 0.1 (reference: 1e-05)") == "eps = 0.1 (reference: 1e-05)"
    assert rounded("blocks.0.123456789.weight") == "blocks.0.123456789.weight"
    assert told_apart(2.27461314, 2.2746838) == "2.27461 and 2.27468"
    assert told_apart(1.0, 3.0) == "1 and 3"
