# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A plain training that saves at each second step and goes on where its file is, but for one thing.

python planted_resumes.py KIND [--from FILE]. KINDS: what is not restored, and what a resume has to restore.
"""

from __future__ import annotations

import os
import sys
from typing import Any

KINDS = {
    "no_optimizer": ("optimizer",),
    "no_scheduler": ("optimizer",),
    "half_moments": ("optimizer",),
    "no_generator": ("random",),
    "no_buffers": ("weights",),
    "half_weights": ("weights",),
    "data_from_start": ("inputs",),
    "no_generator_no_optimizer": ("random", "optimizer"),
}
FILE = "checkpoint.pt"


def main(kind: str, path: str) -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    rows = torch.randn(40, 6, 8, generator=torch.Generator().manual_seed(1))
    begin = 0
    if os.path.exists(path) and kind != "ignores":
        begin = restore(kind, torch.load(path), model, optimizer, scheduler)
    place = 0 if kind == "data_from_start" else begin
    for step in range(begin, 10):
        loss = (model(rows[place]) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        place += 1
        if (step + 1) % 2 == 0:
            state = {
                "step": step + 1,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "generator": torch.get_rng_state(),
            }
            torch.save(state, FILE)


def restore(kind: str, state: dict[str, Any], model: Any, optimizer: Any, scheduler: Any) -> int:
    import torch

    weights = state["model"]
    if kind == "half_weights":
        weights = {name: one.half() if one.is_floating_point() else one for name, one in weights.items()}
    if kind == "no_buffers":
        weights = {name: one for name, one in weights.items() if "running" not in name}
    model.load_state_dict(weights, strict=False)
    if "no_optimizer" not in kind:
        if kind == "half_moments":
            for one in state["optimizer"]["state"].values():
                one["exp_avg_sq"] = one["exp_avg_sq"].half().float()
        optimizer.load_state_dict(state["optimizer"])
    if kind == "no_optimizer" or kind == "no_generator_no_optimizer":
        for group, saved in zip(optimizer.param_groups, state["optimizer"]["param_groups"]):
            group["lr"] = saved["lr"]
    if kind != "no_scheduler":
        scheduler.load_state_dict(state["scheduler"])
    if "no_generator" not in kind:
        torch.set_rng_state(state["generator"])
    return int(state["step"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else FILE)
