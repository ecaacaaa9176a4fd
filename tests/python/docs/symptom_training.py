# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The train.py of the pages by symptom: some 125 steps of a small model, by DDP or FSDP2 under torchrun.

With DOC_SAVES in the environment it saves every tenth step and goes on from a file that is there, as the page
on resuming takes for granted.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

FILE = "checkpoint.pt"
STEPS = 125


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--fsdp", action="store_true")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--resume", default=FILE)
    asked = parser.parse_args()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 2))
    plain = model
    if world > 1:
        dist.init_process_group("gloo")
        model = wrapped(model, asked.fsdp)
    optimizer = torch.optim.AdamW(model.parameters(), asked.lr)
    begin = 0
    if "DOC_SAVES" in os.environ and os.path.exists(asked.resume):
        saved = torch.load(asked.resume)
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    for step in range(begin, STEPS):
        batch = torch.randn(world * asked.batch, 8, generator=torch.Generator().manual_seed(step))
        loss = model(batch[rank * asked.batch : (rank + 1) * asked.batch]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if "DOC_SAVES" in os.environ and (step + 1) % 10 == 0:
            state = {"model": plain.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, FILE)
    if world > 1:
        dist.destroy_process_group()


def wrapped(model: nn.Module, fsdp: bool) -> nn.Module:
    if not fsdp:
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))


main()
