# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Layers of megatron-core that run on a CPU, over one rank or several of tensor parallelism.

msprobe run --ranks 2 -o run tests/layouts/megatron_core.py [--fault FAULT]
"""

from __future__ import annotations

import argparse
import os

import torch
from megatron.core import parallel_state
from megatron.core.model_parallel_config import ModelParallelConfig
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding
from torch import distributed, nn

VOCABULARY, WIDTH = 64, 32


class MLP(nn.Module):
    def __init__(self, config: ModelParallelConfig) -> None:
        super().__init__()
        made = {"config": config, "init_method": lambda weight: nn.init.normal_(weight, std=0.1)}
        self.norm = nn.LayerNorm(WIDTH)
        self.up = ColumnParallelLinear(WIDTH, 4 * WIDTH, gather_output=False, **made)
        self.down = RowParallelLinear(
            4 * WIDTH, WIDTH, bias=True, input_is_parallel=True, skip_bias_add=False, **made
        )

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))[0]))[0]


class Model(nn.Module):
    def __init__(self, config: ModelParallelConfig) -> None:
        super().__init__()
        init = {"init_method": lambda weight: nn.init.normal_(weight), "config": config}
        self.embed = VocabParallelEmbedding(VOCABULARY, WIDTH, **init)
        self.blocks = nn.ModuleList(MLP(config) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="")
    fault = parser.parse_args().fault
    world = int(os.environ.get("WORLD_SIZE", "1"))
    for name, value in (
        ("RANK", "0"),
        ("WORLD_SIZE", "1"),
        ("MASTER_ADDR", "localhost"),
        ("MASTER_PORT", "0"),
    ):
        os.environ.setdefault(name, value)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=world)
    torch.manual_seed(0)
    config = ModelParallelConfig(tensor_model_parallel_size=world, use_cpu_initialization=True)
    config.gradient_accumulation_fusion = False
    model = Model(config)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, VOCABULARY, (8, 17), generator=generator)
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        if fault == "bias times ranks":
            model.blocks[0].down.bias.grad.mul_(world)
        if fault == "norm not reduced":
            model.blocks[0].norm.weight.grad.mul_(1 + 0.01 * distributed.get_rank())
        optimizer.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
