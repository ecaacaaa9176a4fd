# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Models that are spread over processes as DTensors: FSDP2, tensor parallelism, both."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dump_support import LEVELS, Dump, captured, debugger, run, run_ranks, tensors_of
from spread_models import RANKS


def training(directory: Path, kind: str, level: str, task: str) -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    from dump_models import bits
    from spread_models import collectives, spread

    dist.init_process_group("gloo")

    def local(tensor: Any) -> Any:
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor

    def train(probe: Any = None) -> tuple[list[bytes], list[int]]:
        model, samples = spread(kind)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = collectives()
        seen = []
        for _ in range(2):
            if probe is not None:
                probe.start(model)
            optimizer.zero_grad()
            loss = model(samples).pow(2).sum()
            loss.backward()
            optimizer.step()
            if probe is not None:
                probe.stop()
                probe.step()
            seen += [bits(loss), *(bits(local(p.grad)) for p in model.parameters())]
        after = collectives()
        return seen, [last - (before[i] if i < len(before) else 0) for i, last in enumerate(after)]

    without, plain = train()
    within, watched = train(debugger(directory, level=level, task=task))
    shards = {}
    if kind == "tp":
        model, _ = spread(kind)
        shards = {name: bits(local(p)) for name, p in model.named_parameters()}
    dist.destroy_process_group()
    return {
        "same": without == within,
        # The second model has groups of its own, which may be listed in another order.
        "plain": sorted(count for count in plain if count),
        "watched": sorted(count for count in watched if count),
        "shards": shards,
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["fsdp2", "tp"])
def test_training_is_the_same_and_nothing_is_sent_for_the_dump(tmp_path, kind, level):
    answers = run_ranks(training, tmp_path, kind, level, "statistics", ranks=RANKS[kind], timeout=300)
    for rank, answer in enumerate(answers):
        assert answer["same"]
        assert answer["plain"] == answer["watched"] != []
        for step in range(2):
            data = Dump(tmp_path, step, rank).check().data
            measured = [t for record in data.values() for t in tensors_of(record) if t["Max"] is not None]
            assert len(measured) > 20
            if level != "L1":
                assert "Module.second.down.Linear.backward.0" in data


def test_four_processes_with_both(tmp_path):
    answers = run_ranks(training, tmp_path, "fsdp2+tp", "mix", "statistics", ranks=4, timeout=500)
    for rank, answer in enumerate(answers):
        assert answer["same"]
        assert answer["plain"] == answer["watched"] != []
        weight = (
            Dump(tmp_path, 0, rank).check().data["Module.first.up.Linear.forward.0"]["parameters"]["weight"]
        )
        assert weight["shape"] == [8, 8]  # gathered from FSDP, still cut by tensor parallelism
        placed = weight["dtensor"]
        assert placed["mesh_dims"] == ["dp", "tp"]
        assert placed["placements"] == ["Replicate", "Shard(0)"]
        assert placed["coordinate"] == [rank // 2, rank % 2]


def test_the_local_shard_is_what_is_recorded(tmp_path):
    import torch

    answers = run_ranks(training, tmp_path, "tp", "mix", "tensor", timeout=300)
    meshes = set()
    for rank, answer in enumerate(answers):
        dump = Dump(tmp_path, 0, rank).check()
        forward = dump.data["Module.first.up.Linear.forward.0"]
        weight = forward["parameters"]["weight"]
        assert weight["shape"] == [8, 8]
        assert weight["requires_grad"] is True
        assert list(weight)[-1] == "dtensor"
        placed = weight["dtensor"]
        meshes.add(placed.pop("mesh"))
        assert placed == {
            "shape": [16, 8],
            "placements": ["Shard(0)"],
            "mesh_shape": [2],
            "mesh_dims": ["tp"],
            "coordinate": [rank],
        }
        stored = torch.load(dump.folder / "dump_tensor_data" / weight["data_name"], weights_only=True)
        assert stored.numpy().tobytes() == answer["shards"]["first.up.weight"]
        assert weight["Max"] == float(stored.max())
        # Activations inside of the layer are DTensors, too, and so are their gradients.
        assert forward["output"][0]["dtensor"]["placements"] == ["Shard(2)"]
        backward = dump.data["Module.first.up.Linear.backward.0"]
        assert backward["input"][0]["shape"] == [4, 3, 8]
        assert backward["input"][0]["Norm"] > 0
        gradient = dump.data["Module.first.up.Linear.parameters_grad"]["weight"][0]
        assert gradient["shape"] == [8, 8]
        assert gradient["dtensor"]["placements"] == ["Shard(0)"]
        assert "dtensor" not in dump.data["Module.head.Linear.forward.0"]["parameters"]["weight"]
    assert len(meshes) == 1


# ---- the ranks as one graph


def single_process(directory: Path, level: str) -> None:
    from spread_models import batch, single

    model = single()
    with captured(directory, model, level=level):
        model(batch()).pow(2).sum().backward()


def one_step(directory: Path, kind: str, level: str) -> None:
    import torch.distributed as dist
    from spread_models import spread

    dist.init_process_group("gloo")
    model, samples = spread(kind)
    with captured(directory, model, level=level):
        model(samples).pow(2).sum().backward()
    dist.destroy_process_group()


def graph(target: Path, output: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Name of a node -> its tensors and how they were merged."""
    import sys

    from msprobe.cli import main

    assert main(["graph", str(target), "--merge", "-o", str(output), "--quiet"]) == 0, sys.stderr
    (file,) = output.glob("*.vis.db")
    with sqlite3.connect(file) as database:
        rows = database.execute(
            "SELECT node_name, input_data, output_data, parallel_merge_info, data_source FROM tb_nodes"
        ).fetchall()
    return {
        name: ({**json.loads(given or "{}"), **json.loads(made or "{}")}, notes or "")
        for name, given, made, notes, _ in rows
    }


@pytest.mark.parametrize(("kind", "level"), [("fsdp2", "mix"), ("tp", "mix"), ("fsdp2+tp", "L0")])
def test_merged_ranks_are_the_model_on_one_process(tmp_path, kind, level):
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    run(single_process, one, level, timeout=120)
    run_ranks(one_step, many, kind, level, ranks=RANKS[kind], timeout=500)
    (one / "dump" / "step0" / "rank").rename(one / "dump" / "step0" / "rank0")
    single = graph(one / "dump" / "step0", tmp_path / "one_graph")
    merged = graph(many / "dump" / "step0", tmp_path / "many_graph")
    different, compared, summands = differences(single, merged)
    assert not different
    assert compared > 60
    assert summands > 0


# Calls between modules are those of the first rank.
LOSS = ("Tensor.pow.", "Tensor.sum.", "Torch.ones_like.")

Nodes = dict[str, tuple[dict[str, Any], str]]


def differences(single: Nodes, merged: Nodes) -> tuple[list[str], int, int]:
    """What is not as on one process; tensors compared; those of them that are said to be summands."""
    different, compared, summands = [], 0, 0
    for name, (tensors, _) in single.items():
        if name not in merged:
            different += [f"{name} is missing"] if name.startswith("Module.") else []
            continue
        if name.startswith(LOSS):
            continue
        found, notes = merged[name]
        if "should hold the same" in notes:
            different.append(notes)
        for place, tensor in tensors.items():
            if not is_number(tensor.get("Max")):
                continue
            if f"summands of {place[len(name) + 1 :]} " in notes:
                summands += 1
            elif not all(same(tensor, found.get(place, {}), statistic) for statistic in STATISTICS):
                different.append(f"{place}: {tensor} and {found.get(place)}")
            compared += 1
    return different, compared, summands


STATISTICS = ("Max", "Min", "Mean", "Norm")


def same(expected: dict[str, Any], found: dict[str, Any], statistic: str) -> bool:
    if not is_number(found.get(statistic)):
        return False
    return math.isclose(float(expected[statistic]), float(found[statistic]), rel_tol=2e-5, abs_tol=2e-6)


def is_number(text: Any) -> bool:
    return text is not None and text not in ("none", "null", "None", "")
