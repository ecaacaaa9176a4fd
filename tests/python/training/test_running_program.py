# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that the functions of a program hold, found without running anything of it."""

from __future__ import annotations

import weakref
from collections import UserDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from msprobe.training.running_program import held_tensors

MOST = 1 << 20


class Rollout(NamedTuple):
    returns: Any
    values: Any


@dataclass
class Batch:
    labels: Any
    size: int = 2


def names(**held: Any) -> list[str]:
    """Those of what this function holds."""
    found = held_tensors(MOST)
    return [name.removeprefix("held.") for name in found if name.startswith("held.")]


def test_containers_are_looked_into_by_their_names():
    a, b, c, d = (torch.ones(2) for _ in range(4))
    assert names(x=a, y=[b, c], z=3) == ["x", "y.0", "y.1"]
    assert held_tensors(MOST).keys() >= {"a", "b", "c", "d"}

    def inputs() -> list[str]:
        rollout, batch, encoded = Rollout(a, b), Batch(c), UserDict(ids=d)
        del rollout, batch, encoded
        return list(held_tensors(MOST))

    def kept() -> set[str]:
        rollout, batch, encoded = Rollout(a + 0, b + 0), Batch(c + 0), UserDict(ids=d + 0)
        return set(held_tensors(MOST)) if rollout and batch and encoded else set()

    assert not any("." in name for name in inputs())
    assert kept() >= {"rollout.returns", "rollout.values", "batch.labels", "encoded.ids"}


def test_what_a_gradient_flows_through_and_what_is_too_large_is_left_out():
    leaf = torch.ones(2, requires_grad=True)
    assert names(x=leaf, y=leaf * 2, z=torch.ones(2)) == ["z"]
    large = torch.ones(MOST // 4 + 1)
    assert "large" not in held_tensors(MOST)
    assert "large" in held_tensors(2 * MOST)
    assert names(x=[large] * 65) == []


def test_nothing_of_the_program_is_run_for_it():
    def fail(*_: Any) -> Any:
        pytest.fail("asked")

    class Computing(dict):
        __len__ = __iter__ = __getitem__ = items = values = keys = fail

    class Lazy(list):
        __len__ = __iter__ = __getitem__ = fail

    @dataclass
    class Owner:
        value: Any

        def __getattr__(self, _: str) -> Any:
            fail()

    one, two, three = Computing(x=torch.ones(1)), Lazy([torch.ones(1)]), Owner(torch.ones(1))
    assert {"one.x", "two.0", "three.value"} <= held_tensors(MOST).keys()
    del one, two, three


def test_a_program_that_keeps_its_variables_finds_them_as_they_were():
    first = torch.ones(2)
    kept = locals()
    held_tensors(MOST)
    assert kept["first"] is first


def test_nothing_is_kept_alive():
    value = torch.ones(2)
    alive = weakref.ref(value)
    held_tensors(MOST)
    del value
    assert alive() is None
