# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Collectives in the records, and models that are spread over processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dump_support import LEVELS, Dump, debugger, run_ranks


def collectives(directory: Path) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    probe = debugger(directory, level="L1")
    probe.start()
    total = torch.full((3,), float(rank + 1))
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    work.wait()
    sent, received = torch.full((2,), float(rank)), torch.zeros(2)
    if rank == 0:
        dist.send(torch.ones(2), 1)
    else:
        dist.recv(torch.zeros(2), 0)
    operations = [
        dist.P2POp(dist.isend, sent, 1 - rank),
        dist.P2POp(dist.irecv, received, 1 - rank),
    ]
    for handle in dist.batch_isend_irecv(operations):
        handle.wait()
    parts = [torch.zeros(3) for _ in range(2)]
    dist.all_gather(parts, torch.full((3,), float(rank)))
    dist.barrier()
    probe.stop()
    probe.step()
    dist.destroy_process_group()
    return {
        "total": total.tolist(),
        "received": received.tolist(),
        "parts": [part.tolist() for part in parts],
    }


def test_collectives_behind_the_training_and_point_to_point(tmp_path):
    found = run_ranks(collectives, tmp_path)
    for rank in range(2):
        assert found[rank] == {
            "total": [3.0] * 3,
            "received": [1.0 - rank] * 2,
            "parts": [[0.0] * 3, [1.0] * 3],
        }
        data = Dump(tmp_path, 0, rank).check().data
        reduce = data["Distributed.all_reduce.0.forward"]
        assert reduce["input_args"][0]["Max"] == rank + 1
        assert reduce["output"][0]["Max"] == 3  # waited for
        assert data["Distributed.all_gather.0.forward"]["output"][0][1]["Max"] == 1
        operations = data["Distributed.batch_isend_irecv.0.forward"]["input_args"][0]
        assert [operation["op"] for operation in operations] == ["isend", "irecv"]


def data_parallel(directory: Path, kind: str, level: str) -> tuple[list[bytes], list[bytes]]:
    import torch
    import torch.distributed as dist
    from dump_models import bits
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")

    def work(probe: Any = None) -> list[bytes]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 2))
        if kind == "ddp":
            wrapped: Any = DistributedDataParallel(model)
        else:
            from torch.distributed.fsdp import fully_shard

            fully_shard(model[0])  # two groups of parameters
            wrapped = fully_shard(model)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        x = torch.full((2, 4), float(dist.get_rank() + 1))
        seen = []
        for _ in range(3):
            if probe is not None:
                probe.start(wrapped)
            optimizer.zero_grad()
            loss = wrapped(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            if probe is not None:
                probe.stop()
                probe.step()
            local = [p.grad if kind == "ddp" else p.grad.to_local() for p in wrapped.parameters()]
            seen += [bits(loss), *(bits(gradient) for gradient in local)]
        return seen

    without = work()
    within = work(debugger(directory, level=level))
    dist.destroy_process_group()
    return without, within


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_data_parallel(tmp_path, kind, level):
    for rank, (without, within) in enumerate(run_ranks(data_parallel, tmp_path, kind, level, timeout=150)):
        assert within == without
        for step in range(3):
            data = Dump(tmp_path, step, rank).check().data
            if level != "L1":
                prefix = "Module.module." if kind == "ddp" else "Module."
                linear = next(
                    name for name in data if name.startswith(prefix + "0.") and ".forward.0" in name
                )
                assert data[linear]["output"][0]["shape"] == [2, 4]
                backward = data[linear.replace(".forward", ".backward")]
                assert backward["input"][0]["shape"] == [2, 4]
            else:
                assert data["Functional.linear.1.backward"]["output"][0]["shape"] == [2, 4]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_collectives_of_fsdp2_are_recorded_when_they_are_complete(tmp_path, level):
    import torch

    run_ranks(data_parallel, tmp_path, "fsdp2", level, timeout=150)
    torch.manual_seed(0)
    first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    for rank in range(2):
        data = Dump(tmp_path, 0, rank).check().data
        gathered = [data[f"Distributed.all_gather_into_tensor.{index}.forward"] for index in range(2)]
        for record, layer in zip(gathered, (last, first)):
            whole = torch.cat([parameter.detach().flatten() for parameter in layer.parameters()])
            output, own = record["output"][:2]
            assert (output["shape"], own["shape"]) == ([len(whole)], [len(whole) // 2])
            assert output["Max"] == pytest.approx(whole.max().item())
            assert output["Norm"] == pytest.approx(whole.norm().item())
        reduced = data["Distributed.reduce_scatter_tensor.0.forward"]
        assert reduced["output"][0]["shape"] == [5]
        assert "Distributed.all_gather_single.0.forward" not in data  # what the newest torch calls it


def handles(directory: Path) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    probe = debugger(directory, level="L1")
    probe.start()
    whole = torch.zeros(4)
    work = dist.all_gather_into_tensor(whole, torch.full((2,), dist.get_rank() + 1.0), async_op=True)
    is_work = isinstance(work, dist.distributed_c10d.Work)  # FSDP2 asks so, and waits for nothing else
    work.wait()
    probe.stop()
    probe.step()
    dist.destroy_process_group()
    return {"is_work": is_work, "whole": whole.tolist()}


def test_a_handle_is_a_handle_and_a_renamed_function_has_one_record(tmp_path):
    found = run_ranks(handles, tmp_path)
    for rank in range(2):
        assert found[rank] == {"is_work": True, "whole": [1.0, 1.0, 2.0, 2.0]}
        data = Dump(tmp_path, 0, rank).check().data
        assert [name for name in data if name.startswith("Distributed")] == [
            "Distributed.all_gather_into_tensor.0.forward"
        ]
        assert data["Distributed.all_gather_into_tensor.0.forward"]["output"][0]["Max"] == 2
