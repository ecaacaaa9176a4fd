# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Layouts of plain tensors, as training engines write them by hand: linear layers that are cut over ranks,
parts of a sequence, stages of a pipeline (tests/layouts/train.py).
"""

from __future__ import annotations

import torch
from torch import distributed, nn


class Ranks:
    """Of tensor parallelism, None: all; and those beside them that have batches of their own."""

    tensor, data = None, None


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
            distributed.all_reduce(gradient, group=Ranks.tensor)
        return gradient


class Summed(torch.autograd.Function):
    """Each rank has a summand of the result."""

    @staticmethod
    def forward(context, x):
        x = x.clone()
        distributed.all_reduce(x, group=Ranks.tensor)
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


class Side(torch.autograd.Function):
    """The parts of all ranks, side by side along the last dimension, of which each has the same loss."""

    @staticmethod
    def forward(context, x):
        parts = [torch.empty_like(x) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, x.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(context, gradient):
        return gradient.chunk(distributed.get_world_size(), -1)[distributed.get_rank()].contiguous()


class Whole(torch.autograd.Function):
    """A weight of shards on ranks that have batches of their own."""

    is_sound = True

    @staticmethod
    def forward(context, shard, dim):
        context.dim = dim
        parts = [torch.empty_like(shard) for _ in range(2)]
        distributed.all_gather(parts, shard, group=Ranks.data)
        return torch.cat(parts, dim)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        if Whole.is_sound:
            distributed.all_reduce(gradient, group=Ranks.data)
        part = gradient.chunk(2, context.dim)[distributed.get_rank(Ranks.data)]
        return part / 2, None


def share(tensor: torch.Tensor, dim: int, place: int, parts: int = 0) -> nn.Parameter:
    part = tensor.detach().chunk(parts or distributed.get_world_size(Ranks.tensor), dim)[place]
    return nn.Parameter(part.contiguous().clone())


class ColumnParallel(nn.Module):
    """Its outputs are cut over the ranks."""

    forgets: nn.Module | None = None
    """Which of them does not sum the gradients of what goes in: of the process, no setting of a module."""

    def __init__(self, whole: nn.Linear, place: int) -> None:
        super().__init__()
        self.weight = share(whole.weight, 0, place)
        self.bias = None if whole.bias is None else share(whole.bias, 0, place)

    def forward(self, x):
        weight = Whole.apply(self.weight, 1) if Ranks.data else self.weight
        x = x if self is ColumnParallel.forgets else Copied.apply(x)
        return nn.functional.linear(x, weight, self.bias)


class RowParallel(nn.Module):
    """Its inputs are cut over the ranks; the bias is added once."""

    def __init__(self, whole: nn.Linear, place: int, fault: str = "") -> None:
        super().__init__()
        self.weight, self.bias = share(whole.weight, 1, place), whole.bias
        self.fault = fault

    def forward(self, x):
        weight = Whole.apply(self.weight, 0) if Ranks.data else self.weight
        if self.fault == "bias on each rank":
            return Summed.apply(nn.functional.linear(x, weight, self.bias))
        if self.fault == "forward of a layer not reduced":
            return nn.functional.linear(x, weight) + self.bias
        return Summed.apply(nn.functional.linear(x, weight)) + self.bias


def cut_over_ranks(model: nn.Module, fault: str) -> nn.Module:
    place = distributed.get_rank(Ranks.tensor)
    Copied.is_sound = fault != "backward not reduced"
    wrong = 1 - place if fault == "wrong shard" else place
    for block in model.blocks:
        for name in "qkv":
            setattr(block.attention, name, ColumnParallel(getattr(block.attention, name), place))
        block.attention.o = RowParallel(block.attention.o, place)
        block.mlp.gate = ColumnParallel(block.mlp.gate, wrong)
        block.mlp.up = ColumnParallel(block.mlp.up, place)
        everywhere = fault != "forward of a layer not reduced" or block is model.blocks[0]
        block.mlp.down = RowParallel(block.mlp.down, place, fault if everywhere else "")
    if fault == "backward of a layer not reduced":
        ColumnParallel.forgets = model.blocks[0].mlp.up
    return model


def cut_in_two_directions(model: nn.Module, fault: str) -> nn.Module:
    """Tensor parallelism of ranks that follow each other, whose weights are cut once more over the others."""
    rank = distributed.get_rank()
    pairs = [distributed.new_group(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3])]
    Ranks.tensor, Ranks.data = pairs[rank // 2], pairs[2 + rank % 2]
    Whole.is_sound = fault != "shards not reduced"
    cut_over_ranks(model, fault)
    for module in model.modules():
        if isinstance(module, (ColumnParallel, RowParallel)):
            dim = 1 if isinstance(module, ColumnParallel) else 0
            module.weight = share(module.weight, dim, distributed.get_rank(Ranks.data), 2)
    shards = {id(one.weight) for one in model.modules() if isinstance(one, (ColumnParallel, RowParallel))}
    for parameter in model.parameters():
        if id(parameter) not in shards:
            parameter.register_post_accumulate_grad_hook(_averaged)
    return model


@torch.no_grad()
def _averaged(parameter: torch.Tensor) -> None:
    distributed.all_reduce(parameter.grad, group=Ranks.data)
    parameter.grad /= 2


class Words(nn.Module):
    """Rows of an embedding that is made long enough for all ranks with zeros."""

    def __init__(self, whole: nn.Embedding, place: int) -> None:
        super().__init__()
        self.weight = share(_padded(whole.weight), 0, place)
        self.first = place * len(self.weight)

    def forward(self, x):
        here = (x >= self.first) & (x < self.first + len(self.weight))
        rows = nn.functional.embedding((x - self.first) * here, self.weight)
        return Summed.apply(rows * here[..., None])


class Logits(nn.Module):
    """Of the words of each rank, but of those that there are not."""

    def __init__(self, whole: nn.Linear, place: int, fault: str) -> None:
        super().__init__()
        self.weight = share(_padded(whole.weight), 0, place)
        self.words = len(whole.weight) + (fault == "padding in the softmax")

    def forward(self, x):
        return Side.apply(nn.functional.linear(Copied.apply(x), self.weight))[..., : self.words]


def _padded(weight: torch.Tensor) -> torch.Tensor:
    return nn.functional.pad(weight.detach(), (0, 0, 0, -len(weight) % distributed.get_world_size()))


def cut_by_words(model: nn.Module, fault: str) -> nn.Module:
    place = distributed.get_rank()
    model.embed = Words(model.embed, place)
    model.head = Logits(model.head, place, fault)
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
        y = sum(weights[..., self.first + number, None] * one for number, one in enumerate(self.outputs(x)))
        self.balance(chosen)
        return Summed.apply(y) if self.is_cut else y

    def outputs(self, x):
        return [expert(x) for expert in self.experts]

    @torch.no_grad()
    def balance(self, chosen) -> None:
        """Without an auxiliary loss: the bias of experts with more tokens than the mean falls."""
        loads = chosen.flatten(0, -2).sum(0)
        if distributed.is_initialized() and not self.is_cut and not self.counts_alone:
            distributed.all_reduce(loads)
        self.bias += 0.05 * torch.sign(loads.mean() - loads)


class GroupedExperts(Experts):
    """The weights of all experts are one tensor."""

    def __init__(self, width: int, count: int, made) -> None:
        super().__init__(width, count, made)
        experts, self.experts = self.experts, None
        for name in ("gate", "up", "down"):
            weights = [getattr(expert, name).weight.detach() for expert in experts]
            setattr(self, name, nn.Parameter(torch.stack(weights)))

    def outputs(self, x):
        gate, up = (torch.einsum("...i,eoi->e...o", x, one) for one in (self.gate, self.up))
        return torch.einsum("e...i,eoi->e...o", nn.functional.silu(gate) * up, self.down)


def experts_over_ranks(model: nn.Module, fault: str) -> nn.Module:
    """Each rank has some of the experts, numbered anew; all have the same batch."""
    place, world = distributed.get_rank(), distributed.get_world_size()
    here = len(model.blocks[0].mlp.bias) // world
    wrong = (place + 1) % world if fault == "wrong experts" else place
    Experts.first, Experts.is_cut, Experts.is_sound = place * here, True, fault != "router not reduced"
    for block in model.blocks:
        if isinstance(block.mlp, GroupedExperts):
            for name in ("gate", "up", "down"):
                setattr(block.mlp, name, share(getattr(block.mlp, name), 0, wrong))
        else:
            block.mlp.experts = block.mlp.experts[wrong * here : (wrong + 1) * here]
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
