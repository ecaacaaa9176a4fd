# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What releases of transformers that keep plain shards write on modules: a plan and a mesh."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from msprobe.training.job_layout import job_layout
from torch import distributed, nn


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of two processes."""
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_rank", lambda *_: 0)
    monkeypatch.setattr(distributed, "get_world_size", lambda *_: 2)


def planned(module: nn.Module, plan: Any, ranks: Any = (0, 1)) -> nn.Module:
    mesh = torch.tensor(ranks)
    module._hf_tp_plan, module._hf_device_mesh = plan, SimpleNamespace(mesh=mesh, ndim=mesh.dim())
    return module


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = planned(nn.Embedding(4, 4), "embedding_rowwise")
        self.up = planned(nn.Linear(4, 2), "colwise")
        self.down = planned(nn.Linear(2, 4), "rowwise")
        self.packed = planned(nn.Linear(2, 4), "packed_colwise")
        self.later = planned(nn.Linear(2, 4), "a plan of a later release")
        self.of_no_text = planned(nn.Linear(2, 4), object())
        self.grid = planned(nn.Linear(2, 4), "colwise", ((0, 1), (2, 3)))
        self.plain = nn.Linear(2, 4)


@pytest.mark.usefixtures("job")
def test_plans_of_plain_shards_tell_how_they_are_cut() -> None:
    assert job_layout([("m.", Block())])["cut"] == [
        {
            "axis": "tp",
            "ranks": [0, 1],
            "parameters": {
                "m.embedding.weight": 0,
                "m.up.weight": 0,
                "m.up.bias": 0,
                "m.down.weight": 1,
                "m.down.bias": -1,
            },
        }
    ]
    assert "transformers" not in sys.modules


@pytest.mark.usefixtures("job")
def test_a_model_without_plans_and_dtensors_tell_nothing_here() -> None:
    assert "cut" not in job_layout([("", nn.Linear(2, 2))])
    module = planned(nn.Linear(2, 2), "colwise")
    for parameter in module.parameters():
        parameter.placements = ()  # type: ignore[attr-defined]
    assert "cut" not in job_layout([("", module)])
