# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import re

import pytest
from msprobe.viewer.regex_literals import literals


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"layer\.12\.mlp", ["layer.12.mlp"]),
        (r"^Tensor\.add.*\.forward$", [".forward", "or.add", "Ten"]),
        (r"(model|head)\.norm", [".norm"]),
        (r"(?:norm)+x?", ["norm"]),
        (r"(norm)?gelu(?!back)", ["gelu"]),
        (r"a|bcdef", []),
        (r"\d{3}", []),
        ("äöü-ab", ["-ab"]),
        (r"(?x) f o r w # comment", ["forw"]),
        (r"gel[uo]", ["gel"]),
    ],
)
def test_what_every_match_contains(pattern, expected):
    assert literals(pattern) == expected


def test_every_match_contains_them():
    dice = random.Random(7)
    pieces = [
        r"\.",
        "norm",
        "(?:add|mul)",
        ".*",
        r"\d+",
        "(gelu)?",
        "[a-f]",
        "K",
        "mlp",
        "(x|yz){2}",
        "^",
        "$",
    ]
    text = "Module.layers.1.mlp.norm.gelu.12.add.mul.xyz.mlpnorm\u212a"
    found = 0
    for _ in range(3000):
        pattern = "".join(dice.choices(pieces, k=dice.randint(1, 5)))
        hit = re.search(pattern, text, re.IGNORECASE)
        if hit:
            found += 1
            assert all(one.lower() in hit[0].lower() for one in literals(pattern)), pattern
    assert found > 300
