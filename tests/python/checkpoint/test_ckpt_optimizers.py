# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""States of optimizers, which a file numbers and does not name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_support import Model, columns, rows, save, settings, tensor, write_rank
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints


def megatron_optimizer(model: Model, seed: int, *, decaying_first: bool) -> dict[str, Any]:
    names = list(model)
    if decaying_first:
        names.sort(key=lambda name: model[name].dim() < 2)
    state = {
        i: {"exp_avg": tensor(name, *model[name].shape, seed=seed), "exp_avg_sq": model[name] ** 2, "step": 5}
        for i, name in enumerate(names)
    }
    copies = [model[name].float() for name in names]
    return {
        "optimizer": {"state": state, "param_groups": [{"params": list(state)}]},
        "fp32_from_fp16_params": [copies[:2], copies[2:]],
    }


@pytest.mark.parametrize("decaying_first", [False, True])
def test_optimizer_of_megatron(tmp_path: Path, decaying_first: bool) -> None:
    whole = {
        "embedding.word_embeddings.weight": tensor("w", 8, 6),
        "decoder.layers.0.input_layernorm.weight": tensor("n", 6),
        "decoder.layers.0.mlp.linear_fc2.weight": tensor("f", 6, 10),
    }
    left, right = tmp_path / "one", tmp_path / "two"
    optimizer = megatron_optimizer(whole, 1, decaying_first=False)
    write_rank(left, "mp_rank_00", whole, settings(), optimizer=optimizer)
    for rank in range(2):
        part = {
            name: value if "norm" in name else (columns if "fc2" in name else rows)(value, 2)[rank]
            for name, value in whole.items()
        }
        optimizer = megatron_optimizer(part, 2, decaying_first=decaying_first)
        args = settings(tensor_model_parallel_size=2)
        write_rank(right, f"mp_rank_{rank:02d}", part, args, optimizer=optimizer)
    assert len(compare_checkpoints(left, right).rows) == 3
    result = compare_checkpoints(left, right, CheckpointOptions(optimizer=True))
    assert len(result.rows) == 12
    assert {row.name for row in result.differing} == {f"optimizer.exp_avg.{name}" for name in whole}


def distributed_optimizer(model: Model, buckets: int) -> dict[Any, Any]:
    """distrib_optim.pt of one buffer: the last parameter first, each at a multiple of 64 elements of its
    bucket; nothing between buckets.
    """
    names = list(reversed(model))
    each = -(-len(names) // buckets)
    parts: dict[str, list[torch.Tensor]] = {"param": [], "exp_avg": [], "exp_avg_sq": []}
    for start in range(0, len(names), each):
        used = 0
        for name in names[start : start + each]:
            gap = -used % 64
            used += gap + model[name].numel()
            values = {
                "param": model[name].float(),
                "exp_avg": tensor(name, *model[name].shape, seed=1),
                "exp_avg_sq": tensor(name, *model[name].shape, seed=2) ** 2,
            }
            for state, value in values.items():
                parts[state] += [torch.zeros(gap), value.reshape(-1)]
    joined: dict[str, Any] = {state: torch.cat(values) for state, values in parts.items()}
    joined["numel_unpadded"] = joined["param"].numel()
    return {"buckets_coalesced": True, 0: {(torch.bfloat16, torch.float32): joined}}


def distributed_ranks(folder: Path, whole: Model, tensor_parallel: int, buckets: int) -> None:
    for rank in range(tensor_parallel):
        part = {}
        for name, value in whole.items():
            split = columns if "fc2" in name else rows
            part[name] = value if "norm" in name else split(value, tensor_parallel)[rank]
        args = settings(tensor_model_parallel_size=tensor_parallel)
        optimizer = {"optimizer": {"param_groups": [{"lr": 1e-3}]}, "param_state_sharding_type": "dp_zero"}
        path = write_rank(folder, f"mp_rank_{rank:02d}", part, args, optimizer=optimizer)
        torch.save(distributed_optimizer(part, buckets), path.parent / "distrib_optim.pt")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_distributed_optimizer_of_megatron(tmp_path: Path, dtype: torch.dtype) -> None:
    whole = {
        "embedding.word_embeddings.weight": tensor("w", 8, 6).to(dtype),
        "decoder.layers.0.input_layernorm.weight": tensor("n", 6).to(dtype),
        "decoder.layers.0.mlp.linear_fc2.weight": tensor("f", 6, 10).to(dtype),
        "decoder.final_layernorm.weight": tensor("e", 6).to(dtype),
    }
    left, right = tmp_path / "one", tmp_path / "two"
    distributed_ranks(left, whole, 1, 1)
    distributed_ranks(right, whole, 1, 3)
    result = compare_checkpoints(left, right, CheckpointOptions(optimizer=True))
    assert result.same, result.not_compared
    names = {f"optimizer.{state}.{one}" for state in ("fp32_param", "exp_avg", "exp_avg_sq") for one in whole}
    assert {row.name for row in result.rows} == names | set(whole)
    alone = compare_checkpoints(left, right / "mp_rank_00", CheckpointOptions(optimizer=True))
    assert alone.same
    assert len(alone.rows) == 16


def test_distributed_optimizer_in_shards(tmp_path: Path) -> None:
    """What the states are is told by their places: tensor-parallel shards, and the copy in full precision."""
    whole = {
        "decoder.layers.0.mlp.linear_fc1.weight": tensor("g", 10, 6),
        "decoder.layers.0.mlp.linear_fc2.weight": tensor("f", 6, 10),
    }
    left, right = tmp_path / "one", tmp_path / "two"
    distributed_ranks(left, whole, 1, 2)
    distributed_ranks(right, whole, 2, 1)
    result = compare_checkpoints(left, right, CheckpointOptions(optimizer=True))
    found = {row.name: row for row in result.rows}
    assert len(found) == 8
    for name, value in whole.items():
        assert found[f"optimizer.fp32_param.{name}"].equal
        split = columns if "fc2" in name else rows
        shards = [tensor(name, *part.shape, seed=1) for part in split(value, 2)]
        expected = torch.cat(shards, 1 if "fc2" in name else 0) - tensor(name, *value.shape, seed=1)
        assert found[f"optimizer.exp_avg.{name}"].l2 == pytest.approx(expected.norm().item(), rel=1e-5)


@pytest.mark.parametrize("damage", ["weights", "length", "kind", "nothing"])
def test_distributed_optimizer_whose_places_are_not_known(tmp_path: Path, damage: str) -> None:
    whole = {"a.weight": tensor("a", 30, 20), "b.weight": tensor("b", 7)}
    distributed_ranks(tmp_path, whole, 1, 1)
    path = tmp_path / "mp_rank_00/distrib_optim.pt"
    content = torch.load(path, weights_only=False)
    ((key, buffer),) = content[0].items()
    if damage == "weights":
        buffer["param"][100:] += 1
    elif damage == "length":
        content[0][key] = {state: value[:-1] for state, value in buffer.items() if state != "numel_unpadded"}
    elif damage == "kind":
        content = [{"a": [torch.ones(3)]}, 5]
    if damage == "nothing":
        path.unlink()
    else:
        torch.save(content, path)
    result = compare_checkpoints(tmp_path, tmp_path, CheckpointOptions(optimizer=True))
    assert len(result.rows) == 2
    assert not result.same
    expected = {"nothing": "has no states of an optimizer", "kind": "found no buffers"}
    assert (
        expected.get(damage, "1 of its 1 buffers do not have the weights") in result.reference.left_out[0][1]
    )


def test_optimizer_whose_numbers_fit_no_order(tmp_path: Path) -> None:
    whole = {"a.weight": tensor("a", 3, 2)}
    write_rank(
        tmp_path, "mp_rank_00", whole, settings(), optimizer={"state": {0: {"exp_avg": torch.ones(5)}}}
    )
    result = compare_checkpoints(tmp_path, tmp_path, CheckpointOptions(optimizer=True))
    assert "do not tell which parameters" in result.reference.left_out[0][1]


def test_optimizer_of_torch(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    path = save(tmp_path / "a.pt", {"model": module.state_dict(), "optimizer": optimizer.state_dict()})
    result = compare_checkpoints(path, path, CheckpointOptions(optimizer=True))
    assert sorted(row.name for row in result.rows) == sorted(
        [
            "weight",
            "bias",
            *(f"optimizer.{s}.{p}" for s in ("exp_avg", "exp_avg_sq") for p in ("weight", "bias")),
        ]
    )
