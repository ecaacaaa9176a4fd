# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The rows that mindstudio-probe writes for its sample training, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_support import debugger, folder_of, rows_of, summary_of
from children import run, run_ranks

GOLDEN = Path(__file__).resolve().parents[3] / "data" / "free_benchmark"

CASES: dict[str, dict[str, Any]] = {
    "improve_precision_check": {"pert_mode": "improve_precision"},
    "bit_noise_check": {"pert_mode": "bit_noise"},
    "add_noise_check": {"pert_mode": "add_noise"},
    "change_value_check": {"pert_mode": "change_value"},
    "no_change_check": {"pert_mode": "no_change"},
    "to_cpu_check": {"pert_mode": "to_cpu"},
    "to_cpu_check_inf": {"pert_mode": "to_cpu"},
    "improve_precision_fix": {"pert_mode": "improve_precision", "handler_type": "fix"},
    "to_cpu_fix": {"pert_mode": "to_cpu", "handler_type": "fix"},
    "list_filter": {"pert_mode": "change_value", "list": ["relu"]},
    "preheat": {"pert_mode": "change_value", "if_preheat": True, "preheat_step": 2, "max_sample": 2},
    "backward_improve": {"pert_mode": "improve_precision", "fuzz_stage": "backward"},
}


def train(directory: Path | None, case: dict[str, Any], scale: int, group: bool = False) -> dict[str, str]:
    """The sample training, under the free benchmark unless `directory` is None; the last step's results."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    if group:
        torch.distributed.init_process_group("gloo")
    probe: Any = None
    if directory is not None:
        keys = {key: value for key, value in case.items() if key != "pert_mode"}
        probe = debugger(directory, case["pert_mode"], **keys)
    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.randn(4, 4))
    wh = torch.nn.Parameter(torch.randn(4, 4).half())
    seen = {}
    for step in range(6 if "preheat_step" in case else 3):
        if probe is not None:
            probe.start()
        x = torch.linspace(-2, 3, 12).reshape(3, 4)
        y = F.relu(F.linear(x, w))
        z = torch.matmul(x.half(), wh)
        e = torch.exp(z * scale)
        t = torch.sub(y + 1000.0, 1000.0)
        v, _ = torch.topk(y, 2)
        (y.sum() + e.float().sum() * 1e-6 + t.sum() + v.sum()).backward()
        if probe is not None:
            probe.stop()
            probe.step()
        for name, value in {"y": y, "z": z, "e": e, "t": t, "v": v, "w": w.grad, "wh": wh.grad}.items():
            seen[f"{name}{step}"] = str(value.tolist())
    if group:
        torch.distributed.destroy_process_group()
    return seen


def golden(case: str, step: int) -> str | None:
    path = GOLDEN / case / f"step{step}.csv"
    return path.read_bytes().decode() if path.exists() else None


def written(directory: Path, step: int, rank: int | None = None) -> str | None:
    path = folder_of(directory, step, rank) / "free_benchmark.csv"
    return path.read_bytes().decode() if path.exists() else None


@pytest.mark.parametrize("case", CASES)
def test_rows_of_the_sample(tmp_path, case):
    scale = 4 if case.endswith("inf") else 1
    with_benchmark = run(train, tmp_path, CASES[case], scale)
    # mindstudio-probe ends in the first step of the case with infinities: its own fault.
    steps = {"to_cpu_check_inf": range(1), "preheat": range(6)}.get(case, range(3))
    assert [written(tmp_path, step) for step in steps] == [golden(case, step) for step in steps]
    summary = summary_of(tmp_path, 2)
    assert summary["faults"] == {}
    assert summary["checked"] > 0
    if CASES[case].get("handler_type") != "fix":
        assert with_benchmark == run(train, None, CASES[case], scale)


def test_the_same_rows_in_each_process_of_a_group(tmp_path):
    run_ranks(train, tmp_path, CASES["change_value_check"], 1, True)
    expected = golden("change_value_check", 0)
    assert expected is not None
    assert written(tmp_path, 0, rank=0) == expected
    of_rank_1 = written(tmp_path, 0, rank=1)
    assert of_rank_1 is not None
    assert of_rank_1.replace("\r\n1,", "\r\n0,") == expected


def test_backward_compares_what_the_call_itself_contributes(tmp_path):
    """The sample's two rows come from gradients that other calls add to: they are none of these calls'."""
    case = {"pert_mode": "bit_noise", "fuzz_stage": "backward"}
    with_benchmark = run(train, tmp_path, case, 1)
    assert golden("backward_bit_noise", 0) is not None
    assert [rows_of(tmp_path, step) for step in range(3)] == [[], [], []]
    assert summary_of(tmp_path)["checked"] > 10
    assert with_benchmark == run(train, None, {}, 1)


def test_fix_puts_the_better_result_in_place(tmp_path):
    plain = run(train, None, {}, 1)
    for mode in ("improve_precision", "to_cpu"):
        fixed = run(train, tmp_path / mode, {"pert_mode": mode, "handler_type": "fix"}, 1)
        assert fixed["y0"] == plain["y0"]  # float32 on the CPU is what it was
        assert fixed["z0"] == run(better_product)
    assert summary_of(tmp_path / "improve_precision")["checked"] > 3


def better_product() -> str:
    import torch

    torch.manual_seed(0)
    torch.randn(4, 4)
    wh = torch.randn(4, 4).half()
    x = torch.linspace(-2, 3, 12).reshape(3, 4)
    return str((x.half().float() @ wh.float()).half().tolist())
