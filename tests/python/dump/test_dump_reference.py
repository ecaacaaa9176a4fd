# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""mindstudio-probe reads our dumps. Runs when MSPROBE_TEST_REFERENCE names a folder for its environment,
which is set up there when it is missing (about 2 GiB).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from dump_models import build, loss_of
from dump_support import captured, run_ranks

REPOSITORY = Path(__file__).resolve().parents[3]


def training(directory: Path, task: str) -> None:
    model = build("transformer")
    with captured(directory, model, task=task):
        loss_of(model, "transformer", 0).backward()


def sharded_training(directory: Path, task: str) -> None:
    """With the keys that mindstudio-probe does not know: "dtensor" and "recompute_of"."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    from torch.utils.checkpoint import checkpoint

    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    parallelize_module(model, init_device_mesh("cpu", (1,)), {"0": ColwiseParallel()})
    with captured(directory, model, task=task):
        checkpoint(model, torch.ones(2, 4, requires_grad=True), use_reentrant=True).sum().backward()
    dist.destroy_process_group()
    text = next(directory.rglob("dump.json")).read_text(encoding="utf-8")
    assert '"dtensor"' in text
    assert '"recompute_of"' in text


@pytest.mark.parametrize("work", [training, sharded_training])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_compare_and_graph_take_our_files(tmp_path, reference, task, work):
    folders = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run_ranks(work, tmp_path / name, task, ranks=1)
        folders.append(next((tmp_path / name).rglob("dump.json")).parent)
    compare = {"npu_path": str(folders[0] / "dump.json"), "bench_path": str(folders[1] / "dump.json")}
    compare["stack_path"] = str(folders[0] / "stack.json")
    graph = {"npu_path": str(folders[0]), "bench_path": str(folders[1])}
    for command, content, result in (("compare", compare, "*.xlsx"), ("graph", graph, "*.vis")):
        path = tmp_path / f"{command}.json"
        path.write_text(json.dumps({**content, "is_print_compare_log": False}))
        path.chmod(0o640)
        out = tmp_path / command
        done = subprocess.run(
            [reference, "-f", "pytorch", command, "-i", path, "-o", out],
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert list(out.glob(result)), done.stdout[-2000:]
