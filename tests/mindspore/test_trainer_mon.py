# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TrainerMon with the real MindSpore: its files, and that it changes nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from msprobe.mindspore import TrainerMon, seed_all
from msprobe.native import InvalidArgument
from small_cells import Net

EVERYTHING = {
    "targets": {"fc1": {}, "fc2": {}},
    "ops": ["norm", "min", "max", "mean", "zeros", "nans", "shape", "dtype"],
    **dict.fromkeys(
        ("xy_distribution", "wg_distribution", "mv_distribution", "param_distribution", "all_xy"), True
    ),
}


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))


def train(config: dict[str, Any] | None, steps: int = 2) -> tuple[bytes, list[list[Any]]]:
    """The weights that the training leaves, and the gradients of each step."""
    seed_all()
    net = Net()
    for parameter in net.trainable_params():
        numbers = np.sin(np.arange(parameter.size) + len(parameter.name))
        parameter.set_data(Tensor(numbers.reshape(parameter.shape).astype("float32")))
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    if config is not None:
        Path("monitor.json").write_text(json.dumps(config))
        TrainerMon("monitor.json").set_monitor(net, optimizer)
    x = Tensor(np.cos(np.arange(12)).reshape(3, 4).astype("float32"))
    differentiated = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    seen = []
    for _ in range(steps):
        _, gradients = differentiated(x)
        optimizer(gradients)
        seen.append([gradient.asnumpy() for gradient in gradients])
    return b"".join(parameter.asnumpy().tobytes() for parameter in net.trainable_params()), seen


def table(folder: Path, name: str) -> list[dict[str, str]]:
    (path,) = folder.glob(f"out/*-rank0-*/{name}.csv")
    return list(csv.DictReader(path.read_text().splitlines()))


def test_every_file_is_there_and_the_training_is_the_same(tmp_path: Path) -> None:
    plain, _ = train(None)
    watched, gradients = train(EVERYTHING)
    assert watched == plain
    names = {path.name for path in tmp_path.glob("out/*/*.csv")}
    tasks = ("actv", "actv_grad", "grad_unreduced", "grad_reduced", "exp_avg", "exp_avg_sq", "param_origin",
             "param_updated")  # fmt: skip
    assert names == {f"{task}_{step}-{step}.csv" for task in tasks for step in (0, 1)}
    reduced = table(tmp_path, "grad_reduced_1-1")
    assert [row["name"] for row in reduced] == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert float(reduced[0]["norm"]) == pytest.approx(float(np.linalg.norm(gradients[1][0])), rel=1e-4)
    assert reduced[0]["shape"] == "[6, 4]"
    assert (reduced[0]["vpp_stage"], reduced[0]["step"], reduced[0]["dtype"]) == ("0", "1", "Float32")
    before, after = (table(tmp_path, f"param_{name}_0-0") for name in ("origin", "updated"))
    assert before[0]["norm"] != after[0]["norm"]
    assert table(tmp_path, "param_origin_1-1")[0]["norm"] == after[0]["norm"]
    moments = table(tmp_path, "exp_avg_1-1")  # 0.1 times the gradient of step 0
    assert float(moments[0]["norm"]) == pytest.approx(0.1 * float(np.linalg.norm(gradients[0][0])), rel=1e-3)
    calls = {row["name"]: row for row in table(tmp_path, "actv_0-0")}
    assert calls["fc1.input"]["shape"] == "[3, 4]"
    assert calls["fc2.output"]["micro_step"] == "0"
    of_output = {row["name"]: row for row in table(tmp_path, "actv_grad_0-0")}["fc2.output"]
    assert float(of_output["max"]) == float(of_output["min"]) == 1.0  # of a sum


def test_targets_steps_and_files_are_those_of_the_configuration(tmp_path: Path) -> None:
    train(
        {
            "targets": {"fc2": {}},
            "ops": ["norm"],
            "wg_distribution": True,
            "start_step": 1,
            "step_interval": 2,
            "collect_times": 2,
            "step_count_per_record": 4,
        },
        steps=8,
    )
    rows = table(tmp_path, "grad_reduced_0-3")
    assert {row["name"] for row in rows} == {"fc2.weight", "fc2.bias"}
    assert [row["step"] for row in rows] == ["1", "1", "3", "3"]
    assert not list(tmp_path.glob("out/*/*_4-7.csv"))


def test_a_scalar_has_its_value(tmp_path: Path) -> None:
    class Scaled(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.scale = ms.Parameter(Tensor(1.5, ms.float16), name="scale")

        def construct(self, x: Any) -> Any:
            return x * self.scale

    net = Scaled()
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    Path("monitor.json").write_text(json.dumps({"ops": ["id", "mean"], "param_distribution": True}))
    TrainerMon("monitor.json").set_monitor(net, optimizer)
    optimizer((Tensor(1.0, ms.float16),))
    for name, value in (("param_origin", "1.5"), ("param_updated", "1.0")):
        assert table(tmp_path, f"{name}_0-0") == [
            {"vpp_stage": "0", "name": "scale", "step": "0", "id": value, "mean": value, "shape": "[]",
             "dtype": "Float16"}
        ]  # fmt: skip


def test_a_model_of_another_kind_is_refused() -> None:
    Path("monitor.json").write_text(json.dumps({"ops": ["norm"]}))
    with pytest.raises(InvalidArgument, match="expected a mindspore"):
        TrainerMon("monitor.json").set_monitor(object(), object())
