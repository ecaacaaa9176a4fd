# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two runs of different layouts as two logical runs. Values are those of real tensors, cut by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cut_by_hand import (
    NAMES,
    copied,
    entry,
    flat_shards,
    in_two_directions,
    one,
    padded,
    plain_shards,
    random_values,
    rounded,
    shard,
    sharded,
    stages,
    summands,
)
from msprobe.api import compare, diagnose
from msprobe.diagnose.answer import Answer
from msprobe.layout.job import open_job
from msprobe.layout.joining import differ_in_layout, write_joined
from msprobe.layout.tensor_entry import added, sketch_of
from written_jobs import State, write_job


@pytest.fixture
def values() -> dict[str, torch.Tensor]:
    return random_values()


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
        ours, theirs = sketch_of(found), sketch_of(plain)
        assert ours is not None
        assert theirs is not None
        assert ours["digest"] == theirs["digest"]
        assert ours["sums"] == pytest.approx(theirs["sums"], rel=1e-4, abs=1e-4)
        assert (found["min"], found["max"]) == (plain["min"], plain["max"])
        assert found["norm"] == pytest.approx(plain["norm"])
        assert found["mean"] == pytest.approx(plain["mean"])


def test_shards_that_do_not_cover_the_whole_are_none(values: dict[str, torch.Tensor]) -> None:
    part = shard(values["fc.weight"], 0, 0, 2)
    assert added([{**part, "shape": [48, 64]}], [96, 64]) is None


def test_what_no_tensor_has_is_none(values: dict[str, torch.Tensor]) -> None:
    part = shard(values["fc.weight"], 0, 0, 2)
    for shape in ([-48, -64], [1 << 40, 1 << 40]):
        assert added([{**part, "shape": shape}] * 2, [96, 64]) is None
        assert added([part], shape) is None


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


@pytest.mark.parametrize("layout", [flat_shards, stages, summands, in_two_directions, padded])
def test_other_layouts_are_joined_too(tmp_path: Path, values: dict[str, torch.Tensor], layout: Any) -> None:
    for sides in ((one(values), layout(rounded(values))), (layout(values), one(rounded(values)))):
        found = answer(tmp_path / str(len(sides[0])), *sides)
        assert found.status == "rounding", found.sentence
        assert not any("nothing says how it lies" in left.reason for left in found.not_compared)
    for name in NAMES:
        off = {**rounded(values), f"g.{name}": values[f"g.{name}"] * 0.5}
        found = answer(tmp_path / f"off {name}", one(values), layout(off))
        assert found.cause is not None
        assert found.cause.name == f"gradient {name}"


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


def test_what_a_later_stage_is_given_is_no_data(tmp_path: Path, values: dict[str, torch.Tensor]) -> None:
    """It has the first parameter, too, as where an embedding is tied to the last layer."""
    tokens = torch.randint(0, 1000, (8, 5), generator=torch.Generator().manual_seed(0))

    def fed(states: list[State], *given: torch.Tensor) -> list[State]:
        calls = [[{"model": "", "tensors": {"args.0": entry(one)}}] for one in given]
        return [{**one, "inputs": inputs} for one, inputs in zip(states, calls)]

    whole = fed(one(values), tokens)
    off = copied({**values, "g.norm.weight": values["g.norm.weight"] * 0.5})
    found = answer(tmp_path, whole, fed(off, tokens, torch.ones(8, 5, 3)))
    assert found.cause is not None
    assert found.cause.name == "gradient norm.weight"


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
