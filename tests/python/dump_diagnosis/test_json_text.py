# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""JSON put together from parts is what json.dumps writes of the whole."""

from __future__ import annotations

import json

import pytest
from msprobe.training.json_text import Json, json_text

VALUES = [
    None,
    True,
    -3,
    0.1,
    1e300,
    "",
    'quotes " and \\ and \n and ü and \u2028',
    [],
    {},
    [1, [2.5, {"a": []}], "b"],
    {"a": {"b": [None, False]}, "": 0, "ü": "ü"},
    (1, 2),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_as_json_dumps_writes_it(value):
    assert json_text(value) == json.dumps(value)
    assert json_text({"x": [Json(json.dumps(value)), value]}) == json.dumps({"x": [value, value]})


def test_not_finite():
    assert json_text([float("nan"), float("inf"), -float("inf")]) == "[NaN, Infinity, -Infinity]"


def test_text_that_is_json_stands_as_it_is():
    assert json_text(Json('{"a": 1}')) == '{"a": 1}'
    assert json_text({"k": Json("1"), "t": "1"}) == '{"k": 1, "t": "1"}'
