# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe diagnose --ignore PLACE: the next difference, and what is left when there is none."""

from __future__ import annotations

import pytest
from msprobe.diagnose.answer import PartResult, conclude
from msprobe.diagnose.cause import Cause
from msprobe.diagnose.ignored import explains, without_ignored


def cause(name, part="dump", **more):
    stage = {"config": "configuration", "gradients": "gradients"}.get(part, "operators")
    more = {"step": 1, "confidence": 0.9, **more}
    return Cause(stage=stage, part=part, name=name, reason="", **more)


EPS = cause(
    "module attribute layers.1.norm1.eps",
    module="layers.1.norm1",
    record="Module.layers.1.norm1.LayerNorm.forward.0",
    values=("0.1", "1e-05"),
)
ARGUMENT = cause(
    "argument Functional.layer_norm.2.forward.input.4",
    module="layers.1.norm1",
    record="Functional.layer_norm.2.forward",
    values=("0.1", "1e-05"),
)
LATER = cause("operator Functional.gelu.0.forward", module="layers.2", step=2)
GRADIENT = cause("gradient of head.weight", "gradients")
PARTS = [
    PartResult("dump", "differ", "", causes=(EPS, ARGUMENT, LATER), first_step=1, steps=(0, 1, 2)),
    PartResult("gradients", "differ", "", causes=(GRADIENT,), first_step=1),
    PartResult("losses", "differ", "", first_step=1),
]


@pytest.mark.parametrize(
    "place",
    ["layers.1.norm1.eps", "layers.1", "*.eps", "Module.layers.1.norm1.LayerNorm.forward.0", EPS.name],
)
def test_a_place_is_named_as_an_answer_names_it(place):
    parts, ignored = without_ignored(PARTS, [place])
    assert EPS in ignored
    first, _ = conclude(parts)
    assert first.name == LATER.name  # its own argument, and gradients of its step, follow from it


def test_what_comes_after_it_is_no_surer_than_even():
    parts, _ = without_ignored(PARTS, ["layers.1.norm1.eps"])
    assert [one.confidence for one in parts[0].causes] == [0.5]
    early = [PartResult("dump", "differ", "", causes=(cause("operator a", step=0), EPS), first_step=0)]
    assert [one.confidence for one in without_ignored(early, ["layers.1"])[0][0].causes] == [0.9]


def test_other_places_stay():
    assert without_ignored(PARTS, ["layers.10", "norm1"]) == (PARTS, [])
    assert without_ignored(PARTS, []) == (PARTS, [])


def test_nothing_is_left_where_all_differences_begin_with_it():
    parts, ignored = without_ignored(PARTS, ["layers.1.norm1", "layers.2"])
    assert conclude(parts) == (None, [])
    assert explains(ignored, parts)


def test_it_does_not_explain_what_began_before_or_was_not_recorded():
    parts, ignored = without_ignored(PARTS, ["layers.2"])
    assert not explains(ignored, parts)
    of_config = [PartResult("config", "differ", "", causes=(cause("settings: lr", "config", step=None),))]
    parts, ignored = without_ignored([*of_config, PartResult("losses", "differ", "", first_step=25)], ["lr"])
    assert len(ignored) == 1
    assert not explains(ignored, parts)
