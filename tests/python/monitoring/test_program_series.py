# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the monitor of Python records of a training is what that of a C++ program records: the same training
there (tests/cpp/torch/program_monitor_series_test.cpp) is held against the same file.

    python test_program_series.py     # writes the file anew
"""

from __future__ import annotations

import csv
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msprobe
import pytest
import torch
from monitor_record import Record
from torch import nn

SERIES = Path(__file__).resolve().parents[2] / "data" / "monitor" / "program_series.csv"
HEADER = ("step", "key", "scope", "layer", "unit", "value")
EXPERTS = 3


class Layer(nn.Module):
    """Attention of one head, and experts behind a router."""

    top_k = 2

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 6)
        self.gate = nn.Linear(6, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(EXPERTS))

    def forward(self, x: Any) -> Any:
        h = self.up(x).unsqueeze(1)
        h = nn.functional.scaled_dot_product_attention(h, h, h, is_causal=True).squeeze(1)
        chance = torch.softmax(self.gate(h), -1)
        parts = [expert(h) * chance[..., i : i + 1] for i, expert in enumerate(self.experts)]
        return x + sum(parts)


def filled(shape: Any, shift: float) -> Any:
    """Numbers that every program has."""
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float64) + shift).reshape(shape) / 2


def make() -> tuple[nn.Sequential, torch.optim.AdamW]:
    model = nn.Sequential()
    layers = nn.ModuleList([Layer(), Layer()]).double()
    model.add_module("layers", layers)
    with torch.no_grad():
        for shift, parameter in enumerate(model.parameters()):
            parameter.copy_(filled(parameter.shape, shift))
    weights = [p for name, p in model.named_parameters() if name.endswith("weight")]
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    groups = [{"params": weights, "lr": 1e-2}, {"params": biases, "lr": 1e-3}]
    return model, torch.optim.AdamW(groups)


def train_recorded(folder: Path) -> Record:
    from torch import distributed

    model, optimizer = make()
    distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=0, world_size=1)
    try:
        settings: dict[str, Any] = {"targets": ["*.up", "*.up.*"], "matrix_every": 2, "attention_queries": 4}
        monitor = msprobe.monitor(model, optimizer, folder / "run", quantities=["all"], **settings)
        for step in range(3):
            optimizer.zero_grad()
            for micro in range(2):
                x = filled((2, 5, 4), 7 * step + 3 * micro)
                for layer in model.layers:
                    x = layer(x)
                x.square().mean().backward()
            distributed.all_reduce(model.layers[0].up.weight.grad)
            monitor.add("temperature", 1.5 + step)
            optimizer.step()
        monitor.close()
    finally:
        distributed.destroy_process_group()
    return Record(folder / "run")


def rows_of(record: Record) -> Iterator[tuple[str, ...]]:
    """The lines of the file; the time of a step has no value there."""
    for key, one in sorted(record.series.items()):
        for step, value in record[key].items():
            text = "" if key == "step_seconds" else f"{value:.12g}"
            yield str(step), key, one.scope, str(one.layer), one.unit, text


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_series_of_python_are_those_of_a_program(tmp_path: Path) -> None:
    expected = list(csv.reader(SERIES.read_text("utf-8").splitlines()))[1:]
    found = list(rows_of(train_recorded(tmp_path)))
    assert [row[:5] for row in found] == [tuple(row[:5]) for row in expected]
    for row, known in zip(found, expected):
        if row[5]:
            assert math.isclose(float(row[5]), float(known[5]), rel_tol=1e-5, abs_tol=1e-9), row


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        rows = list(rows_of(train_recorded(Path(place))))
    with SERIES.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
