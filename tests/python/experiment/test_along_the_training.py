# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A fault of what keeps, digests or feeds the values of steps, between the lines of a training."""

from __future__ import annotations

import logging

import pytest
import torch
from msprobe.experiment import kept, updates
from msprobe.experiment.along_the_training import AlongTheTraining
from msprobe.experiment.changes import Settings
from msprobe.experiment.feed import Feeder, Keeper
from msprobe.experiment.plan import Change
from msprobe.recording.recorded_training import RecordedTraining
from torch import nn


def train(recorder: AlongTheTraining) -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder.models_found([model])
    losses = []
    try:
        for number in range(2):
            recorder.begin_step(number)
            loss = model(torch.ones(2, 3)).square().mean()
            loss.backward()
            optimizer.step()
            recorder.end_step(number)
            losses.append(loss.item())
    finally:
        recorder.close()
    return losses


@pytest.mark.parametrize("where", ["given", "before_update"])
def test_a_fault_of_a_recorder_never_reaches_the_training(where, monkeypatch, caplog):
    calls = []

    def fail(*_: object) -> None:
        calls.append(where)
        raise KeyError("ours")

    plain = train(AlongTheTraining())
    recorder = AlongTheTraining()
    monkeypatch.setattr(recorder, where, fail)
    with caplog.at_level(logging.WARNING, "msprobe"):
        assert train(recorder) == plain
    assert calls == [where]
    assert "values of steps: KeyError: 'ours': not recorded any more" in caplog.text


def test_a_training_that_cannot_be_fed_ends(monkeypatch, caplog):
    """What it computed then would be the result of another experiment."""

    def fail(*_: object) -> None:
        raise KeyError("ours")

    feeder = Feeder([])
    monkeypatch.setattr(feeder, "before_update", fail)
    with pytest.raises(SystemExit) as ended:
        train(feeder)
    assert ended.value.code
    assert "feed: step 0: KeyError: 'ours'" in caplog.text


def test_values_of_other_kinds_are_not_kept_and_come_from_another_run(tmp_path, caplog):
    for kind in ("weights", "inputs"):
        (tmp_path / kind).mkdir()
        train(Keeper(tmp_path / kind, (1,), (kind,)))
        values, _ = kept.read(kept.path_of(tmp_path / kind, 1))
        assert {name.partition(".")[0] for name in values} == {kind}
        assert not kept.path_of(tmp_path / kind, 0).exists()
    train(Feeder([Change(f"feed.{kind}", str(tmp_path / kind), 1) for kind in ("weights", "inputs")]))
    with pytest.raises(SystemExit):
        train(Feeder([Change("feed.optimizer", str(tmp_path / "weights"))]))
    assert "optimizer was not kept" in caplog.text


def test_an_optimizer_with_a_closure_is_told_behind_it():
    """As Lightning trains: the model is found inside of the step of the optimizer."""
    seen: list[tuple[int, float, int]] = []

    class Seeing(AlongTheTraining):
        def before_update(self, optimizer: torch.optim.Optimizer) -> None:
            given = optimizer.param_groups[0]
            seen.append((self.step, given["lr"], sum(one.grad is not None for one in given["params"])))

    updates.watch()
    made = [Settings([Change("optimizer.lr", "0.5")]), Seeing()]
    session = RecordedTraining(lambda: made)
    session.install()
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3)).square().mean()
        loss.backward()
        return loss

    try:
        optimizer.step(closure)
        optimizer.step(closure=closure)
    finally:
        session.close()
        session.forget_models()
    assert seen == [(0, 0.5, 2), (1, 0.5, 2)]
    assert not updates._hooks
