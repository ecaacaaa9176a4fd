# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Task free_benchmark with the real MindSpore: what it finds, and that it changes nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, ops
from msprobe.mindspore import PrecisionDebugger, seed_all
from msprobe.native import InvalidArgument


def debugger(folder: Path, **section: object) -> PrecisionDebugger:
    config = {
        "task": "free_benchmark",
        "dump_path": str(folder / "out"),
        "level": "L1",
        "rank": [],
        "step": [0],
    }
    (folder / "config.json").write_text(json.dumps({**config, "free_benchmark": section}))
    return PrecisionDebugger(config_path=str(folder / "config.json"))


def train(watcher: PrecisionDebugger | None) -> bytes:
    """Two steps; the weights that they leave."""
    seed_all()
    x = Tensor(np.random.RandomState(0).randn(4, 6).astype("float32"))
    w = Parameter(Tensor(np.random.RandomState(1).randn(5, 6).astype("float32")), name="w")

    def loss(x: Tensor) -> Tensor:
        h = ops.dropout(mint.nn.functional.linear(x, w), p=0.3)
        h = ops.tanh(h.astype(ms.float16)).astype(ms.float32)
        return mint.sum(mint.square(h) - 0.5)

    for _ in range(2):
        if watcher is not None:
            watcher.start()
        _, gradients = ms.value_and_grad(loss, None, weights=[w])(x)
        w.set_data(w - 0.1 * gradients[0])
        if watcher is not None:
            watcher.stop()
            watcher.step()
    content: bytes = w.asnumpy().tobytes()
    return content


def rows(folder: Path) -> list[dict[str, str]]:
    path = folder / "out/free_benchmark.csv"
    return list(csv.DictReader(path.read_text().splitlines())) if path.is_file() else []


@pytest.mark.parametrize(
    ("mode", "stage", "found"),
    [
        ("bit_noise", "forward", set()),
        ("add_noise", "forward", set()),
        ("no_change", "forward", set()),
        ("improve_precision", "forward", set()),
        ("improve_precision", "backward", {"Functional.tanh.0"}),
        ("change_value", "forward", {"MintFunctional.linear.0", "Functional.tanh.0"}),
    ],
)
def test_check_finds_and_changes_nothing(tmp_path: Path, mode: str, stage: str, found: set[str]) -> None:
    plain = train(None)
    listed = ["mindspore.ops.tanh", "mindspore.mint.nn.functional.linear"]
    watcher = debugger(tmp_path, pert_mode=mode, fuzz_stage=stage, handler_type="check", list=listed)
    assert train(watcher) == plain
    table = rows(tmp_path)
    assert {row["api_name"] for row in table} == found
    assert {row["step"] for row in table} <= {"0"}
    if stage == "backward":
        (row,) = table
        assert (row["pert_mode"], row["stage"], row["dtype"]) == (mode, stage, "Float16")
        assert float(row["max_rel"]) > 0.002


def test_fix_puts_the_raised_result_in_place(tmp_path: Path) -> None:
    plain = train(None)
    watcher = debugger(
        tmp_path, pert_mode="improve_precision", handler_type="fix", list=["mindspore.ops.tanh"]
    )
    fixed = train(watcher)
    assert fixed != plain
    assert np.allclose(np.frombuffer(fixed, "float32"), np.frombuffer(plain, "float32"), rtol=0.1, atol=0.01)


@pytest.mark.parametrize(
    "section",
    [
        {"pert_mode": "to_cpu", "fuzz_device": "cpu"},
        {"pert_mode": "improve_precision", "if_preheat": True},
        {"pert_mode": "add_noise", "handler_type": "fix"},
    ],
)
def test_what_mindspore_has_not_is_refused(tmp_path: Path, section: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        debugger(tmp_path, **section).start()
