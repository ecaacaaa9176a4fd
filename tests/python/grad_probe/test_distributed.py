# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The probe in two processes with torch.distributed (gloo on CPU)."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
import torch.multiprocessing
from gloo import launch
from torch import nn

RANKS = 2


def configure(tmp_path, folder, **keys):
    path = tmp_path / f"{folder}.{torch.distributed.get_rank()}.json"
    path.write_text(json.dumps({"task": "grad_probe", "dump_path": str(tmp_path / folder), **keys}))
    return path


def train_ddp(rank, tmp_path):
    from msprobe import PrecisionDebugger

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for folder, ranks in (("all", []), ("one", [1])):
        PrecisionDebugger(configure(tmp_path, folder, rank=ranks))
        PrecisionDebugger.monitor(model)
        for step in range(2):
            optimizer.zero_grad()
            with model.no_sync():  # accumulation: this gradient is not reduced until the next backward
                model(torch.full((2, 4), 1.0 + step + rank)).square().sum().backward()
            model(torch.full((2, 4), 2.0 - rank)).square().sum().backward()
            optimizer.step()
        PrecisionDebugger._reset()
    torch.save(model.module.weight.grad, tmp_path / f"grad{rank}.pt")


def test_distributed_data_parallel(tmp_path, record_of):
    launch(train_ddp, tmp_path)
    assert sorted(os.listdir(tmp_path / "all")) == ["rank0", "rank1"]
    assert os.listdir(tmp_path / "one") == ["rank1"]
    records = [record_of(tmp_path / "all" / f"rank{rank}") for rank in range(RANKS)]
    for record in records:
        assert record.steps() == [0, 1]
        assert record.names(0) == ["module.weight", "module.bias"]
    # The gradients are those after the all-reduce: equal on all ranks.
    assert records[0].rows(1) == records[1].rows(1)
    gradient = torch.load(tmp_path / "grad0.pt")
    last = record_of(tmp_path / "one" / "rank1")
    assert float(last.rows(1)["module.weight"]["max"]) == gradient.max()
    assert np.array_equal(last.signs(1, "module.weight"), (gradient > 0).numpy())


def train_fsdp(rank, tmp_path):
    from msprobe import PrecisionDebugger
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (RANKS,)))
    optimizer = torch.optim.AdamW(model.parameters())
    PrecisionDebugger(configure(tmp_path, "probe"))
    PrecisionDebugger.monitor(model)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.arange(8.0).reshape(2, 4)).square().sum().backward()
        optimizer.step()
    PrecisionDebugger.stop()
    shards = {name: p.grad.to_local().clone() for name, p in model.named_parameters()}
    torch.save(shards, tmp_path / f"shards{rank}.pt")


def test_fully_sharded_parameters_record_the_local_shard(tmp_path, record_of):
    launch(train_fsdp, tmp_path)
    for rank in range(RANKS):
        record = record_of(tmp_path / "probe" / f"rank{rank}")
        shards = torch.load(tmp_path / f"shards{rank}.pt")
        assert record.steps() == [0, 1]
        assert record.names(1) == list(shards) == ["0.weight", "0.bias", "2.weight", "2.bias"]
        for name, shard in shards.items():
            row = record.rows(1)[name]
            assert json.loads(row["shape"]) == list(shard.shape)
            if shard.numel():
                assert float(row["max"]) == shard.max()
                assert np.array_equal(record.signs(1, name), (shard > 0).numpy())
        notes = json.loads((record.directory / "notes.json").read_text())
        assert list(notes["local_shards"]) == list(shards)
        assert notes["local_shards"]["0.weight"].startswith("Shard(dim=0) on mesh [2]: [3, 4] of [6, 4]")


pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch has no distributed")
