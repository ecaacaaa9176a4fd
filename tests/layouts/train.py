# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small Llama, trained in one layout, sound or with a planted fault (tests/layouts/table.py).

The global batch of a step is the same in every layout; a data-parallel rank takes its rows.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext

import torch
from by_hand import (
    Experts,
    Gathered,
    GroupedExperts,
    cut_by_words,
    cut_in_two_directions,
    cut_over_ranks,
    experts_over_ranks,
    stage_of,
)
from torch import distributed, nn

VOCABULARY, WIDTH, BLOCKS, BATCH, LENGTH = 64, 32, 2, 8, 16


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        size = x.float().pow(2).mean(-1, keepdim=True) + 1e-5
        return (x.float() * size.rsqrt()).to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.o = nn.Linear(width, width)

    def forward(self, x):
        heads = [f(x).unflatten(-1, (-1, 8)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        if self.group is not None:
            return self.o(self.of_part(*heads).transpose(1, 2).flatten(2))
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))

    group, is_zigzag = None, False
    """Context parallel: each rank has the queries of its part of the sequence."""

    def of_part(self, q, k, v):
        k, v = (Gathered.apply(one, 2) for one in (k, v))
        places = places_of_ranks(k.shape[2], distributed.get_world_size(), self.is_zigzag)
        may_see = torch.cat(places)[None] <= places[distributed.get_rank(self.group)][:, None]
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=may_see)


def places_of_ranks(length: int, world: int, is_zigzag: bool) -> list[torch.Tensor]:
    """Which tokens each rank has: a part in a row; or, so that all have as much to do, one from the front and
    one from the back.
    """
    if not is_zigzag:
        return list(torch.arange(length).chunk(world))
    parts = torch.arange(length).chunk(2 * world)
    return [torch.cat([parts[rank], parts[-1 - rank]]) for rank in range(world)]


class Halved(torch.autograd.Function):
    """A backward pass that gives the half."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return gradient * 0.5


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, 4 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * width, width)

    spoiled: nn.Module | None = None
    """Of the process, and no setting of a module."""

    def forward(self, x):
        if self is MLP.spoiled:
            x = Halved.apply(x)
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width: int, experts: int, kind: type) -> None:
        super().__init__()
        self.norm1, self.attention = Norm(width), Attention(width)
        self.norm2, self.mlp = Norm(width), kind(width, experts, MLP) if experts else MLP(width)
        self.dropout = nn.Identity()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Llama(nn.Module):
    def __init__(self, experts: int = 0, kind: type = Experts, words: int = VOCABULARY) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, experts, kind) for _ in range(BLOCKS))
        self.norm = Norm(WIDTH)
        self.head = nn.Linear(WIDTH, words, bias=False)

    def forward(self, x):
        """x: tokens, or what the stage of a pipeline before this one computed."""
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks.children():
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def laid_out(model: nn.Module, layout: str, fault: str) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh

    world = distributed.get_world_size() if distributed.is_initialized() else 1
    if layout in ("ddp", "ddp dropout", "zero1"):
        if fault == "norm left out":
            nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
                model, ["norm.weight"]
            )
        return nn.parallel.DistributedDataParallel(model)
    if layout in ("fsdp", "hsdp", "moe fsdp"):
        from torch.distributed.fsdp import fully_shard

        one = (("dp",), (world,))
        names = {"hsdp": (("replicate", "shard"), (2, world // 2))}.get(layout, one)
        mesh = init_device_mesh("cpu", names[1], mesh_dim_names=names[0])
        Experts.counts_alone = fault == "routing bias not reduced"
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    if layout in ("ep", "ep grouped"):
        return experts_over_ranks(model, fault)
    if layout == "plain tp+dp":
        return cut_in_two_directions(model, fault)
    if layout == "words tp":
        return cut_by_words(model, fault)
    if layout.startswith("cp"):
        Attention.is_zigzag = layout == "cp zigzag"
        Gathered.is_sound = fault != "gather not reduced"
        for block in model.blocks:
            block.attention.group = distributed.group.WORLD
        return nn.parallel.DistributedDataParallel(model)
    if layout == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
    if layout == "plain tp":
        return cut_over_ranks(model, fault)
    if layout.startswith("pp"):
        return stage_of(model, keeps_names=layout != "pp renumbered")
    if layout in ("tp", "tp+dp", "tp+sp"):
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            PrepareModuleInput,
            RowwiseParallel,
            SequenceParallel,
            parallelize_module,
        )

        shape = ((world // 2, 2), ("dp", "tp")) if layout == "tp+dp" else ((world,), ("tp",))
        mesh = init_device_mesh("cpu", shape[0], mesh_dim_names=shape[1])
        rows = {"output_layouts": Shard(1)} if layout == "tp+sp" else {}
        plan = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {"mlp.gate": ColwiseParallel(), "mlp.up": ColwiseParallel()}
        plan |= {"attention.o": RowwiseParallel(**rows), "mlp.down": RowwiseParallel(**rows)}
        if layout == "tp+sp":  # between the layers each rank has a part of the sequence
            whole = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
            plan |= {"attention": PrepareModuleInput(**whole), "mlp": PrepareModuleInput(**whole)}
            plan |= {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
            ends = {"embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))}
            ends |= {"norm": SequenceParallel()}
            ends |= {"head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
            parallelize_module(model, mesh, ends)
        for block in model.blocks:
            parallelize_module(block, mesh["tp"], plan)
        if layout == "tp+dp":
            from torch.distributed.fsdp import fully_shard

            for block in model.blocks:
                fully_shard(block, mesh=mesh["dp"])
            fully_shard(model, mesh=mesh["dp"])
    return model


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", default="one")
    parser.add_argument("--fault", default="")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--micro", type=int, default=1, help="batches whose gradients are added up")
    asked = parser.parse_args()
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    layout, fault = asked.layout, asked.fault
    if world == 1 and layout not in ("one", "tied", "moe", "grouped", "odd words"):
        layout, fault = "one", ""
    torch.set_num_threads(1)
    if world > 1:
        distributed.init_process_group("gloo")
    torch.manual_seed(rank if fault == "seeds of ranks" else 0)
    words = VOCABULARY - 1 if "words" in layout else VOCABULARY
    experts = 4 if layout in ("moe", "moe fsdp", "ep", "grouped", "ep grouped") else 0
    plain = Llama(experts, GroupedExperts if "grouped" in layout else Experts, words)
    plain = plain.to(getattr(torch, asked.dtype))
    if "tied" in layout:
        plain.head.weight = plain.embed.weight
        plain.embed.weight.data.mul_(WIDTH**-0.5)
    if "dropout" in layout:
        for block in plain.blocks:
            block.dropout = nn.Dropout(0.1)
        torch.manual_seed(1 if fault == "seeds equal" else 1 + rank)
    MLP.spoiled = plain.blocks[0].mlp if fault == "backward of a rank" and rank == 1 else None
    model = laid_out(plain, layout, fault)
    if layout == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    whole = (
        "one",
        "tied",
        "moe",
        "ep",
        "grouped",
        "ep grouped",
        "odd words",
        "words tp",
        "pp tied",
        "tp",
        "tp+sp",
        "plain tp",
        "cp",
        "cp zigzag",
        "pp",
        "pp renumbered",
    )
    shares = 1 if layout in whole else world // 2 if "tp+dp" in layout else world
    place = (rank // 2 if "tp+dp" in layout else rank) if shares > 1 else 0
    pipeline = Pipeline(model, asked.micro, layout, fault) if layout.startswith("pp") else None
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, words, (BATCH, LENGTH + 1), generator=generator)
        if pipeline is not None:
            pipeline.train_step(optimizer, tokens)
        else:
            train_step(
                model, plain, optimizer, tokens, asked.micro, shares, place, fault, step, rank, world, layout
            )
    if world > 1:
        distributed.destroy_process_group()


class Pipeline:
    """Two stages with the schedule of GPipe."""

    def __init__(self, stage: nn.Module, micro: int, layout: str, fault: str) -> None:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        self.rank, self.model, self.fault = distributed.get_rank(), stage, fault
        is_tied = layout == "pp tied" and fault != "tied not added"
        self.tied = (stage.head if self.rank else stage.embed).weight if is_tied else None
        scale = fault != "pipeline sums losses"
        place = PipelineStage(stage, self.rank, 2, torch.device("cpu"))
        self.schedule = ScheduleGPipe(place, max(micro, 2), loss_fn=loss_of, scale_grads=scale)

    def train_step(self, optimizer, tokens) -> None:
        optimizer.zero_grad()
        if self.rank == 0:
            self.schedule.step(tokens[:, :-1])
        else:
            targets = tokens[:, 1:]
            if self.fault == "targets of another order":
                targets = targets.flip(0)
            self.schedule.step(target=targets)
        if self.tied is not None:
            distributed.all_reduce(self.tied.grad)
        if self.fault == "stage left out" and self.rank == 0:
            self.model.blocks[0].mlp.up.weight.grad.mul_(0.5)
        optimizer.step()


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.float().flatten(0, 1), target.flatten())


def train_step(
    model, plain, optimizer, tokens, micro, parts, place, fault, step, rank, world, layout
) -> None:
    rows = BATCH // parts
    if fault == "same data":
        place = 0
    mine = tokens[place * rows : (place + 1) * rows]
    if fault == "uneven ranks":
        mine = tokens[: BATCH - 2] if place == 0 else tokens[BATCH - 2 :]
    if fault == "shifted":
        mine = torch.cat([mine[:, 1:], mine[:, :1]], 1)
    optimizer.zero_grad()
    for part in mine.chunk(micro):
        fed, wanted = part[:, :-1], part[:, 1:]
        if layout.startswith("cp"):
            here = places_of_ranks(fed.shape[1], world, Attention.is_zigzag)[rank]
            fed, wanted = (one[:, here] for one in (fed, wanted))
            if fault == "shifted by padding":  # in front of the sequence, and not behind it
                whole = nn.functional.pad(part[:, :-1], (1, 0))[:, :-1]
                fed = whole[:, here]
            if fault == "roll":  # made of the part, not of the whole sequence
                wanted = torch.cat([fed[:, 1:], fed[:, :1]], 1)
        with model.no_sync() if fault == "no reduction" else nullcontext():
            loss = loss_of(model(fed), wanted)
        if fault in ("divided twice", "loss divided by parts"):
            loss = loss / world
        weight = part.shape[0] / mine.shape[0]
        if fault == "micro-batches summed":
            weight = 1.0
        loss = loss * weight
        if fault == "loss times ranks":
            loss = loss * world
        if fault == "no reduction":
            with model.no_sync():
                loss.backward()
        else:
            loss.backward()
    spoil(plain, optimizer, fault, step, rank, world)
    optimizer.step()
    if fault == "stale replica" and rank == 1 and step == 0:
        with torch.no_grad():
            plain.blocks[0].mlp.up.weight.mul_(1.0001)
    print(rank, step, float(local(loss)))


def spoil(plain, optimizer, fault: str, step: int, rank: int, world: int) -> None:
    gradients = [local(one.grad) for one in plain.parameters()]
    if fault == "averaged twice":
        for gradient in gradients:
            gradient.div_(world)
    if fault == "clipped by rank":
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm() * (1 + 0.1 * rank)
        for gradient in gradients:
            gradient.mul_(0.1 / norm)
    if fault == "one gradient changed" and rank == 1 and step == 1:
        gradients[-2].mul_(1.01)
    if fault == "norm not reduced":
        gradient = local(plain.norm.weight.grad)
        gradient.mul_(1 + 0.01 * rank)
    if fault == "learning rate of a rank" and rank == 1:
        optimizer.param_groups[0]["lr"] = 2e-3
    if fault == "weight decay of a rank" and rank == world - 1:
        optimizer.param_groups[0]["weight_decay"] = 0.0
    if fault == "eps":
        optimizer.param_groups[0]["eps"] = 1e-6
    if fault == "frozen shard" and rank == 0:
        gradients[3].zero_()
    if fault == "bias times ranks":
        local(plain.blocks[0].mlp.down.bias.grad).mul_(world)
    if fault == "sign of a shard" and rank == 1:
        local(plain.head.weight.grad).neg_()
    if fault == "rows of a shard" and rank == 1:
        gradient = local(plain.head.weight.grad)
        gradient.copy_(gradient.flip(0))


if __name__ == "__main__":
    main()
