# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trains one of the models for a few steps. Knows nothing of msprobe.

Prints each loss exactly, and at the end a hash of all gradients and weights, so that two runs can be told to
be bit-equal. Under torchrun it trains with DistributedDataParallel or FSDP2.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from typing import Any

import torch
from models import KINDS
from torch import distributed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=KINDS)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--fault", action="store_true", help="change one module from step 1 on")
    parser.add_argument("--parallel", choices=("ddp", "fsdp2"), help="under torchrun")
    args = parser.parse_args()

    torch.manual_seed(7)
    kind = KINDS[args.model]
    model = kind.build(args.width, args.layers).train()
    culprit = model.get_submodule(kind.culprit)
    rank = 0
    trained = model
    if args.parallel:
        distributed.init_process_group("gloo")
        rank = distributed.get_rank()
        trained = parallel(model, args.parallel)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(100 + rank)
    for step in range(args.steps):
        if args.fault and step == 1:
            kind.plant(culprit)
        loss = trained(**kind.batch()).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        say(f"rank {rank} step {step} loss {loss.item().hex()}")
    say(f"rank {rank} gradients and weights {digest(model)}")
    if args.parallel:
        distributed.barrier()
        distributed.destroy_process_group()


def parallel(model: Any, how: str) -> Any:
    if how == "ddp":
        # A mixture of experts may leave some of them without a token.
        return torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    for layer in model.get_submodule("model.layers"):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def say(line: str) -> None:
    """At once, so that lines of several processes stay whole."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def digest(model: Any) -> str:
    whole = hashlib.sha256()
    for parameter in model.parameters():
        for tensor in (parameter.grad, parameter.detach()):
            if tensor is not None:
                part = tensor.to_local() if hasattr(tensor, "to_local") else tensor
                whole.update(part.contiguous().numpy().tobytes())
    return whole.hexdigest()[:16]


if __name__ == "__main__":
    main()
