# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two runs of different layouts as two logical runs. Values are those of real tensors, cut by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe.api import compare, diagnose
from msprobe.diagnose.answer import Answer
from msprobe.layout.job import open_job
from msprobe.layout.joining import differ_in_layout, write_joined
from msprobe.layout.tensor_entry import added, digest_of, sketch_of
from msprobe.native import torch_adapter
from written_jobs import State, ddp, state, write_job

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


@pytest.fixture
def values() -> dict[str, torch.Tensor]:
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


LAYOUTS = {"one": one, "copied": copied, "sharded": sharded, "plain shards": plain_shards}


def answer(tmp_path: Path, reference: list[State], target: list[State]) -> Answer:
    runs = [write_job(tmp_path / name, [states]) for name, states in (("a", reference), ("b", target))]
    return diagnose(runs[0], runs[1], tmp_path / "out", graph=False)


def test_digests_and_sketches_of_shards_add_up_to_those_of_the_whole(values: dict[str, torch.Tensor]) -> None:
    whole = values["fc.weight"]
    for dim, count in ((0, 2), (1, 4), (0, 3)):
        parts = [shard(whole, dim, place, count) for place in range(count)]
        parts = [{**part, "shape": part["dtensor"]["local_shape"]} for part in parts]
        found = added(parts, list(whole.shape))
        assert found is not None
        plain = entry(whole)
        assert digest_of(found) == digest_of(plain)
        ours, theirs = sketch_of(found), sketch_of(plain)
        assert ours is not None
        assert theirs is not None
        assert ours.sums == pytest.approx(theirs.sums, rel=1e-4, abs=1e-4)
        assert (found["min"], found["max"]) == (plain["min"], plain["max"])
        assert found["norm"] == pytest.approx(plain["norm"])
        assert found["mean"] == pytest.approx(plain["mean"])


def test_shards_that_do_not_cover_the_whole_are_none(values: dict[str, torch.Tensor]) -> None:
    part = shard(values["fc.weight"], 0, 0, 2)
    assert added([{**part, "shape": [48, 64]}], [96, 64]) is None


# Of different layouts, one of which has the whole.
PAIRS = [
    (reference, target)
    for reference in LAYOUTS
    for target in ("copied", "sharded", "plain shards")
    if reference != target and {reference, target} != {"sharded", "plain shards"}
]


@pytest.mark.parametrize(("reference", "target"), PAIRS)
def test_healthy_pairs_agree(
    tmp_path: Path, values: dict[str, torch.Tensor], reference: str, target: str
) -> None:
    found = answer(tmp_path, LAYOUTS[reference](values), LAYOUTS[target](rounded(values)))
    assert found.status == "rounding", found.sentence
    told = [left.what for left in found.not_compared if left.part == "dump"]
    assert "dump: calls of functions" in told
    assert not any(left.is_difference for left in found.not_compared if left.part == "dump")


# Plain shards of a weight that is not the reference's are not put together.
OFF = [
    (target, fault, stage)
    for fault, stage in (
        ("fc.weight", "initial weights"),
        ("g.norm.weight", "gradients"),
        ("g.fc.weight", "gradients"),
    )
    for target in ("copied", "sharded", "plain shards")
    if (target, fault) != ("plain shards", "fc.weight")
]


@pytest.mark.parametrize(("target", "fault", "stage"), OFF)
def test_a_value_that_is_off_is_named(
    tmp_path: Path, values: dict[str, torch.Tensor], target: str, fault: str, stage: str
) -> None:
    off = {**rounded(values), fault: values[fault] * 0.5}
    found = answer(tmp_path, one(values), LAYOUTS[target](off))
    assert found.status == "differ"
    assert found.cause is not None
    assert found.cause.stage == stage
    assert fault.removeprefix("g.") in found.cause.name


@pytest.mark.parametrize("layout", [flat_shards, stages, summands])
def test_other_layouts_are_joined_too(tmp_path: Path, values: dict[str, torch.Tensor], layout: Any) -> None:
    for sides in ((one(values), layout(rounded(values))), (layout(values), one(rounded(values)))):
        found = answer(tmp_path / str(len(sides[0])), *sides)
        assert found.status == "rounding", found.sentence
    off = {**rounded(values), "g.norm.weight": values["g.norm.weight"] * 0.5}
    found = answer(tmp_path / "off", one(values), layout(off))
    assert found.cause is not None
    assert found.cause.name == "gradient norm.weight"


def test_another_number_of_micro_batches_is_another_layout(
    tmp_path: Path, values: dict[str, torch.Tensor]
) -> None:
    batch = torch.randint(0, 1000, (8, 5), generator=torch.Generator().manual_seed(0))

    def fed(values: dict[str, torch.Tensor], *parts: torch.Tensor) -> list[State]:
        (only,) = one(values)
        calls = [{"model": "", "tensors": {"args.0": entry(part)}} for part in parts]
        return [{**only, "inputs": calls, "backward": only["backward"] * len(parts)}]

    whole, halves = fed(values, batch), fed(rounded(values), batch[:4], batch[4:])
    assert answer(tmp_path / "same", whole, halves).status == "rounding"
    off = {**values, **{f"g.{name}": values[f"g.{name}"] * 2 for name in NAMES}}  # summed, not averaged
    found = answer(tmp_path / "off", whole, fed(off, batch[:4], batch[4:]))
    assert found.cause is not None
    assert found.cause.name.startswith("gradient ")


def test_a_sequence_that_ranks_share_is_one_batch(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    batch = torch.randint(0, 1000, (8, 6), generator=torch.Generator().manual_seed(0))

    def fed(states: list[State], *parts: torch.Tensor) -> list[State]:
        return [
            {**one, "inputs": [{"model": "", "tensors": {"args.0": entry(part.contiguous())}}]}
            for one, part in zip(states, parts)
        ]

    whole = fed(one(values), batch)
    assert answer(tmp_path, whole, fed(copied(rounded(values)), *batch.chunk(2, 1))).status == "rounding"


def test_what_is_not_joined_is_told_with_its_reason(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    states = sharded(values)
    states[1]["parameters"].pop("fc.weight")
    runs = [write_job(tmp_path / name, [one]) for name, one in (("a", one(values)), ("b", states))]
    joined = write_joined(open_job(runs[0]), open_job(runs[1]), tmp_path / "out")
    told = [left for left in joined.left_out if "not all of its shards were recorded" in left.reason]
    assert [left.name for left in told] == ["1 values of the target, as fc.weight"]
    assert told[0].is_difference


def test_a_batch_that_ranks_share_is_one_batch(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    batch = torch.randint(0, 1000, (8, 5), generator=torch.Generator().manual_seed(0))

    def fed(states: list[State], parts: list[torch.Tensor]) -> list[State]:
        return [
            {**one, "inputs": [{"model": "", "tensors": {"args.0": entry(part)}}]}
            for one, part in zip(states, parts)
        ]

    whole = fed(one(values), [batch])
    interleaved = fed(copied(rounded(values)), [batch[::2].contiguous(), batch[1::2].contiguous()])
    assert answer(tmp_path / "same", whole, interleaved).status == "rounding"
    off = {**values, **{f"g.{name}": values[f"g.{name}"] * 1.3 for name in NAMES}}
    twice = fed(copied(off), [batch[:4], batch[:4].clone()])
    found = answer(tmp_path / "twice", whole, twice)
    assert found.cause is not None
    assert found.cause.stage == "data"


def test_equal_layouts_are_not_joined(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    jobs = [open_job(write_job(tmp_path / name, [copied(values)])) for name in "ab"]
    assert not differ_in_layout(*jobs)


def test_compare_reads_logical_runs_too(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    runs = [
        write_job(tmp_path / name, [states])
        for name, states in (("a", copied(values)), ("b", sharded(values)))
    ]
    result = compare(*runs)
    assert result.status == "equal", result.sentence
    assert [left.what for left in result.left_out] == [
        "calls of functions",
        "random states",
    ]
