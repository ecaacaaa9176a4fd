# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.monitor: settings and targets, sinks, faults."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msprobe
import pytest
import torch
from monitor_record import Record
from msprobe import InvalidArgument
from msprobe.config import AlarmConfig, MonitorConfig, RuleConfig
from msprobe.config.monitor import Quantity
from msprobe.monitoring.quantities import quantities
from msprobe.native import core
from torch import nn
from training_sample import make_training, train

# ---- settings


def test_the_configuration_names_the_groups_of_the_one_table(start: Any) -> None:
    groups = list(dict.fromkeys(one.group for one in quantities() if one.group))
    with pytest.raises(InvalidArgument, match="expected a list out of") as refused:
        start(*make_training(), quantities=["nonsense"])
    named = str(refused.value).partition("out of ")[2].partition(", or ")[0]
    assert sorted(named.split(", ")) == sorted(get_args(Quantity)) == sorted(groups)


def test_metrics_targets_and_levels(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    monitor = start(
        net, optimizer, quantities=["gradient", "activation"], metrics=["mean", "std"],
        levels=["layer", "model"], targets=["layers.0", "fc*.weight"],
    )  # fmt: skip
    train(net, optimizer, steps=1)
    monitor.close()
    assert set(record().series) == {
        *(f"gradient.{m}{n}" for m in ("mean", "std") for n in ("", "/layers.0")),
        *(f"activation.{m}/layers.0{n}" for m in ("mean", "std") for n in ("", ".fc", ".norm")),
    }


def test_a_target_that_is_nothing_is_told(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    net, optimizer = make_training()
    start(net, optimizer, targets=["layers.9", "fc1", "fc3"])
    assert 'nothing in the model is called "layers.9"; close to it: layers.1, layers.0, layers' in caplog.text
    assert 'nothing in the model is called "fc3"; close to it: fc2, fc1' in caplog.text
    assert '"fc1"' not in caplog.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evry": 2}, "did you mean 'every'|did you mean \"every\""),
        ({"every": 0}, r'"monitor.every": expected an integer of at least 1'),
        ({"quantities": ["gradients"]}, "gradients"),
        ({"metrics": ["nrm"]}, "there is no metric 'nrm'"),
        ({"rules": [{"rule": "limit"}]}, 'needs a "threshold"'),
        ({"rules": [{"rule": "spikes"}]}, "spikes"),
        ({"rules": [{"rule": "spike", "threshold": 3, "ratio": 1}]}, "above 1"),
        ({"rules": [{"threshold": 3}]}, 'expected a key "rule"'),
        ({"rules": "all"}, "expected a list of rules"),
        ({"alarm": {"comand": "x"}}, r'"monitor.alarm.comand": unknown key'),
        ({"alarm": {"webhook": "ftp://x"}}, "https://"),
        ({"sinks": ["wandb"]}, "store, csv, tensorboard"),
        ({"scope": "all"}, "whole, rank"),
        ({"eps": -1}, "0 or more"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    net, optimizer = make_training()
    with pytest.raises(InvalidArgument, match=message):
        msprobe.monitor(net, optimizer, tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


WRONG: dict[str, Any] = {
    "every": "x", "start": -1, "targets": 3, "quantities": "everything", "metrics": [1], "levels": ["block"],
    "matrices": {}, "matrix_every": 0, "attention_queries": -1, "expert_top": 0, "expert_capacity": 0,
    "eps": "x", "sinks": [3], "scope": 3,
}  # fmt: skip
WRONG_OF_RULE = {
    "rule": 3, "name": 3, "series": 3, "threshold": "x", "ratio": -1, "slack": -1, "falling": 3,
    "warm_up": -1, "window": 0, "cooldown": 1.5,
}  # fmt: skip
WRONG_OF_ALARM = {
    "command": [1], "webhook": 3, "dump": "yes", "dump_task": "tensors", "cooldown": -1, "most": "x",
    "most_dumps": -1,
}  # fmt: skip


def test_a_wrong_value_of_any_key_is_refused_with_its_path(tmp_path: Path) -> None:
    assert {*WRONG, "rules", "alarm"} == {one.name for one in fields(MonitorConfig)}
    assert set(WRONG_OF_RULE) == {one.name for one in fields(RuleConfig)}
    assert set(WRONG_OF_ALARM) == {one.name for one in fields(AlarmConfig)}
    wrong = [({key: value}, f"monitor.{key}") for key, value in WRONG.items()]
    for key, value in WRONG_OF_RULE.items():
        rule = {"rule": "spike", "threshold": 3, "ratio": 2, key: value}
        wrong.append(({"rules": ["default", rule]}, f"monitor.rules[1].{key}"))
    wrong += [({"alarm": {key: value}}, f"monitor.alarm.{key}") for key, value in WRONG_OF_ALARM.items()]
    net, optimizer = make_training()
    path = tmp_path / "config.json"
    for settings, where in wrong:
        with pytest.raises(InvalidArgument, match=rf'"{re.escape(where)}": expected .*, found '):
            msprobe.monitor(net, optimizer, tmp_path / "run", **settings)
        path.write_text(json.dumps({"task": "monitor", "monitor": settings}))
        with pytest.raises(InvalidArgument, match=rf'config.json: line 1: "{re.escape(where)}": expected '):
            msprobe.monitor(net, optimizer, tmp_path / "run", config=path)
    assert not (tmp_path / "run").exists()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    net, _ = make_training()
    for model, optimizer in (("net", None), ([], None), (net, 3)):
        with pytest.raises(InvalidArgument, match="expected"):
            msprobe.monitor(model, optimizer, tmp_path / "run")
    for argument in ("callback", "rule"):
        with pytest.raises(InvalidArgument, match=f"{argument}: expected a function"):
            msprobe.monitor(net, None, tmp_path / "run", **{argument: "loss"})
    assert not (tmp_path / "run").exists()


def test_a_configuration_file(start: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {"task": "monitor", "dump_path": str(tmp_path / "run"), "monitor": {"every": 2, "eps": 0.5}}
        )
    )
    net, optimizer = make_training()
    monitor = msprobe.monitor(net, optimizer, config=path, every=3)
    train(net, optimizer, steps=5)
    monitor.close()
    found = Record(tmp_path / "run")
    assert found.steps == [0, 3]
    assert json.loads(found.info["settings"])["eps"] == 0.5


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    net, optimizer = make_training()
    with pytest.raises(msprobe.Error, match="file"):
        msprobe.monitor(net, optimizer, tmp_path / "file" / "run")


# ---- sinks


def test_files_have_the_permissions_of_msprobe(start: Any, tmp_path: Path) -> None:
    umask = os.umask(0o002)
    try:
        net, optimizer = make_training()
        with start(net, optimizer, sinks=["store", "csv"], rules=[{"rule": "limit", "threshold": 0}]):
            train(net, optimizer, steps=1)
            running = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").rglob("*.*")}
        finished = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").rglob("*.*")}
    finally:
        os.umask(umask)
    for modes in (running, finished):
        assert {path.name for path in modes} >= {"monitor.db", "monitor.csv", "alarms.jsonl"}
        assert set(modes.values()) == {0o640}


def test_callbacks_get_what_the_store_has(start: Any, record: Any) -> None:
    seen: list[tuple[int, dict[str, float]]] = []
    net, optimizer = make_training()
    monitor = start(net, optimizer, callback=lambda numbers, step: seen.append((step, numbers)))
    train(net, optimizer, steps=2)
    monitor.close()
    found = record()
    assert [step for step, _ in seen] == found.steps
    for step, numbers in seen:
        assert set(numbers) == {key for key in found.series if step in found[key]}
        assert all(found[key][step] == value for key, value in numbers.items())


def test_a_callback_that_raises_is_told_once(
    start: Any, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def fail(numbers: Any, step: int) -> None:
        calls.append(step)
        raise KeyError("mine")

    net, optimizer = make_training()
    monitor = start(net, optimizer, callback=fail)
    train(net, optimizer, steps=3)
    monitor.close()
    assert calls == [0]
    assert sum("mine" in entry.message for entry in caplog.records) == 1
    assert record().steps == [0, 1, 2]


def test_a_rule_of_the_user(start: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = []

    def loss_is_odd(numbers: dict[str, float], step: int) -> str | None:
        asked.append((step, "gradient.norm/fc1.weight" in numbers))
        if step == 3:
            return "no such series"
        return "loss" if step == 1 else None

    net, optimizer = make_training()
    monitor = start(net, optimizer, rules=[], rule=loss_is_odd)
    train(net, optimizer, steps=6)
    monitor.close()
    assert asked == [(step, True) for step in range(4)]  # behind the error nobody asks any more
    (alarm,) = [json.loads(line) for line in (tmp_path / "run" / "alarms.jsonl").read_text().splitlines()]
    assert (alarm["step"], alarm["rule"], alarm["series"]) == (1, "loss_is_odd", "loss")
    assert sum("it is not asked any more" in entry.message for entry in caplog.records) == 1


def test_csv_and_tensorboard(start: Any, record: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    net, optimizer = make_training()
    monitor = start(net, optimizer, sinks=["store", "csv", "tensorboard"])
    train(net, optimizer, steps=2)
    monitor.close()
    found = record()
    header, *rows = core.read_csv(tmp_path / "run" / "monitor.csv")
    assert header == ["step", "series", "value"]
    assert len(rows[0]) == sum(len(found[key]) for key in found.series)
    for step, key, value in rows[0]:
        assert found[key][int(step)] == float(value)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard" / "rank0"))
    events.Reload()
    assert [point.value for point in events.Scalars("loss")] == pytest.approx(list(found["loss"].values()))


# ---- faults


def test_a_fault_ends_the_monitor_and_not_the_training(
    start: Any, record: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, optimizer = make_training()
    monitor = start(net, optimizer)

    def after(step: int) -> None:
        if step == 1:
            monkeypatch.setattr(monitor._monitor, "_ended_step", lambda _: 1 / 0)

    losses = train(net, optimizer, steps=5, after=after)
    assert len(losses) == 10
    assert sum("ZeroDivisionError" in entry.message for entry in caplog.records) == 1
    assert record().steps == [0, 1]
    assert "step" in vars(optimizer)  # passive, until close()
    monitor.close()
    assert "step" not in vars(optimizer)


def test_gradients_that_are_missing_or_frozen_have_no_numbers(start: Any, record: Any) -> None:
    net = nn.ModuleDict({"a": nn.Linear(2, 2), "unused": nn.Linear(2, 2), "frozen": nn.Linear(2, 2)})
    net["frozen"].requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = start(net, optimizer)
    net["a"](net["frozen"](torch.randn(2, 2))).sum().backward()
    optimizer.step()
    monitor.close()
    found = record()
    assert found["gradient.norm/a.weight"]
    assert not found["gradient.norm/unused.weight"]
    assert not found.keys("gradient.norm/frozen")
    assert math.isfinite(found["gradient.norm"][0])


def test_a_nan_is_a_number_of_its_own(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    monitor = start(net, optimizer, rules=[])

    def spoil(step: int) -> None:
        if step == 1:
            net.fc1.weight.grad[0, 0] = math.nan

    train(net, optimizer, steps=2, before=spoil)
    monitor.close()
    found = record()
    assert math.isnan(found["gradient.norm/fc1.weight"][1])
    assert found["gradient.nonfinite/fc1.weight"][1] == pytest.approx(1 / 24)
    assert math.isnan(found["gradient.norm"][1])
