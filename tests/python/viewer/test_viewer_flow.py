# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where tensors come from and go to, found by what calls received and gave."""

from __future__ import annotations

from msprobe.viewer.flow import mark_of
from viewer_samples import Node, plain, tensor, write

LAYER = "Module.layer.Block.forward.0"


def call(name: str, takes: list[float], gives: list[float], children: list[Node] | None = None) -> Node:
    inputs = {f"{name}.input.{at}": plain(value) for at, value in enumerate(takes)}
    outputs = {f"{name}.output.{at}": plain(value) for at, value in enumerate(gives)}
    return Node(name, children or [], 0 if children else 1, inputs=inputs, outputs=outputs)


def chain() -> Node:
    """embed -> layer (norm -> gelu) -> head and loss; head gives again what norm gave."""
    inner = [call("norm.0", [1.0], [2.0]), call("gelu.0", [2.0], [3.0])]
    nodes = [
        call("embed.0", [9.0], [1.0]),
        call(LAYER, [1.0], [3.0], inner),
        call("head.0", [3.0, 9.0], [2.0]),
        call("loss.0", [3.0, 2.0], [4.0]),
    ]
    return Node("DefaultModel", nodes, 0)


def ends(ask, name):
    found = ask("detail", side=0, name=name)["target"]["flow"]
    return [(end["port"].removeprefix(f"{name}."), end["into"], end["node"]) for end in found]


def test_data_flow_is_followed_from_the_nearest_giver_to_all_receivers(tmp_path, asking):
    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): (chain(), None)}))
    assert ends(ask, "embed.0") == [("output.0", False, LAYER)]  # not norm, which is inside
    assert ends(ask, "norm.0") == [("input.0", True, "embed.0"), ("output.0", False, "gelu.0")]
    assert ends(ask, "gelu.0") == [
        ("input.0", True, "norm.0"),
        ("output.0", False, "head.0"),
        ("output.0", False, "loss.0"),
    ]
    assert ends(ask, "loss.0") == [("input.0", True, LAYER), ("input.1", True, "head.0")]
    assert ends(ask, "DefaultModel") == []
    (first, *_) = ask("detail", side=0, name="norm.0")["target"]["flow"]
    assert first["around"] == ["DefaultModel"]


def test_what_cannot_be_told_apart_has_no_mark():
    assert mark_of(plain(1.0)) == mark_of(tensor(1.0, 0.5))  # results of a comparison do not count
    assert mark_of(plain(1.0)) != mark_of(plain(1.0, dtype="torch.bfloat16"))
    assert mark_of({**plain(1.0), "md5": "12"}) == mark_of({**plain(2.0), "md5": "12"})
    same = {"Max": "0", "Min": "0"}
    for cell in ({**plain(), **same}, {**plain(), **same, "md5": "1"}, {"type": "int", "Max": "1"}, {}):
        assert mark_of(cell) is None
