# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records of the monitor as a training of a small transformer would leave them, made without one."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from msprobe.native import core

LAYERS = 6
_PARTS = ("attention.qkv.weight", "attention.out.weight", "mlp.up.weight", "mlp.down.weight")


def series_list(layers: int = LAYERS):
    found = [core.MonitorSeries("loss"), core.MonitorSeries("learning_rate")]
    found.append(core.MonitorSeries("step_seconds", unit="s"))
    for quantity, metric in (("gradient", "norm"), ("weight", "norm"), ("update", "ratio")):
        found.append(core.MonitorSeries(quantity, metric))
        for layer in range(layers):
            name = f"layers.{layer}"
            found.append(core.MonitorSeries(quantity, metric, name, "layer", layer))
            found += [
                core.MonitorSeries(quantity, metric, f"{name}.{part}", "parameter", layer) for part in _PARTS
            ]
    for layer in range(layers):
        name = f"layers.{layer}.attention"
        found.append(core.MonitorSeries("attention_logit", "max", name, "module", layer))
    return found


class Training:
    """The numbers of each step. The batches are those of `seed`; `noise`: of rounding, between devices.

    fault: step at which the gradient of layer 3 begins to grow; None: it does not.
    """

    def __init__(self, seed: int, *, noise: float = 0.0, noise_seed: int = 0, fault: int | None = None):
        self._batches = random.Random(seed)
        self._rounding = random.Random(noise_seed)
        self._noise = noise
        self._fault = fault

    def numbers(self, step: int, series) -> list[float]:
        batch = {"loss": self._batches.gauss(0, 1), "gradient": self._batches.gauss(0, 1)}
        wrong = 0 if self._fault is None or step < self._fault else min(step - self._fault + 1, 200)
        return [self._number(step, one, batch, wrong) * self._rounded(one) for one in series]

    def _rounded(self, one) -> float:
        is_measured = self._noise and one.quantity != "learning_rate"
        return 1 + self._noise * self._rounding.gauss(0, 1) if is_measured else 1.0

    def _number(self, step: int, one, batch: dict[str, float], wrong: int) -> float:
        size = 1 + 0.2 * max(one.layer, 0)
        grows = wrong if one.layer == 3 and one.quantity in ("gradient", "update") else wrong / 40
        if one.quantity == "loss":
            return 2 + 6 * math.exp(-step / 300) + 0.08 * batch["loss"] + wrong * 0.004
        if one.quantity == "learning_rate":
            return 3e-4 * min(1, (step + 1) / 100)
        if one.quantity == "step_seconds":
            return 0.1 + 0.01 * self._rounding.random()
        if one.quantity == "gradient":
            return (
                size * (0.4 + math.exp(-step / 200)) * math.exp(0.1 * batch["gradient"]) * (1 + 0.2 * grows)
            )
        if one.quantity == "weight":
            return 20 * size * (1 + 0.1 * math.log1p(step / 50))
        if one.quantity == "update":
            return 1e-3 * (1 + 0.05 * batch["gradient"]) * (1 + 0.02 * grows)
        return 5 + one.layer + 3 * math.log1p(step / 100) + 0.1 * batch["gradient"]


def write_record(
    folder: Path, training: Training, steps: int = 600, *, every: int = 1, first: int = 0, **info: str
) -> Path:
    """first: the training was resumed there, and its record counts from 0."""
    folder.mkdir(parents=True, exist_ok=True)
    store = core.MonitorStoreWriter(folder / "monitor.db", info=info)
    series = series_list()
    for one in series:
        store.add_series(one)
    for step in range(0, steps, every):
        numbers = training.numbers(step, series)
        if step >= first:
            store.append(step - first, numbers)
    assert store.flush() == 0
    return folder


def write_alarm(folder: Path, step: int, series: str, value, rule: str = "gradient spike") -> None:
    alarm = {
        "time": "2026-01-01T00:00:00+00:00",
        "step": step,
        "rule": rule,
        "series": series,
        "value": value,
    }
    alarm |= {"expected": 1.0, "score": 2.0, "message": f"step {step}: {series} is {value} (rule {rule})"}
    with (folder / "alarms.jsonl").open("a") as file:
        file.write(json.dumps({**alarm, "rank": 0}) + "\n")
