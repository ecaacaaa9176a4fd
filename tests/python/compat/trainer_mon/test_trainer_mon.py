# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What TrainerMon does to and for a training."""

from __future__ import annotations

import gc
import json
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe import InvalidArgument
from torch import nn
from trainer_mon_support import rows_of
from training_sample import DATA, Net, make_training, read_rows, train

ALL = {
    "targets": {}, "xy_distribution": True, "wg_distribution": True, "mv_distribution": True,
    "param_distribution": True, "mg_direction": True, "ops": ["min", "max", "mean", "norm", "nans", "zeros"],
}  # fmt: skip

# ---- the training is the same


@pytest.mark.parametrize("output_format", ["csv", "api", "tensorboard"])
def test_results_are_bit_equal_with_and_without(
    output_format: str, make_monitor: Callable[..., Any], output: Path
) -> None:
    if output_format == "tensorboard":
        pytest.importorskip("tensorboard")
    net, optimizer = make_training()
    losses = train(net, optimizer)
    random = torch.get_rng_state()
    net2, optimizer2 = make_training()
    make_monitor({**ALL, "format": output_format}).set_monitor(net2, optimizer2, grad_acc_steps=2)
    assert train(net2, optimizer2) == losses
    assert torch.equal(torch.get_rng_state(), random)
    for a, b in zip(net.parameters(), net2.parameters()):
        assert torch.equal(a, b)


def test_nothing_is_hooked_behind_the_last_step(make_monitor: Callable[..., Any], output: Path) -> None:
    call = nn.Module._call_impl.__code__
    net, optimizer = make_training()
    monitor = make_monitor({**ALL, "collect_times": 2})
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    assert nn.Module._call_impl.__code__ is not call
    train(net, optimizer, steps=3)
    assert nn.Module._call_impl.__code__ is call
    for module in net.modules():
        assert not module._forward_hooks
        assert not module._backward_hooks
    assert all(not parameter._post_accumulate_grad_hooks for parameter in net.parameters())


def test_between_recorded_steps_modules_are_not_hooked(
    make_monitor: Callable[..., Any], output: Path
) -> None:
    call = nn.Module._call_impl.__code__
    seen = []
    net, optimizer = make_training()
    monitor = make_monitor({**ALL, "step_interval": 3})
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    train(net, optimizer, steps=5, before=lambda step: seen.append(nn.Module._call_impl.__code__ is not call))
    assert seen == [True, False, False, True, False]


def test_in_place_modules_and_views_go_on(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make_monitor({"xy_distribution": True, "ops": ["min", "norm"]}).set_monitor(net, optimizer)
    x = torch.randn(3, 4)
    net(x).sum().backward()
    optimizer.step()
    rows = rows_of(run_folder(), "actv")
    # What the module was given, not what it made of it.
    assert float(rows["1.input", "0", "0"][0]) < 0
    assert float(rows["1.output", "0", "0"][0]) == 0


@pytest.mark.parametrize(("outside", "gradient"), [(False, 3.0), (True, 7.0)])
def test_the_gradient_of_an_output_that_its_module_uses_further_is_the_whole_one(
    outside: bool, gradient: float, make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    class Uses(nn.Module):
        def forward(self, x: Any) -> Any:
            middle = x * 2
            return (middle * 3).sum(), middle

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))
            self.uses = Uses()

        def forward(self, x: Any, *, outside: bool) -> Any:
            total, middle = self.uses(x * self.scale)
            return total + 4 * middle.sum() if outside else total

    net = Both()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = make_monitor({"xy_distribution": True, "all_xy": True, "ops": ["min", "max"]})
    monitor.set_monitor(net, optimizer)
    net(torch.ones(4), outside=outside).backward()
    optimizer.step()
    rows = rows_of(run_folder(), "actv_grad")
    assert [float(number) for number in rows["uses.output_1", "0", "0"][:2]] == [gradient, gradient]


def test_checkpointed_modules_are_counted_once(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Net):
        def forward(self, x: Any) -> Any:
            x = self.fc1(x)
            for block in self.layers:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
            return self.fc2(x)

    records = []
    for reentrant in (None, False, True):
        torch.manual_seed(0)
        net = Net() if reentrant is None else Checkpointed()
        net.reentrant = reentrant
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        monitor = make_monitor(ALL)
        monitor.set_monitor(net, optimizer, grad_acc_steps=2)
        train(net, optimizer, steps=2)
        folder = monitor._folder
        records.append({prefix: rows_of(folder, prefix) for prefix in ("actv", "actv_grad", "grad_reduced")})
        monitor._end()
    plain, non_reentrant, reentrant_record = records
    assert non_reentrant == plain
    assert reentrant_record["actv"] == plain["actv"]
    assert reentrant_record["grad_reduced"] == plain["grad_reduced"]
    assert set(reentrant_record["actv_grad"]) == set(plain["actv_grad"])


def test_evaluation_is_not_recorded(make_monitor: Callable[..., Any], run_folder: Callable[[], Path]) -> None:
    net, optimizer = make_training()
    make_monitor({**ALL}).set_monitor(net, optimizer, grad_acc_steps=2)

    def evaluate(step: int) -> None:
        net.eval()
        net(torch.full((3, 4), 100.0))
        net.train()

    train(net, optimizer, steps=2, after=evaluate)
    assert all(abs(float(row[1])) < 50 for row in rows_of(run_folder(), "actv").values())


# ---- steps and optimizers


def test_schedulers_before_and_behind_the_monitor_go_on(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    first = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    make_monitor({"wg_distribution": True}).set_monitor(net, optimizer, grad_acc_steps=2)
    second = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    train(net, optimizer, steps=3, after=lambda step: (first.step(), second.step()))
    assert {step for _, step in rows_of(run_folder(), "grad_reduced")} == {"0", "1", "2"}


def test_a_closure_is_evaluated_before_gradients_are_read(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    make_monitor({"wg_distribution": True, "ops": ["norm"]}).set_monitor(net, optimizer)
    norms = []
    for _ in range(3):
        x = torch.randn(3, 4)

        def closure(x: Any = x) -> Any:
            optimizer.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            norms.append(float(net.fc1.weight.grad.norm()))
            return loss

        optimizer.step(closure)
    rows = rows_of(run_folder(), "grad_reduced")
    for step, norm in enumerate(norms):
        assert float(rows["fc1.weight", str(step)][0]) == pytest.approx(norm, abs=1e-5)


def test_another_optimizer_of_the_same_class_makes_no_steps(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    other = nn.Linear(2, 2)
    other_optimizer = torch.optim.Adam(other.parameters())
    make_monitor({"wg_distribution": True}).set_monitor(net, optimizer, grad_acc_steps=2)

    def also(step: int) -> None:
        other(torch.randn(1, 2)).sum().backward()
        other_optimizer.step()

    train(net, optimizer, steps=2, after=also)
    assert {step for _, step in rows_of(run_folder(), "grad_reduced")} == {"0", "1"}


def test_a_step_that_a_scaler_leaves_out_is_none(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    make_monitor({"wg_distribution": True}).set_monitor(net, optimizer)
    for step in range(4):
        loss = net(torch.randn(3, 4)).square().sum() * (float("inf") if step == 1 else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    rows = rows_of(run_folder(), "grad_reduced")
    assert {step for _, step in rows} == {"0", "1", "2"}
    assert all(row[0] not in ("inf", "nan") for row in rows.values())


def test_start_iteration_numbers_the_steps(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    net, optimizer = make_training()
    make_monitor({"wg_distribution": True, "start_step": 12, "step_interval": 2}).set_monitor(
        net, optimizer, grad_acc_steps=2, start_iteration=10
    )
    train(net, optimizer, steps=6)
    assert {step for _, step in rows_of(run_folder(), "grad_reduced")} == {"12", "14"}


def test_the_old_names(make_monitor: Callable[..., Any], run_folder: Callable[[], Path]) -> None:
    net, optimizer = make_training()
    monitor = make_monitor({"wg_distribution": True}, opt_ty="anything")
    monitor.monitor_gnorm_with_ad(net)  # an error in the log
    monitor.set_wrapped_optimizer(optimizer)
    monitor.monitor_gnorm_with_ad(net, grad_acc_steps=2)
    train(net, optimizer, steps=1)
    assert rows_of(run_folder(), "grad_reduced")


def test_arguments_that_are_no_model_or_optimizer(make_monitor: Callable[..., Any], output: Path) -> None:
    net, optimizer = make_training()
    monitor = make_monitor({})
    with pytest.raises(InvalidArgument, match=r"torch\.nn\.Module.*found str"):
        monitor.set_monitor("net", optimizer)
    with pytest.raises(InvalidArgument, match="method step"):
        monitor.set_monitor(net, None)


def test_numbers_of_set_monitor_that_are_wrong(
    make_monitor: Callable[..., Any], output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net, optimizer = make_training()
    make_monitor({}).set_monitor(net, optimizer, grad_acc_steps=0, start_iteration="1")
    assert "grad_acc_steps" in caplog.text
    assert "start_iteration" in caplog.text


def test_models_are_not_kept_alive(make_monitor: Callable[..., Any], output: Path) -> None:
    net, optimizer = make_training()
    monitor = make_monitor({**ALL, "collect_times": 1})
    monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    train(net, optimizer, steps=1)
    monitor.set_monitor(*make_training(), grad_acc_steps=2)
    kept = weakref.ref(net)
    del net, optimizer
    gc.collect()
    assert kept() is None


# ---- beginning and end on the way


def test_the_dynamic_sample_is_reproduced(
    make_monitor: Callable[..., Any],
    run_folder: Callable[[], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DYNAMIC_MONITOR", "True")
    config = json.loads((DATA / "dynamic/config.json").read_text())
    net, optimizer = make_training()
    make_monitor({**config, "dynamic_on": True}).set_monitor(net, optimizer, grad_acc_steps=2)
    train(net, optimizer)
    assert json.loads((tmp_path / "config.json").read_text()) == config
    folder = run_folder()
    expected = {path.name for path in (DATA / "dynamic").glob("*.csv")}
    assert {path.name for path in folder.iterdir()} == expected
    for name in expected:
        ours, theirs = read_rows(folder / name), read_rows(DATA / "dynamic" / name)
        assert [row[:3] for row in ours] == [row[:3] for row in theirs]
        assert [float(row[3]) for row in ours[1:]] == pytest.approx(
            [float(row[3]) for row in theirs[1:]], abs=2e-6
        )


def test_a_changed_file_begins_anew_and_a_wrong_one_is_ignored(
    make_monitor: Callable[..., Any],
    run_folder: Callable[[], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("DYNAMIC_MONITOR", "true")
    net, optimizer = make_training()
    make_monitor({"wg_distribution": True, "dynamic_on": False}).set_monitor(net, optimizer, grad_acc_steps=2)
    path = tmp_path / "config.json"

    def change(content: Any, time: int) -> None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        os.utime(path, (time, time))

    def before(step: int) -> None:
        if step == 1:
            change("{", 1000)
        if step == 2:
            change({"wg_distribution": 1, "dynamic_on": True}, 2000)
        if step == 3:
            change(
                {"wg_distribution": True, "dynamic_on": True, "targets": {"fc1": {}}, "start_step": 99}, 3000
            )
        if step == 5:
            change(
                {"wg_distribution": True, "dynamic_on": True, "targets": {"fc2": {}}, "collect_times": 1},
                4000,
            )
        if step == 7:
            path.rename(path.with_name("away.json"))

    train(net, optimizer, steps=11, before=before)
    assert caplog.text.count("No such file") == 1  # not at every step
    path.with_name("away.json").rename(path)
    assert "expected JSON" in caplog.text
    assert "wg_distribution" in caplog.text
    rows = rows_of(run_folder(), "grad_reduced")
    assert {step for name, step in rows if name == "fc1.weight"} == {"4", "5"}
    assert {step for name, step in rows if name == "fc2.weight"} == {"6"}
    assert json.loads(path.read_text())["dynamic_on"] is False


# ---- faults


def test_module_ranks_without_processes_write_nothing(
    make_monitor: Callable[..., Any], output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net, optimizer = make_training()
    make_monitor({**ALL, "module_ranks": [0]}).set_monitor(net, optimizer, grad_acc_steps=2)
    train(net, optimizer, steps=1)
    assert "module_ranks" in caplog.text
    assert not output.exists()


def test_a_folder_that_goes_away_comes_back(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    import shutil

    net, optimizer = make_training()
    make_monitor(ALL).set_monitor(net, optimizer, grad_acc_steps=2)
    train(net, optimizer, steps=3, after=lambda step: shutil.rmtree(run_folder()) if step == 1 else None)
    assert {key[1] for key in rows_of(run_folder(), "grad_reduced")} == {"2"}


def test_a_full_disk_leaves_whole_rows_and_training_goes_on(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path], caplog: pytest.LogCaptureFixture
) -> None:
    import resource
    import signal

    net, optimizer = make_training()
    make_monitor({**ALL, "step_count_per_record": 100}).set_monitor(net, optimizer, grad_acc_steps=2)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        train(net, optimizer, steps=1)
        size = (run_folder() / "actv_0-99.csv").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
        losses = train(net, optimizer, steps=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    assert len(losses) == 6
    assert (run_folder() / "actv_0-99.csv").stat().st_size == size
    assert (
        sum("cannot write" in record.message and "actv_0" in record.message for record in caplog.records) == 1
    )


def test_half_a_line_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    from msprobe.files.append_file import append_lines

    path = tmp_path / "a.csv"
    append_lines(path, "1,2\n", "a,b\n")
    with path.open("a") as file:
        file.write("3,")
    append_lines(path, "5,6\n", "a,b\n")
    assert path.read_text() == "a,b\n1,2\n5,6\n"


def test_tensors_that_cannot_be_measured_do_no_harm(
    make_monitor: Callable[..., Any], run_folder: Callable[[], Path]
) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Any, other: Any) -> Any:
            return self.fc(x), other

    net = Odd()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make_monitor({"xy_distribution": True, "ops": ["min", "norm"]}).set_monitor(net, optimizer)
    for other in (torch.eye(3).to_sparse(), torch.empty(0), torch.empty(2, device="meta"), {"a": 1}):
        net(torch.randn(2, 4), other)[0].sum().backward()
        optimizer.step()
    rows = rows_of(run_folder(), "actv")
    assert rows[".output_1", "0", "0"] == ["nan", "nan", "[3, 3]", "torch.float32"]
    assert rows[".output_1", "1", "0"] == ["nan", "0.0", "[0]", "torch.float32"]
    assert rows[".output_1", "2", "0"][2] == "[2]"
    assert rows[".output_1", "3", "0"] == ["nan"] * 4
    assert rows[".output_0", "3", "0"][0] != "nan"
