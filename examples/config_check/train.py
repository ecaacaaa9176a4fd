# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An ordinary training script; the two marked lines are for msprobe.

usage: train.py JOB    a folder with settings.yaml and shards.txt; the pack is JOB/pack.zip
"""

from __future__ import annotations

import sys
from pathlib import Path

from msprobe.pytorch import ConfigChecker

ConfigChecker.apply_patches()  # msprobe: first

import torch  # noqa: E402
import yaml  # noqa: E402
from torch import nn  # noqa: E402


def batch_of(shard: str) -> torch.Tensor:
    """Stands for reading a file."""
    return torch.sin(torch.arange(64.0 * 16).reshape(64, 16) * (1 + int(shard)))


def main() -> None:
    job = Path(sys.argv[1])
    settings = yaml.safe_load((job / "settings.yaml").read_text())
    torch.manual_seed(settings["train"]["seed"])
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["train"]["lr"])
    ConfigChecker(model, [str(job / "settings.yaml")], str(job / "pack.zip"))  # msprobe: model is complete
    for shard in (job / "shards.txt").read_text().split():
        batch = batch_of(shard)
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"shard {shard}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
