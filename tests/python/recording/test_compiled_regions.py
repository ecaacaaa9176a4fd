# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing of msprobe is traced or changed by torch.compile, whichever is loaded first."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from children import CONTEXT, SPAWN, run
from compiled_faces import train
from msprobe.hooks.compiled_regions import OffInRegions, RegionWatch
from msprobe.hooks.functions import AttributeExchange

FACES = [
    "Capture", "Debugger", "Dispatch", "FreeBenchmark", "Monitor", "Run", "Run --monitor", "Run --perturb",
    "Trainer",
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(train, "Face", tmp_path_factory.mktemp("plain"), True)


CASES = [*((face, True) for face in FACES), ("Capture", False), ("Run", False), ("Dispatch", False)]


@pytest.mark.parametrize(
    ("face", "early"),
    CASES,
    ids=[f"{face}, {'compiler' if early else 'msprobe'} first" for face, early in CASES],
)
def test_a_compiled_training_is_the_same_with_a_face_around_it(face, early, plain, tmp_path):
    """The same numbers, from the same graphs, none of them broken by us."""
    # The server that forks the others may have loaded the compiler.
    context = CONTEXT if early else SPAWN
    assert run(train, face, tmp_path, early, context=context, timeout=120) == plain


class Log(OffInRegions):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def put(self) -> None:
        self.seen.append("on")

    def take(self) -> None:
        self.seen.append("off")


@torch._dynamo.disable
def left_out(x: Any) -> Any:
    return x + 1


def test_a_function_left_out_of_a_region_does_not_keep_exchanges_off():
    log = Log()
    log.install()
    try:
        function = torch.compile(lambda x: left_out(x.sin()).cos(), backend="eager")
        for _ in range(3):
            function(torch.ones(2))
    finally:
        log.remove()
    assert log.seen == ["on", *["off", "on"] * 3, "off"]


def test_what_is_installed_inside_of_a_region_is_there_behind_it():
    outer, inner = Log(), Log()
    outer.install()
    begins = RegionWatch(lambda _: inner.install())
    begins.install()
    try:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        assert (outer.seen, inner.seen) == (["on", "off", "on"], ["on", "off", "on"])
        torch.compile(left_out, backend="eager")(torch.ones(2))
    finally:
        begins.remove()
        inner.remove()
        outer.remove()
    assert torch._dynamo.eval_frame.set_eval_frame.__name__ == "set_eval_frame"


of_this_file: Any = None


def test_a_region_tells_which_modules_it_names():
    seen: list[Any] = []
    first, second, third = (torch.nn.Linear(2, 2) for _ in range(3))
    global of_this_file
    of_this_file = second
    watch = RegionWatch(seen.extend)
    watch.install()
    try:
        torch.compile(lambda x, module: module(first(of_this_file(x))), backend="eager")(torch.ones(2), third)
    finally:
        watch.remove()
    assert [id(one) for one in seen] == [id(third), id(second), id(first)]


class Place:
    value = "theirs"


def test_a_value_that_a_program_puts_on_top_stays_there():
    ours = AttributeExchange(Place, "value", "ours")
    ours.install()
    assert Place.value == "ours"
    Place.value = "another"
    ours.remove()
    assert Place.value == "another"
    ours.install()  # what was there is no longer: ours would hide what the program has put
    assert Place.value == "another"
    ours.remove()
    Place.value = "theirs"


def test_exchanges_that_go_in_any_order_leave_nothing():
    lower = AttributeExchange(Place, "value", "lower")
    lower.install()
    upper = AttributeExchange(Place, "value", "upper")
    upper.install()
    lower.remove()
    assert Place.value == "upper"
    upper.remove()
    assert Place.value == "theirs"
