# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of mindstudio-probe (tests/data/grad_probe) are reproduced from the gradients it saw."""

from __future__ import annotations

import ast
import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from msprobe import GradComparator, PrecisionDebugger
from torch import nn

DATA = Path(__file__).parents[2] / "data" / "grad_probe"

# The norm of mindstudio-probe is rounded to the dtype of the gradient, as its sum of squares may be.
DTYPES = {
    "l0_a": (torch.float32, 1.2e-7),
    "l1_a": (torch.float32, 1.2e-7),
    "l2_edge": (torch.float32, 1.2e-7),
    "l2_bf16": (torch.bfloat16, 2**-8),
    "l2_fp16_params": (torch.float16, 2**-11),
}


class Still(torch.optim.Optimizer):
    """Steps without changing anything."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        return None


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def add_parameter(module, name, shape, dtype):
    *folders, last = name.split(".")
    for folder in folders:
        if folder not in module._modules:
            module.add_module(folder, nn.Module())
        module = module._modules[folder]
    module.register_parameter(last, nn.Parameter(torch.zeros(shape, dtype=dtype)))


def gradients_of(name, step):
    """{parameter: float32 array}, laid out as the gradient was."""
    vector = np.load(DATA / "gradients" / f"{name}_step{step}.npy")
    result, start = {}, 0
    table = read_csv(DATA / name / "rank0" / f"grad_summary_{step}.csv")
    for row in table[1:]:
        shape = ast.literal_eval(row[-1])
        count = int(np.prod(shape))
        array = vector[start : start + count].reshape(shape)
        direction = DATA / name / "rank0" / f"step{step}" / f"{row[0]}.npy"
        if row[0] == "matrix" or (direction.exists() and np.isfortran(np.load(direction))):
            array = np.asfortranarray(array)
        result[row[0]] = array
        start += count
    assert start == len(vector)
    return result


def assert_same_table(ours, theirs, tolerance):
    """Byte by byte, but for the last digits of the norm."""
    assert ours.read_bytes().startswith(b"\xef\xbb\xbf")
    ours_rows, theirs_rows = read_csv(ours), read_csv(theirs)
    norm = theirs_rows[0].index("norm")
    for mine, other in zip(ours_rows[1:], theirs_rows[1:]):
        if mine[norm] != other[norm]:
            assert float(mine[norm]) == pytest.approx(float(other[norm]), rel=tolerance, nan_ok=True)
            mine[norm] = other[norm]
    assert ours_rows == theirs_rows
    # Quotes and line ends.
    assert ours.read_bytes().count(b"\r\n") == len(ours_rows) == ours.read_bytes().count(b"\n")
    assert ours.read_bytes().count(b'"') == theirs.read_bytes().count(b'"')


@pytest.mark.parametrize("name", DTYPES)
def test_the_record_of_the_existing_tool(name, tmp_path, fresh_debugger):
    dtype, tolerance = DTYPES[name]
    golden = DATA / name / "rank0"
    steps = sorted(int(path.stem.rsplit("_", 1)[1]) for path in golden.glob("*.csv"))
    gradients = {step: gradients_of(name, step) for step in steps}

    model = nn.Module()
    for parameter, gradient in gradients[steps[0]].items():
        add_parameter(model, parameter, gradient.shape, dtype)
    add_parameter(model, "unused", [3], dtype)
    config = json.loads((DATA / f"{name}.config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "dump_path": str(tmp_path / "out")}))
    PrecisionDebugger(tmp_path / "config.json")
    PrecisionDebugger.monitor(model)

    optimizer = Still(model.parameters())
    for step in range(steps[-1] + 1):
        for parameter, gradient in gradients.get(step, {}).items():
            # float32 -> dtype is exact here; the copy keeps a transposed layout
            model.get_parameter(parameter).grad = torch.from_numpy(gradient).to(dtype)
        optimizer.step()
    PrecisionDebugger.stop()

    ours = tmp_path / "out" / "rank0"
    files = sorted(path.relative_to(golden) for path in golden.rglob("*") if path.is_file())
    assert sorted(path.relative_to(ours) for path in ours.rglob("*") if path.is_file()) == files
    for file in files:
        if file.suffix == ".npy":
            assert (ours / file).read_bytes() == (golden / file).read_bytes(), file
        else:
            assert_same_table(ours / file, golden / file, tolerance)


@pytest.mark.parametrize(("pair", "ranks"), [("l1", [0]), ("l1_ranks", [0, 1])])
def test_the_comparison_of_the_existing_tool(pair, ranks, tmp_path):
    GradComparator.compare_distributed(
        DATA / f"{pair}_a", DATA / f"{pair}_b", tmp_path / "out", pictures=False
    )
    for rank in ranks:
        file = Path(f"rank{rank}", "similarities.csv")
        assert (tmp_path / "out" / file).read_bytes() == (DATA / f"cmp_{pair}" / file).read_bytes()


def test_one_rank_by_itself(tmp_path):
    GradComparator.compare(DATA / "l1_a" / "rank0", DATA / "l1_b" / "rank0", tmp_path / "out", pictures=False)
    ours = (tmp_path / "out" / "similarities.csv").read_bytes()
    assert ours == (DATA / "cmp_l1" / "rank0" / "similarities.csv").read_bytes()


def test_our_record_and_that_of_the_existing_tool_can_be_compared(tmp_path, fresh_debugger):
    test_the_record_of_the_existing_tool("l1_a", tmp_path, None)
    result = GradComparator.compare_distributed(
        tmp_path / "out", DATA / "l1_a", tmp_path / "compared", pictures=False
    )
    assert result.same
