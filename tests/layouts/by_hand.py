# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Layouts of plain tensors, as training engines write them by hand: linear layers that are cut over ranks,
parts of a sequence, stages of a pipeline (tests/layouts/train.py).
"""

from __future__ import annotations

import torch
from torch import distributed, nn


class Copied(torch.autograd.Function):
    """What all ranks have goes into layers that are cut: gradients are summed."""

    is_sound = True

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        if Copied.is_sound:
            distributed.all_reduce(gradient)
        return gradient


class Summed(torch.autograd.Function):
    """Each rank has a summand of the result."""

    @staticmethod
    def forward(context, x):
        x = x.clone()
        distributed.all_reduce(x)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient


class Gathered(torch.autograd.Function):
    """The parts of all ranks, side by side along a dimension."""

    is_sound = True

    @staticmethod
    def forward(context, x, dim):
        context.dim, x = dim, x.contiguous()
        parts = [torch.empty_like(x) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, x)
        return torch.cat(parts, dim)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        if Gathered.is_sound:
            distributed.all_reduce(gradient)
        return gradient.chunk(distributed.get_world_size(), context.dim)[distributed.get_rank()], None


def share(tensor: torch.Tensor, dim: int, place: int) -> nn.Parameter:
    part = tensor.detach().chunk(distributed.get_world_size(), dim)[place]
    return nn.Parameter(part.contiguous().clone())


class ColumnParallel(nn.Module):
    """Its outputs are cut over the ranks."""

    def __init__(self, whole: nn.Linear, place: int) -> None:
        super().__init__()
        self.weight = share(whole.weight, 0, place)
        self.bias = None if whole.bias is None else share(whole.bias, 0, place)

    def forward(self, x):
        return nn.functional.linear(Copied.apply(x), self.weight, self.bias)


class RowParallel(nn.Module):
    """Its inputs are cut over the ranks; the bias is added once."""

    def __init__(self, whole: nn.Linear, place: int, fault: str = "") -> None:
        super().__init__()
        self.weight, self.bias = share(whole.weight, 1, place), whole.bias
        self.fault = fault

    def forward(self, x):
        if self.fault == "bias on each rank":
            return Summed.apply(nn.functional.linear(x, self.weight, self.bias))
        return Summed.apply(nn.functional.linear(x, self.weight)) + self.bias


def cut_over_ranks(model: nn.Module, fault: str) -> nn.Module:
    place = distributed.get_rank()
    Copied.is_sound = fault != "backward not reduced"
    wrong = 1 - place if fault == "wrong shard" else place
    for block in model.blocks:
        for name in "qkv":
            setattr(block.attention, name, ColumnParallel(getattr(block.attention, name), place))
        block.attention.o = RowParallel(block.attention.o, place)
        block.mlp.gate = ColumnParallel(block.mlp.gate, wrong)
        block.mlp.up = ColumnParallel(block.mlp.up, place)
        block.mlp.down = RowParallel(block.mlp.down, place, fault)
    return model


class Experts(nn.Module):
    """Each token goes to the two experts that the router likes best, biased for an even load."""

    def __init__(self, width: int, count: int, made) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(made(width) for _ in range(count))
        self.register_buffer("bias", torch.zeros(count))

    # Of the process, and no settings of a module.
    first, is_cut, counts_alone, is_sound = 0, False, False, True

    def forward(self, x):
        likes = self.router(x).float().softmax(-1)
        best = (likes + self.bias).topk(2, -1).indices
        chosen = torch.zeros_like(likes).scatter(-1, best, 1.0)
        weights = (likes * chosen).to(x.dtype)
        if self.is_cut:
            x = Copied.apply(x)
            weights = Copied.apply(weights) if self.is_sound else weights
        y = sum(
            weights[..., self.first + number, None] * expert(x) for number, expert in enumerate(self.experts)
        )
        self.balance(chosen)
        return Summed.apply(y) if self.is_cut else y

    @torch.no_grad()
    def balance(self, chosen) -> None:
        """Without an auxiliary loss: the bias of experts with more tokens than the mean falls."""
        loads = chosen.flatten(0, -2).sum(0)
        if distributed.is_initialized() and not self.is_cut and not self.counts_alone:
            distributed.all_reduce(loads)
        self.bias += 0.05 * torch.sign(loads.mean() - loads)


def experts_over_ranks(model: nn.Module, fault: str) -> nn.Module:
    """Each rank has some of the experts, numbered anew; all have the same batch."""
    place, world = distributed.get_rank(), distributed.get_world_size()
    share = len(model.blocks[0].mlp.experts) // world
    wrong = (place + 1) % world if fault == "wrong experts" else place
    Experts.first, Experts.is_cut, Experts.is_sound = place * share, True, fault != "router not reduced"
    for block in model.blocks:
        block.mlp.experts = block.mlp.experts[wrong * share : (wrong + 1) * share]
    return model


def stage_of(model: nn.Module, *, keeps_names: bool) -> nn.Module:
    """Half of the blocks: with the numbers that they have in the model, or numbered anew."""
    first = distributed.get_rank() == 0
    number = 0 if first else 1
    block = model.blocks[number]
    model.blocks = nn.ModuleList()
    model.blocks.add_module(str(number) if keeps_names else "0", block)
    if first:
        model.norm = model.head = None
    else:
        if model.head.weight is model.embed.weight:  # tied: each stage has one
            model.head.weight = nn.Parameter(model.embed.weight.detach().clone())
        model.embed = None
    return model
