# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TrainerMon in several processes: communication, DistributedDataParallel, FSDP."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from gloo import launch, processes
from msprobe.pytorch import TrainerMon
from torch import nn
from training_sample import make_training, read_rows, train


def monitor_of(folder: Path, name: str, config: dict[str, Any], **kwargs: Any) -> Any:
    os.environ["MONITOR_OUTPUT_DIR"] = str(folder / name)
    path = folder / f"{name}.{torch.distributed.get_rank()}.json"
    path.write_text(json.dumps(config))
    return TrainerMon(str(path), params_have_main_grad=False, **kwargs)


def run_folder(base: Path, rank: int) -> Path:
    (found,) = base.glob(f"*-rank{rank}-*")
    return found


def communicate(rank: int, folder: Path) -> None:
    from torch import distributed as dist

    net, optimizer = make_training()
    monitor = monitor_of(
        folder, "cc", {"targets": {"fc1": {}}, "ops": ["norm", "max"], "module_ranks": [0, 1],
                       "cc_distribution": {"enable": True, "cc_pre_hook": True}},
    )  # fmt: skip
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)

    def before(step: int) -> None:
        for p in net.parameters():
            dist.all_reduce(p.grad)
        work = dist.broadcast(net.fc1.bias.data, 0, async_op=True)
        assert isinstance(work, dist.Work)
        work.wait()
        dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.ones(2))

    train(net, optimizer, steps=2, before=before)
    monitor._end()

    logged = monitor_of(folder, "log", {"cc_distribution": {"enable": True, "cc_log_only": True}})
    logged.set_monitor(net, optimizer)
    dist.all_reduce(torch.ones(1))
    optimizer.step()
    dist.all_reduce(torch.ones(1))
    with pytest.raises(Exception, match="exit after first step when print cc stack"):
        optimizer.step()
    stacks = json.loads(logged._run._communication.stacks_as_json()) if logged._run else {}
    assert re.search(r"test_trainer_processes\.py\[\d+\]   communicate", stacks["all_reduce"][0][0])
    logged._end()

    lines = monitor_of(
        folder,
        "lines",
        {"ops": ["max"], "cc_distribution": {"enable": True, "cc_codeline": [r"chosen_caller"]}},
    )
    lines.set_monitor(net, optimizer)
    dist.all_reduce(torch.full((1,), 5.0))
    chosen_caller()
    optimizer.step()
    lines._end()


def chosen_caller() -> None:
    torch.distributed.all_reduce(torch.full((1,), 7.0))


def test_communication(tmp_path: Path) -> None:
    """Numbers of mindstudio-probe's sample, in rows that its own lack."""
    launch(communicate, tmp_path)
    for rank in (0, 1):
        header, *rows = read_rows(run_folder(tmp_path / "cc", rank) / "other_1-1.csv")
        assert header == ["vpp_stage", "name", "step", "norm", "max", "shape", "dtype"]
        found = {row[1]: row for row in rows}
        assert [row[1] for row in rows] == [
            "all_reduce.pre_0", "all_reduce.post_0", "broadcast.pre_0", "broadcast.post_0",
            "all_gather.pre_0", "all_gather.pre_1", "all_gather.post_0", "all_gather.post_1",
        ]  # fmt: skip
        for name, norm, largest in (
            ("all_reduce.pre_0", 16.430942, 4.951127),
            ("all_reduce.post_0", 32.861884, 9.902253),
            ("broadcast.pre_0", 0.738907, 0.462738),
            ("broadcast.post_0", 0.738907, 0.462738),
            ("all_gather.pre_0", 0, 0),
            ("all_gather.post_0", 2, 1),
        ):
            assert found[name][0] == "0"
            assert float(found[name][3]) == pytest.approx(norm, abs=2e-6)
            assert float(found[name][4]) == pytest.approx(largest, abs=2e-6)
            assert found[name][5:] == ["nan", "nan"]
        rows = read_rows(run_folder(tmp_path / "lines", rank) / "other_0-0.csv")[1:]
        assert [(row[1], float(row[3])) for row in rows] == [("all_reduce.post_0", 14.0)]


def wrap(rank: int, folder: Path) -> None:
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    optimizer = torch.optim.Adam(model.parameters())
    world = torch.distributed.group.WORLD
    monitor = monitor_of(
        folder,
        "ddp",
        {"wg_distribution": True, "xy_distribution": True, "mv_distribution": True, "all_xy": True,
         "ops": ["norm"]},
    )  # fmt: skip
    monitor.set_monitor(model, optimizer, dp_group=world)
    norms = []
    for step in range(2):
        optimizer.zero_grad()
        model(torch.full((2, 4), 1.0 + step + rank)).square().sum().backward()
        norms.append(float(model.module[0].weight.grad.norm()))
        optimizer.step()
    (folder / f"norms{rank}.json").write_text(json.dumps(norms))
    monitor._end()
    config = {"wg_distribution": True, "append_output": ["Jan01_00-00-00", "Dec31_23-59-59"]}
    again = monitor_of(folder, "ddp", config)
    again.set_monitor(model, optimizer, start_iteration=2)
    optimizer.step()
    again._end()


@processes
def test_distributed_data_parallel(tmp_path: Path) -> None:
    launch(wrap, tmp_path)
    norms = json.loads((tmp_path / "norms0.json").read_text())
    assert norms == json.loads((tmp_path / "norms1.json").read_text())
    folders = [run_folder(tmp_path / "ddp", rank) for rank in (0, 1)]
    rows = read_rows(folders[0] / "grad_reduced_0-0.csv")[1:]
    assert rows[0][1] == "module.0.weight"
    assert float(rows[0][3]) == pytest.approx(norms[0], abs=1e-6)
    # What all ranks of a group have is written by the first.
    assert not (folders[1] / "grad_reduced_0-0.csv").exists()
    # Before the reduction each has its own.
    unreduced = [float(read_rows(folder / "grad_unreduced_0-0.csv")[-1][3]) for folder in folders]
    assert unreduced[0] != unreduced[1]
    # In the order of the hooks of torch's modules.
    inside = ["module.0", "module.1", "module.2"]
    for name, modules in (
        ("actv", [*inside, "module", ""]),
        ("actv_grad", ["", "module", *reversed(inside)]),  # no gradient leaves the wrapper
    ):
        rows = read_rows(folders[0] / f"{name}_0-0.csv")[1:]
        assert [row[1] for row in rows] == [
            f"{one}.{side}" for one in modules for side in ("input", "output")
        ]
    # Continued in the same folders.
    assert all((folder / "grad_reduced_2-2.csv").exists() for folder in folders)


def shard(rank: int, folder: Path) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    mesh = torch.distributed.init_device_mesh("cpu", (2,))
    config = {"wg_distribution": True, "param_distribution": True, "mv_distribution": True,
              "xy_distribution": True, "mg_direction": True, "ops": ["norm", "nans"]}  # fmt: skip
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    monitor = monitor_of(folder, "fsdp2", config)
    monitor.set_monitor(model, optimizer)
    for _ in range(2):
        model(torch.full((2, 4), 1.0 + rank)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    monitor._end()
    try:
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        old = FullyShardedDataParallel(plain, device_id=torch.device("cpu"), use_orig_params=True)
    except Exception as error:
        (folder / "fsdp1_missing").write_text(str(error))
        return
    optimizer = torch.optim.AdamW(old.parameters())
    monitor = monitor_of(folder, "fsdp1", config)
    monitor.set_monitor(old, optimizer)
    for _ in range(2):
        old(torch.full((2, 4), 1.0 + rank)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    monitor._end()


@pytest.mark.filterwarnings("ignore::FutureWarning")
@processes
def test_fully_sharded_data_parallel(tmp_path: Path) -> None:
    """Each rank records its shards: those of FSDP2 together make the whole."""
    launch(shard, tmp_path)
    folders = [run_folder(tmp_path / "fsdp2", rank) for rank in (0, 1)]
    for prefix in ("grad_reduced", "param_origin", "param_updated", "exp_avg", "other", "actv", "actv_grad"):
        for folder in folders:
            rows = read_rows(folder / f"{prefix}_1-1.csv")[1:]
            assert rows
            assert all(row[-3] != "nan" or prefix == "actv_grad" for row in rows)
    assert (tmp_path / "fsdp1_missing").exists() or (
        read_rows(run_folder(tmp_path / "fsdp1", 0) / "grad_unreduced_1-1.csv")[1:]
    )
