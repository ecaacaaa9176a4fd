# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How far two nodes are apart, and searches for it: from arrays and from the database."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from msprobe.viewer.colouring import Colours, Scale
from msprobe.viewer.difference import summary_index, ulps
from viewer_samples import plain, tensor


@pytest.mark.parametrize(
    ("target", "golden", "expected"),
    [
        (tensor(1.0, 0.0), None, 0.0),
        (tensor(1.0, 2.0**-23), None, 0.25),  # of the maximum; a norm may be off by as much
        (tensor(1.0, 2.0**-7, "torch.bfloat16"), None, 1.0),
        ({**tensor(1.0), "Max": "nan"}, plain(), math.inf),
        ({**tensor(1.0), "Max": "nan"}, {**plain(), "Max": "nan"}, 0.0),
        ({**tensor(1.0), "shape": "[2]"}, plain(), math.inf),
        (tensor(1.0, 1.0, "torch.int64"), None, math.inf),
        ({"value": "null"}, None, None),
        ({**plain(), "MaxAbsErr": str(2.0**-22)}, None, 2.0),
    ],
)
def test_differences_are_counted_in_rounding_errors(target, golden, expected):
    found = ulps(target, golden)
    assert found == (None if expected is None else pytest.approx(expected, rel=0.01))


def test_the_summary_index_is_the_largest_relative_error():
    ours, theirs = {"a": plain(1.1)}, {"b": plain(1.0)}
    assert summary_index(ours, theirs) == pytest.approx(0.1)
    assert summary_index({"a": {**plain(), "Max": "inf"}}, theirs) == 1.0


@pytest.mark.parametrize("within", ["shape", "stack"])
@pytest.mark.parametrize("text", ["4, 4", "line", "LINE 1", "%", "nothing"])
@pytest.mark.parametrize("sort", ["order", "difference"])
def test_a_search_by_shape_or_stack_is_the_same_from_arrays_and_from_the_database(ask, within, text, sort):
    """With a micro step the database is asked."""
    for more in ({}, {"side": 1}, {"classes": [0, -2]}, {"ascending": False}, {"offset": 1, "limit": 2}):
        wanted = {"text": text, "within": within, "sort": sort, **more}
        assert ask("list", **wanted) == ask("list", **wanted, kind=None, only="", micro=0), wanted


@pytest.mark.parametrize("small_is_bad", [False, True])
def test_what_is_below_is_counted_as_one_would_by_hand(small_is_bad):
    dice = np.random.default_rng(3)
    values = dice.choice([np.nan, np.inf, -np.inf, 0.0, 0.3, 0.9, 2.0], 60, p=[0.4, *[0.1] * 6])
    values[:8] = np.nan
    # In post-order: what is below a node are the ones just before it.
    firsts = np.array([dice.integers(0, end + 1) for end in range(60)])
    frame = SimpleNamespace(firsts=[firsts], peers=[np.zeros(60, int)])
    scale = Scale("own:x", "", (0.8, 0.2) if small_is_bad else (0.2, 0.8), small_is_bad)
    places = dice.permutation(60).tolist()
    found = Colours(frame, values, scale, 0, True).below(places)
    for place, below in zip(places, found):
        inside = values[firsts[place] : place + 1]
        assert below["nodes"] == len(inside)
        assert below["counts"] == [sum(scale.class_of(v) == number for v in inside) for number in range(3)]
        known = [(v if small_is_bad else -v, firsts[place] + at) for at, v in enumerate(inside) if v == v]
        assert below["worstAt"] == (min(known)[1] if known else None)


@pytest.mark.parametrize("by", ["index", "difference", "overflow", "kind"])
@pytest.mark.parametrize("sort", ["order", "difference", "index"])
@pytest.mark.parametrize("side", [None, 0, 1])
def test_a_ranking_by_class_is_that_of_the_search(ask, by, sort, side):
    """With classes and a ranking alone the answer comes from arrays; with a text from the database."""
    for classes in ([], [0], [1, 2, 3], [-2], [-1], [2, -2]):
        for ascending in (True, False):
            wanted = {"sort": sort, "ascending": ascending, "colour": {"by": by}, "classes": classes}
            wanted |= {} if side is None else {"side": side}
            every = ask("list", **wanted, limit=500)
            searched = ask("list", **wanted, limit=500, within="regex", text="")
            dots = ask("list", **wanted, limit=500, text=".")
            root = ask("list", **wanted, limit=500, text="DefaultModel")
            assert every == searched
            assert every["total"] == dots["total"] + root["total"]
            found = [
                (node["side"], node["name"]) for node in every["nodes"] if node["name"] != "DefaultModel"
            ]
            assert found == [(node["side"], node["name"]) for node in dots["nodes"]]
            part = ask("list", **wanted, offset=1, limit=2)
            assert part["nodes"] == every["nodes"][1:3]
