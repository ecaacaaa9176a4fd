# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records of jobs with the values of real tensors, cut by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from msprobe.native import torch_adapter
from written_jobs import State, ddp, state

NAMES = ("fc.weight", "norm.weight")


def entry(tensor: torch.Tensor, **more: Any) -> dict[str, Any]:
    statistics = json.loads("{" + torch_adapter().state_statistics(tensor) + "}")
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), **more, **statistics}


def shard(whole: torch.Tensor, dim: int, place: int, count: int, **more: Any) -> dict[str, Any]:
    """As a DTensor with Shard(dim) on `count` ranks is recorded."""
    part = whole.chunk(count, dim)[place].contiguous()
    offset = [0] * whole.dim()
    offset[dim] = place * whole.chunk(count, dim)[0].shape[dim]
    shape = list(whole.shape)
    statistics = json.loads("{" + torch_adapter().state_statistics(part, shard=(shape, offset)) + "}")
    lies = {
        "shape": shape,
        "placements": [f"Shard({dim})"],
        "mesh": "m",
        "mesh_shape": [count],
        "mesh_dims": [],
        "coordinate": [place],
        "local_shape": list(part.shape),
        "offset": offset,
    }
    return {
        "dtype": str(whole.dtype),
        "shape": shape,
        "part": "a shard",
        "dtensor": lies,
        **more,
        **statistics,
    }


def random_values() -> dict[str, torch.Tensor]:
    """Weights, gradients ("g.") and moments ("m.") of one step."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"fc.weight": (96, 64), "norm.weight": (96,)}
    return {
        f"{kind}{name}": torch.randn(shapes[name], generator=generator)
        for kind in ("", "g.", "m.")
        for name in NAMES
    }


def rounded(values: dict[str, torch.Tensor], by: float = 2e-7) -> dict[str, torch.Tensor]:
    """The same with another rounding of the gradients and of what follows."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: value * (1 + by * torch.randn(value.shape, generator=generator)) if name[1:2] == "." else value
        for name, value in values.items()
    }


def on_each(ranks: int, made: Callable[[str, int], dict[str, Any]]) -> list[State]:
    """made: what rank R has of a kind, a beginning of the names in `values`."""
    return [
        state(
            rank,
            ranks=ranks,
            weights=made("", rank),
            gradients=made("g.", rank),
            states=made("m.", rank),
        )
        for rank in range(ranks)
    ]


def one(values: dict[str, torch.Tensor]) -> list[State]:
    def made(kind: str) -> dict[str, Any]:
        return {name: entry(values[kind + name]) for name in NAMES}

    return [state(0, ranks=1, weights=made(""), gradients=made("g."), states=made("m."))]


def copied(values: dict[str, torch.Tensor], ranks: int = 2) -> list[State]:
    (only,) = one(values)
    layout = [{"rank": rank, "world_size": ranks, "copies": ddp(ranks)} for rank in range(ranks)]
    return [{**only, "layout": layout[rank]} for rank in range(ranks)]


def sharded(values: dict[str, torch.Tensor], ranks: int = 2, dim: int = 0) -> list[State]:
    def made(kind: str, rank: int) -> dict[str, Any]:
        dims = {"fc.weight": dim, "norm.weight": 0}
        return {name: shard(values[kind + name], dims[name], rank, ranks) for name in NAMES}

    return on_each(ranks, made)


def plain_shards(values: dict[str, torch.Tensor], ranks: int = 2) -> list[State]:
    """Of plain tensors, with no annotation: the weight is cut along dimension 1, the norm is a copy."""

    def made(kind: str, rank: int) -> dict[str, Any]:
        cut = values[kind + "fc.weight"].chunk(ranks, 1)[rank].contiguous()
        return {"fc.weight": entry(cut), "norm.weight": entry(values[kind + "norm.weight"])}

    return on_each(ranks, made)


def of_rank(values: dict[str, torch.Tensor], rank: int, cut: Any) -> State:
    """cut: makes of the name and the value of each what the rank has: a name, and a tensor or None."""
    found: dict[str, dict[str, Any]] = {"": {}, "g.": {}, "m.": {}}
    for kind, entries in found.items():
        for name in NAMES:
            here, tensor = cut(name, values[kind + name])
            if tensor is not None:
                entries[here] = entry(tensor.contiguous())
    weights, gradients, moments = found.values()
    return state(rank, ranks=2, weights=weights, gradients=gradients, states=moments)


def flat_shards(values: dict[str, torch.Tensor]) -> list[State]:
    """As FSDP1 has them: all elements in a row, cut where it comes to."""

    def cut(rank: int, name: str, value: torch.Tensor) -> tuple[str, torch.Tensor]:
        flat = value.flatten()
        first, second = (flat[:5000], flat[5000:]) if name == "fc.weight" else (flat[:0], flat)
        return name, second if rank else first

    return [of_rank(values, rank, lambda *one, rank=rank: cut(rank, *one)) for rank in range(2)]


def in_two_directions(values: dict[str, torch.Tensor]) -> list[State]:
    """Plain shards in a grid of two rows and two columns; the norm is a copy."""

    def made(kind: str, rank: int) -> dict[str, Any]:
        cut = values[kind + "fc.weight"].chunk(2, 0)[rank // 2].chunk(2, 1)[rank % 2]
        return {"fc.weight": entry(cut.contiguous()), "norm.weight": entry(values[kind + "norm.weight"])}

    return on_each(4, made)


def padded(values: dict[str, torch.Tensor]) -> list[State]:
    """Plain shards of a weight that was made longer with zeros."""

    def made(kind: str, rank: int) -> dict[str, Any]:
        longer = torch.nn.functional.pad(values[kind + "fc.weight"], (0, 0, 0, 6))
        cut = longer.chunk(2, 0)[rank].contiguous()
        return {"fc.weight": entry(cut), "norm.weight": entry(values[kind + "norm.weight"])}

    return on_each(2, made)


def stages(values: dict[str, torch.Tensor]) -> list[State]:
    """Of a pipeline; the second one has a name of the first one for its only layer."""

    def cut(rank: int, name: str, value: torch.Tensor) -> tuple[str, torch.Tensor | None]:
        is_here = (name == "norm.weight") == bool(rank)
        return "fc.weight" if rank else name, value if is_here else None

    return [of_rank(values, rank, lambda *one, rank=rank: cut(rank, *one)) for rank in range(2)]


def summands(values: dict[str, torch.Tensor]) -> list[State]:
    """Gradients are DTensors of which each rank has a part of the sum."""
    states = [deepcopy(one) for one in copied(values)]
    for rank, one in enumerate(states):
        lies = {
            "shape": [96],
            "placements": ["Partial(sum)"],
            "mesh": "m",
            "mesh_shape": [2],
            "mesh_dims": ["tp"],
            "coordinate": [rank],
            "local_shape": [96],
            "offset": [0],
        }
        part = torch.randn(96, generator=torch.Generator().manual_seed(7))
        summand = part if rank else values["g.norm.weight"] - part
        for found in (one["backward"][0]["after_reduction"], one["gradients_at_optimizer"][0]["gradients"]):
            found["norm.weight"] = {**entry(summand), "part": "a summand", "dtensor": lies}
    return states
