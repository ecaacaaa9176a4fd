# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the data differ, the answer says which of a step's inputs do, and which do not."""

from __future__ import annotations

import torch
from msprobe.config_check.checker import ConfigChecker
from msprobe.config_check.comparison import compare_packs
from msprobe.config_check.packs.pack_reader import read_pack
from torch import nn


class Net(nn.Module):
    def forward(self, tokens, labels, mask):
        return tokens * labels * mask


def packed(path, **changed):
    net = Net()
    ConfigChecker(net, output_zip_path=str(path), steps=2)
    for _ in range(2):
        net(**{name: torch.full((3,), changed.get(name, 1.0)) for name in ("tokens", "labels", "mask")})
    return path


def test_which_inputs_differ(tmp_path):
    a = packed(tmp_path / "a.zip")
    b = packed(tmp_path / "b.zip", labels=2.0, mask=0.0)
    with read_pack(a) as reference, read_pack(b) as target:
        result = compare_packs(reference, target)
    (found,) = [one.difference for one in result.ranked if one.difference.check == "dataset"]
    assert found.detail.endswith(
        "the first is kwargs.labels at step 0, rank 0; there, too: kwargs.mask; equal there: kwargs.tokens"
    )


def test_of_runs_that_begin_at_other_steps_the_beginnings_are_not_compared(tmp_path):
    a = packed(tmp_path / "a.zip")
    b = packed(tmp_path / "b.zip", labels=2.0)
    with read_pack(a) as reference, read_pack(b) as target:
        result = compare_packs(reference, target, begin_alike=False)
    assert "dataset" not in {check.name for check in result.checks}
    assert any("begin at other steps: dataset" in note for note in result.notes)
