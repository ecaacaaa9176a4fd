# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What TrainerMon hands out and writes: names, targets and formats."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe.native import UnsupportedError
from torch import nn
from trainer_mon_support import rows_of
from training_sample import make_training, read_rows, train

# ---- names and targets


def test_two_stacks_keep_names_apart(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(4, 4)])})
            self.decoder = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(4, 4)])})

        def forward(self, x: Any) -> Any:
            return self.decoder["layers"][0](self.encoder["layers"][0](x))

    net = Two()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make_monitor({"xy_distribution": True, "wg_distribution": True}).set_monitor(net, optimizer)
    net(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    names = {name for name, _ in rows_of(run_folder(), "grad_reduced")}
    assert names == {"0.weight", "0.bias", "decoder.layers.0.weight", "decoder.layers.0.bias"}
    modules = {key[0] for key in rows_of(run_folder(), "actv")}
    assert {"0.input", "decoder.layers.0.input"} <= modules


def test_a_target_that_is_nothing_is_told_with_what_comes_close(
    make_monitor: Callable[..., Any], output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net, optimizer = make_training()
    make_monitor({"targets": {"layer.0": {}, "fc1": {}}, "xy_distribution": True}).set_monitor(net, optimizer)
    assert 'nothing in the model is called "layer.0"' in caplog.text
    assert "layers.0" in caplog.text
    assert '"fc1"' not in caplog.text


def test_chunks_of_a_pipeline_are_stages(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    chunks = [nn.Linear(4, 4), nn.Linear(4, 1)]
    optimizer = torch.optim.SGD([p for chunk in chunks for p in chunk.parameters()], lr=0.1)
    make_monitor({"wg_distribution": True, "targets": {"1:weight": {}, "bias": {}}}).set_monitor(
        chunks, optimizer
    )
    chunks[1](chunks[0](torch.randn(2, 4))).sum().backward()
    optimizer.step()
    _, *rows = read_rows(run_folder() / "grad_reduced_0-0.csv")
    assert [row[:2] for row in rows] == [["0", "bias"], ["1", "weight"], ["1", "bias"]]


def test_several_tensors_have_numbers(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Any, y: Any, flag: bool, *, z: Any) -> Any:
            return self.fc(x) + z, [y], y * 2

    net = Several()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make_monitor({"xy_distribution": True, "ops": ["mean"]}).set_monitor(net, optimizer)
    outputs = net(
        torch.ones(2, 4), torch.full((2, 4), 2.0, requires_grad=True), True, z=torch.full((2, 4), 3.0)
    )
    (outputs[0].sum() + outputs[2].sum()).backward()
    optimizer.step()
    rows = rows_of(run_folder(), "actv")
    assert [float(rows[f".input_{i}", "0", "0"][0]) for i in range(3)] == [1, 2, 3]
    assert float(rows[".output_2", "0", "0"][0]) == 4
    assert rows[".output_1", "0", "0"][0] == "nan"
    gradients = rows_of(run_folder(), "actv_grad")
    assert float(gradients[".input_1", "0", "0"][0]) == 2
    assert gradients[".input_0", "0", "0"][0] == "nan"


# ---- formats


def test_format_api_hands_the_numbers_out(make_monitor: Callable[..., Any], output: Path) -> None:
    net, optimizer = make_training()
    monitor = make_monitor(
        {
            "targets": {"fc1": {}},
            "wg_distribution": True,
            "xy_distribution": True,
            "format": "api",
            "ops": ["norm"],
        }
    )
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    seen: list[Any] = []

    def before(step: int) -> None:
        actv, actv_grad = monitor.generate_xy_metrics()
        assert list(actv) == [f"0:fc1.{side}:{m}/rank0/actv" for m in (0, 1) for side in ("input", "output")]
        assert actv["0:fc1.input:0/rank0/actv"]["shape"] == torch.Size([3, 4])
        assert actv["0:fc1.input:0/rank0/actv"]["dtype"] is torch.float32
        assert torch.isnan(actv_grad["0:fc1.input:0/rank0/actv_grad"]["norm"])
        seen.append(float(net.fc1.weight.grad.norm()))

    def after(step: int) -> None:
        reduced, unreduced = monitor.generate_wgrad_metrics()
        assert (reduced, unreduced) == monitor.generate_wgrad_metrics({})
        assert float(reduced["0:fc1.weight/rank0/post_grad"]["norm"]) == pytest.approx(seen[-1])
        assert float(unreduced["0:fc1.weight/rank0/acc_grad"]["norm"]) == pytest.approx(seen[-1])

    train(net, optimizer, before=before, after=after)
    assert not output.exists()


def test_files_of_tensorboard_need_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from msprobe.pytorch.monitor.csv2tb import csv2tensorboard_by_step

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    folder = tmp_path / "Dec03_21-34-40-rank0-0a1b2c3d"
    folder.mkdir()
    (folder / "grad_reduced_0-0.csv").write_text("vpp_stage,name,step,norm\n0,w,0,1.5\n")
    with pytest.raises(UnsupportedError, match="pip install tensorboard"):
        csv2tensorboard_by_step(str(tmp_path), data_type_list=["grad_reduced"])


def test_format_tensorboard(make_monitor: Callable[..., Any], run_folder: Callable[[], Path]) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    net, optimizer = make_training()
    monitor = make_monitor(
        {
            "targets": {"fc1": {}}, "wg_distribution": True, "xy_distribution": True, "mv_distribution": True,
            "ur_distribution": True, "format": "tensorboard", "ops": ["norm", "max"],
        }
    )  # fmt: skip
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    norms = []

    def before(step: int) -> None:
        norms.append(float(net.fc1.weight.grad.norm()))
        monitor.adhoc_check(torch.tensor([3.0, 4.0]), "mine", "x", [], ["norm", "mean"])

    train(net, optimizer, before=before)
    monitor.summary_writer.close()
    events = EventAccumulator(str(run_folder()))
    events.Reload()
    points = events.Scalars("0:fc1.weight/rank0/post_grad_norm")
    assert [point.step for point in points] == [0, 1, 2, 3]
    assert [point.value for point in points] == pytest.approx(norms, rel=1e-5)
    tags = events.Tags()
    assert "0:fc1.input:1/rank0/actv_max" in tags["scalars"]
    assert not any(tag.endswith(("_shape", "_dtype")) for tag in tags["scalars"])
    assert set(tags["images"]) == {
        f"0:fc1.{name}/rank0/{kind}" for name in ("weight", "bias") for kind in ("adam_update", "adam_ratio")
    }
    assert [point.value for point in events.Scalars("mine/x_norm")] == [5.0] * 4


def test_statistics_can_be_changed_on_the_way(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    monitor = make_monitor({"wg_distribution": True, "ops": ["norm"]})
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)

    def after(step: int) -> None:
        if step == 0:
            monitor.ops = ["max", "unknown"]

    train(net, optimizer, steps=2, after=after)
    assert monitor.ops == ["max", "shape", "dtype"]
    assert read_rows(run_folder() / "grad_reduced_0-0.csv")[0][3:] == ["norm", "shape", "dtype"]
    assert read_rows(run_folder() / "grad_reduced_1-1.csv")[0][3:] == ["max", "shape", "dtype"]


def test_statistics_that_change_behind_backward_are_those_of_the_whole_step(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    monitor = make_monitor({"wg_distribution": True, "ops": ["norm"]})
    monitor.set_monitor(net, optimizer, grad_acc_steps=1)
    for step in range(2):
        net(torch.ones(2, 4)).sum().backward()
        if step == 1:
            monitor.ops = ["max"]
        optimizer.step()
    for kind in ("unreduced", "reduced"):
        header, *rows = read_rows(run_folder() / f"grad_{kind}_1-1.csv")
        assert header[3:] == ["max", "shape", "dtype"]
        assert len(rows) == len(list(net.parameters()))


def test_each_micro_step_has_its_gradients_though_an_output_is_left_unused(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    """Neither the input nor the last state of the GRU gets a gradient; numbers of mindstudio-probe."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(3, 4, batch_first=True)
            self.lin = nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            return self.lin(self.gru(x)[0][:, -1])

    torch.manual_seed(0)
    net = Last()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make_monitor({"xy_distribution": True, "all_xy": True, "ops": ["norm"]}).set_monitor(
        net, optimizer, grad_acc_steps=2
    )
    for micro in range(2):
        net(torch.randn(2, 3, 3) * (micro + 1)).sum().backward()
    optimizer.step()
    rows = rows_of(run_folder(), "actv_grad")
    names = (".input", ".output", "lin.input", "lin.output", "gru.input", "gru.output_0", "gru.output_1")
    expected = ("nan", "1.414214", "0.522203", "1.414214", "nan", "0.522203", "nan")
    for micro in "01":
        assert [rows[name, "0", micro][0] for name in names] == list(expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_part_of_the_model_is_no_obstacle(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net = nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make_monitor({"stack_info": True, "print_struct": False, "xy_distribution": True}).set_monitor(
        net, optimizer
    )
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    assert rows_of(run_folder(), "actv")["1.output", "0", "0"]
    assert "1," in (run_folder() / "stack_info.csv").read_text()
