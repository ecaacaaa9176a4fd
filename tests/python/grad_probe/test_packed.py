# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients in one file for each rank: as much as in the files of mindstudio-probe, and once for replicas."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from msprobe import GradComparator, InvalidArgument, PrecisionDebugger, cli
from msprobe.grad_probe.export_command import export
from msprobe.grad_probe.keepers import keepers
from test_distributed import configure, launch
from torch import nn

GOLDEN = Path(__file__).parents[2] / "data" / "grad_probe"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def train(path, debugger_config):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    PrecisionDebugger(debugger_config)
    PrecisionDebugger.monitor(model)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 5)).square().sum().backward()
        optimizer.step()
    PrecisionDebugger._reset()
    return path


@pytest.mark.parametrize("level", ["L0", "L1", "L2"])
def test_it_is_the_record_of_the_existing_tool_in_one_file(write_config, tmp_path, level):
    folders = {
        layout: train(
            tmp_path / layout,
            write_config({"grad_level": level, "layout": layout}, dump_path=str(tmp_path / layout)),
        )
        for layout in ("npy", "packed")
    }
    assert [path.name for path in (folders["packed"] / "rank0").iterdir()] == ["gradients.msprobe"]
    export(folders["packed"], tmp_path / "exported", "npy")
    assert contents(tmp_path / "exported") == contents(folders["npy"])
    export(tmp_path / "exported", tmp_path / "again", "packed")
    assert contents(tmp_path / "again") == contents(folders["packed"])


def test_the_layout_is_that_of_the_existing_tool_unless_it_is_asked_for(write_config, tmp_path):
    train(tmp_path, write_config({}))
    assert (tmp_path / "probe/rank0/grad_summary_0.csv").exists()


def test_a_comparison_takes_any_layout_on_each_side(tmp_path):
    for side in ("l1_ranks_a", "l1_ranks_b"):
        assert export(GOLDEN / side, tmp_path / side, "packed") == {0: 3, 1: 3}
    expected = {}
    for number, (one, other) in enumerate([(GOLDEN, GOLDEN), (tmp_path, tmp_path), (GOLDEN, tmp_path)]):
        out = tmp_path / f"out{number}"
        GradComparator.compare_distributed(one / "l1_ranks_a", other / "l1_ranks_b", out, pictures=False)
        found = {path: content for path, content in contents(out).items() if path.suffix == ".csv"}
        assert found == (expected := expected or found)
    result = GradComparator.compare(
        tmp_path / "l1_ranks_a/rank1", GOLDEN / "l1_ranks_b/rank1", tmp_path / "o"
    )
    assert result.verdict.ranks[0].rank == 1


class TestCommand:
    def test_both_ways(self, tmp_path, capsys):
        packed, back = tmp_path / "packed", tmp_path / "back"
        words = ["grad_export", str(GOLDEN / "l1_a")]
        assert cli.main([*words, "-o", str(packed), "--layout", "packed", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["ranks"] == {"0": 4}
        assert cli.main(["grad_export", str(packed), "-o", str(back)]) == 0
        assert capsys.readouterr().out == f"{back}: 1 rank, 4 steps\n"
        assert contents(back / "rank0") == contents(GOLDEN / "l1_a/rank0")

    def test_what_is_no_record_is_refused(self, tmp_path, capsys):
        assert cli.main(["grad_export", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
        assert "expected a gradient record, with folders rank0" in capsys.readouterr().err
        (tmp_path / "rank0").mkdir()
        (tmp_path / "rank0/gradients.msprobe").write_bytes(b"no record")
        assert cli.main(["grad_export", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
        assert "gradients.msprobe: byte 0: expected a packed gradient record" in capsys.readouterr().err
        assert not (tmp_path / "out/rank0").exists()


def test_a_record_of_the_other_layout_is_left_alone(write_config, tmp_path):
    train(tmp_path, write_config({}))
    PrecisionDebugger(write_config({"layout": "packed"}))
    with pytest.raises(InvalidArgument, match="holds a record of the other layout"):
        PrecisionDebugger.monitor(nn.Linear(2, 2))
    PrecisionDebugger._reset()


def train_replicas(rank, tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    for layout in ("npy", "packed"):
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(nn.Linear(40, 30))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        PrecisionDebugger(configure(tmp_path, layout, grad_probe={"layout": layout}))
        PrecisionDebugger.monitor(model)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 40) + rank).square().sum().backward()
            optimizer.step()
        PrecisionDebugger._reset()
    names = {"module.weight": 0, "module.bias": 0}
    assert keepers([model], model.named_parameters(), ()) == names
    assert keepers([model], model.named_parameters(), (1,)) == {}  # rank 1 is recorded alone
    assert keepers([model.module], model.module.named_parameters(), ()) == {}
    mesh = init_device_mesh("cpu", (2,))
    # Without a collective: a thread of gloo that still holds its tensors ends a process that ends just then.
    tensors = {
        kind: nn.Parameter(DTensor.from_local(torch.ones(rows, 4), mesh, [placement], run_check=False))
        for kind, rows, placement in (("whole", 4, Replicate()), ("part", 2, Shard(0)))
    }
    assert keepers([], tensors.items(), ()) == {"whole": 0}


def test_replicas_keep_their_signs_once(tmp_path):
    launch(train_replicas, tmp_path)
    sizes = [(tmp_path / f"packed/rank{rank}/gradients.msprobe").stat().st_size for rank in (0, 1)]
    assert sizes[0] - sizes[1] == 2 * (150 + 4)  # bits of 40 x 30 weights and 30 biases in two steps
    export(tmp_path / "packed", tmp_path / "exported", "npy")
    assert contents(tmp_path / "exported") == contents(tmp_path / "npy")
    os.remove(tmp_path / "packed/rank0/gradients.msprobe")
    result = GradComparator.compare(
        tmp_path / "packed/rank1", tmp_path / "npy/rank1", tmp_path / "out", pictures=False
    )
    assert result.verdict.verdict == "incomplete"
    assert "rank0" in result.verdict.findings[0].reason
