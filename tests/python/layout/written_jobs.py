# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records of parallel jobs, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

State = dict[str, Any]


def entry(content: str, **more: Any) -> dict[str, Any]:
    """Of a tensor; equal content, equal tensor."""
    return {"dtype": "torch.float32", "shape": [4], "crc32": content, **more}


def state(
    rank: int,
    *,
    weights: dict[str, Any],
    gradients: dict[str, Any] | None = None,
    local: dict[str, Any] | None = None,
    states: dict[str, Any] | None = None,
    lr: float = 0.1,
    copies: list[dict[str, Any]] | None = None,
    ranks: int = 2,
) -> State:
    """The training state of one rank. local: gradients before the reduction. states: "exp_avg" of each."""
    return {
        "version": 1,
        "layout": {"rank": rank, "world_size": ranks, "groups": [list(range(ranks))], "copies": copies or []},
        "parameters": weights,
        "backward": [{"before_reduction": local or {}, "after_reduction": gradients or {}}],
        "gradients_at_optimizer": [{"optimizer": "Adam", "gradients": gradients or {}}],
        "optimizer": [
            {
                "class": "torch.optim.adam.Adam",
                "groups": [{"parameters": list(weights), "hyper": {"lr": {"value": lr}}}],
                "state_before": {},
                "state_after": {name: {"exp_avg": one} for name, one in (states or {}).items()},
            }
        ],
    }


def ddp(ranks: int = 2, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What DistributedDataParallel around the whole model says."""
    wrapper = "DistributedDataParallel"
    return [{"model": "", "wrapper": wrapper, "ranks": list(range(ranks)), "without": list(without)}]


def write_job(folder: Path, steps: list[list[State]]) -> Path:
    """steps: of each the states of its ranks, from rank 0 on. Returns the folder."""
    for step, states in enumerate(steps):
        for rank, content in enumerate(states):
            place = folder / f"step{step}" / f"rank{rank}"
            place.mkdir(parents=True)
            (place / "diagnosis.json").write_text(json.dumps(content))
            (place / "dump.json").write_text("{}")
    return folder
