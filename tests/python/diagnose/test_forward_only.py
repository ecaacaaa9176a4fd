# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluation, generation and the like, where trainings are equal and these are not."""

from __future__ import annotations

import json
import math

import msprobe
import pytest
import torch
from msprobe.diagnose.forward_only import differences, gaps_of
from msprobe.diagnose.run_folder import find_run
from torch import nn


def train(folder, *, batches=2, scale=1.0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with msprobe.capture(output=folder, without=["config"]):
        for _ in range(3):
            loss = model(torch.ones(2, 3)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for _ in range(batches):
                    model(scale * torch.arange(1.0, 4.0)[None])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(folder / "a")
    train(folder / "same")
    train(folder / "longer", batches=3)
    train(folder / "other", scale=0.5)
    return folder


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("same", []),
        ("longer", ["forward only: model is called 3 times before step 1 (reference: 2)"]),
        ("other", ["forward only: model gives something else before step 1"]),
    ],
)
def test_trainings_are_equal_and_what_is_evaluated_beside_them_is_noticed(runs, tmp_path, target, said):
    from msprobe.cli import main

    command = ["diagnose", str(runs / "a"), str(runs / target), "-o", str(tmp_path), "--quiet", "--no-graph"]
    assert main(command) == 0
    answer = json.loads((tmp_path / "diagnose.json").read_text())
    assert (answer["status"], answer["noticed"]) == ("equal", said)
    assert all(one in (tmp_path / "index.html").read_text() for one in said)


def run_of(*rows):
    return {0: gaps_of(list(rows))}


def row(model, **before):
    return {
        "model": model,
        "before": {name[1:]: {"calls": calls, "results": text} for name, (calls, text) in before.items()},
    }


def test_what_calls_give_is_compared_only_where_all_else_is_equal():
    a, b = run_of(row("m", s0=(1, "x"))), run_of(row("m", s0=(1, "y")))
    assert differences(a, b, 0, values=False) == []
    assert len(differences(a, b, 0, values=True)) == 1


def test_steps_of_a_resumed_run_are_those_of_the_reference():
    a = run_of(row("m", s0=(1, "p"), s3=(2, "q"), s4=(2, "x")))
    b = run_of(row("m", s0=(7, "z"), s1=(2, "y")))
    assert differences(a, b, 3, values=True) == ["forward only: m gives something else before step 4"]


@pytest.mark.parametrize(
    "rows",
    [None, 3, [None], [{"model": 3, "before": {}}], [{"model": "m", "before": {"x": 1, "1": 2, "2": {}}}]],
)
def test_rows_that_are_none_are_left_out(rows):
    assert all(gaps == {} for gaps in gaps_of(rows).values())


def test_a_run_file_of_a_hostile_hand_is_read(tmp_path):
    content = {
        "forward_only": [{"model": "m" * 9999, "before": {"9" * 99: {"calls": 1, "results": [math.pi]}}}]
    }
    (tmp_path / "run.rank0.json").write_text(json.dumps(content))
    (model,) = find_run(tmp_path).forward_only[0]
    assert len(model) == 300
