# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors measured all at once give what each gives alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from msprobe.dump.training_state_file import TrainingStateFile
from msprobe.training.measurement import groups, measure, members
from msprobe.training.phases import CallWatch


@pytest.fixture
def report():
    return TrainingStateFile(Path("diagnosis.json"), ["parameters"])


def measured(items, report, **options):
    return json.loads(f"{{{members(items, report, lambda name: f'item {name!r}', **options)}}}")


def alone(tensor, requires_grad=None):
    return json.loads(measure(tensor, requires_grad))


TENSORS = {
    "float32": torch.randn(3, 4),
    "large": torch.randn(300, 300),
    "bfloat16": torch.randn(7).bfloat16(),
    "float8": torch.randn(5).to(torch.float8_e4m3fn),
    "float64 of no dimension": torch.tensor(2.5, dtype=torch.float64),
    "int64": torch.arange(5),
    "bool": torch.tensor([True, False]),
    "complex64": torch.randn(3, dtype=torch.complex64),
    "conjugated": torch.randn(3, dtype=torch.complex64).conj(),
    "not finite": torch.tensor([1.0, float("nan"), float("-inf")]),
    "empty": torch.zeros(0, 3),
    "strided": torch.randn(6, 6)[::2, 1:].t(),
    "sparse": torch.eye(3).to_sparse(),
    "meta": torch.zeros(2, device="meta"),
    "parameter": torch.nn.Parameter(torch.randn(2)),
    "lazy": torch.nn.LazyLinear(3).weight,
    'name with " and é and \n': torch.ones(1),
}


class Broken(torch.Tensor):
    @property
    def dtype(self):
        raise ZeroDivisionError("no dtype")


class TestMembers:
    def test_each_tensor_as_alone(self, report):
        found = measured(TENSORS.items(), report)
        assert list(found) == list(TENSORS)
        for name, tensor in TENSORS.items():
            assert found[name] == alone(tensor), name
        assert report.first_fault == ""

    def test_parameters_say_whether_they_require_a_gradient(self, report):
        items = {"a": torch.nn.Parameter(torch.ones(2)), "b": torch.nn.Parameter(torch.ones(2), False)}
        found = measured(items.items(), report, of="parameter")
        assert found == {name: alone(tensor, tensor.requires_grad) for name, tensor in items.items()}
        assert next(iter(found["a"])) == "requires_grad"

    def test_gradients(self, report):
        items = {name: torch.nn.Parameter(torch.ones(2)) for name in ("dense", "absent", "sparse", "frozen")}
        items["dense"].grad = torch.tensor([1.0, 2.0])
        items["sparse"].grad = torch.tensor([0.0, 2.0]).to_sparse()
        items["frozen"].requires_grad = False

        class Strange(torch.nn.Parameter):
            pass

        items["subclass"] = Strange(torch.ones(2))
        items["subclass"].grad = torch.ones(2)
        assert measured(items.items(), report, of="gradient") == {
            "dense": alone(items["dense"].grad),
            "absent": None,
            "sparse": alone(items["sparse"].grad),
            "subclass": alone(items["subclass"].grad),
        }

    def test_settings_and_nested_values(self, report):
        items = {"betas": (0.9, 0.999), "step": 3, "deep": {"x": [torch.ones(1)]}, "none": None}
        assert measured(items.items(), report) == {
            "betas.0": {"value": 0.9},
            "betas.1": {"value": 0.999},
            "step": {"value": 3},
            "deep.x.0": alone(torch.ones(1)),
            "none": {"value": None},
        }

    def test_what_raises_is_left_out_and_noted(self, report):
        items = {"a": torch.ones(1), "b": torch.ones(1).as_subclass(Broken), "c": torch.ones(1)}
        assert list(measured(items.items(), report)) == ["a", "c"]
        assert report.first_fault == "item 'b': ZeroDivisionError: no dtype"

    def test_a_name_that_is_no_utf8(self, report):
        assert measured([("\udc80", torch.ones(1))], report) == {"\udc80": alone(torch.ones(1))}

    def test_lines_of_a_section(self, report):
        text = members([("a", 1), ("b", torch.ones(1)), ("c", 2)], report, str, separator=",\n  ")
        assert text.count(",\n  ") == 2
        assert text.startswith('"a": {"value": 1},\n  "b": {')


class TestGroups:
    def test_each_group_as_alone(self, report):
        named = {'"quoted" and \n': TENSORS, "\udc80": {"step": 3, "betas": (0.9, 0.99)}, "empty": {}}
        items = [(name, list(values.items())) for name, values in named.items()]
        found = json.loads(f"{{{groups(items, report, str)}}}")
        assert found == {name: measured(values.items(), report) for name, values in named.items()}
        assert list(found) == list(named)

    def test_what_raises_is_left_out_and_noted(self, report):
        items = [("first", [("a", torch.ones(1).as_subclass(Broken))]), ("second", [("b", torch.ones(1))])]
        found = json.loads(f"{{{groups(items, report, lambda name: f'item {name!r}')}}}")
        assert found == {"first": {}, "second": {"b": alone(torch.ones(1))}}
        assert report.first_fault == "item 'a': ZeroDivisionError: no dtype"


def test_a_watch_that_comes_again_has_the_same_code():
    """Recorded call stacks are known by their code objects: new ones would be looked up in every step."""

    def function(value):
        return value + 1

    def observe(original, args, kwargs):
        return original(*args, **kwargs) * 10

    plain = function.__code__
    codes = set()
    for _ in range(3):
        watch, above = CallWatch(function, observe), CallWatch(function, observe)
        watch.install()
        above.install()
        codes.add(function.__code__)
        assert function(1) == 200
        above.remove()
        codes.add(function.__code__)
        assert function(1) == 20
        watch.remove()
        assert function.__code__ is plain
        assert function(1) == 2
    assert len(codes) == 2
