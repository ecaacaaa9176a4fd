# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Small trainings in which something goes wrong at a known step, and healthy ones: when do the default rules
say something? `python tests/python/monitoring/monitor_events.py` prints the table of docs/monitor.md.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msprobe
import torch
from monitor_record import Record
from torch import nn

EVENT = 150  # the step at which it begins
STEPS = 240
_VOCABULARY, _WIDTH, _LENGTH = 32, 32, 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.out = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 4, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(_WIDTH, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.GELU(), nn.Linear(_WIDTH, _WIDTH)) for _ in range(4)
        )
        self.top_k = 2

    def forward(self, x: Any) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(self.top_k)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number)).sum(-1, keepdim=True)
            y = y + share * expert(x)
        return y


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.attention = Attention()
        self.mlp = Experts()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Model(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_VOCABULARY, _WIDTH)
        self.layers = nn.ModuleList(Block(dropout) for _ in range(3))
        self.norm = nn.LayerNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, _VOCABULARY)

    def forward(self, x: Any) -> Any:
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# ---- what goes wrong; called when the gradients of a step are there, from EVENT on


def nan_in_one_gradient(model: Any, optimizer: Any, since: int) -> None:
    if since == 0:
        model.layers[1].mlp.experts[0][0].weight.grad[0, 0] = math.nan


def learning_rate_spike(model: Any, optimizer: Any, since: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] *= 100 if since == 0 else 1


def exploding_layer(model: Any, optimizer: Any, since: int) -> None:
    with torch.no_grad():
        model.layers[1].attention.out.weight.mul_(1.25)


def dead_experts(model: Any, optimizer: Any, since: int) -> None:
    with torch.no_grad():
        model.layers[2].mlp.gate.bias[:2] += 0.5


def drift_of_logits(model: Any, optimizer: Any, since: int) -> None:
    with torch.no_grad():
        model.layers[0].attention.qkv.weight[: 2 * _WIDTH].mul_(1.02)


Event = Callable[[Any, Any, int], None]
EVENTS: tuple[Event, ...] = (
    nan_in_one_gradient,
    learning_rate_spike,
    exploding_layer,
    dead_experts,
    drift_of_logits,
)


@dataclass(frozen=True)
class Healthy:
    """A training without any event."""

    name: str
    seed: int = 0
    lr: float = 1e-3
    batch: int = 8
    dropout: float = 0.0
    autocast: bool = False
    warm_up: int = 0
    decays: bool = False
    optimizer: Callable[..., Any] = field(default=torch.optim.AdamW)


def _momentum(parameters: Any, lr: float) -> Any:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


HEALTHY = (
    Healthy("AdamW"),
    Healthy("AdamW, another seed", seed=1),
    Healthy("AdamW, a third seed", seed=2),
    Healthy("a high learning rate", lr=5e-3),
    Healthy("a low learning rate", lr=1e-4),
    Healthy("warm-up and cosine decay", lr=3e-3, warm_up=30, decays=True),
    Healthy("dropout", dropout=0.2, seed=3),
    Healthy("batches of two", batch=2, seed=4),
    Healthy("bfloat16 autocast", autocast=True, seed=5),
    Healthy("SGD with momentum", lr=0.1, optimizer=_momentum, seed=6),
)


@dataclass(frozen=True)
class Outcome:
    alarms: list[dict[str, Any]]
    losses: list[float]

    @property
    def first_alarm(self) -> int | None:
        return min((one["step"] for one in self.alarms), default=None)

    @property
    def loss_shows(self) -> int | None:
        """The first step whose loss is not finite, or more than 1.5 times the mean of the 50 before."""
        for step in range(EVENT, len(self.losses)):
            before = self.losses[step - 50 : step]
            if not math.isfinite(self.losses[step]) or self.losses[step] > 1.5 * sum(before) / len(before):
                return step
        return None


def train(folder: Path, setting: Healthy, event: Event | None = None, steps: int = STEPS) -> Outcome:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the model is too small for more
    try:
        return _train(folder, setting, event, steps)
    finally:
        torch.set_num_threads(threads)


def _train(folder: Path, setting: Healthy, event: Event | None, steps: int) -> Outcome:
    torch.manual_seed(setting.seed)
    model = Model(setting.dropout)
    optimizer = setting.optimizer(model.parameters(), lr=setting.lr)
    quantities = ["training", "gradient", "weight", "moment", "update", "activation", "attention", "experts"]
    generator = torch.Generator().manual_seed(100 + setting.seed)
    with msprobe.monitor(model, optimizer, folder, quantities=quantities):
        for step in range(steps):
            for group in optimizer.param_groups if setting.warm_up or setting.decays else ():
                group["lr"] = setting.lr * _schedule(setting, step, steps)
            # The next token is the one before plus one or two: there is something to learn, and noise.
            first = torch.randint(_VOCABULARY, (setting.batch, 1), generator=generator)
            jumps = torch.randint(1, 3, (setting.batch, _LENGTH), generator=generator)
            tokens = torch.cat([first, first + jumps.cumsum(1)], 1) % _VOCABULARY
            with torch.autocast("cpu", torch.bfloat16, enabled=setting.autocast):
                logits = model(tokens[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            if event is not None and step >= EVENT:
                event(model, optimizer, step - EVENT)
            optimizer.step()
    record = Record(folder)
    path = folder / "alarms.jsonl"
    alarms = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return Outcome(alarms, list(record["loss"].values()))


def _schedule(setting: Healthy, step: int, steps: int) -> float:
    rise = min(1.0, (step + 1) / setting.warm_up) if setting.warm_up else 1.0
    return rise * (0.5 * (1 + math.cos(math.pi * step / steps)) if setting.decays else 1.0)


def main() -> None:
    print("| event at step 150 | first alarm | rule, series | loss shows it |\n|---|---|---|---|")
    for event in EVENTS:
        with tempfile.TemporaryDirectory() as folder:
            outcome = train(Path(folder), HEALTHY[0], event)
        first = next((a for a in outcome.alarms if a["step"] == outcome.first_alarm), None)
        what = f"{first['rule']}, `{first['series']}`" if first else ""
        name = event.__name__.replace("_", " ")
        shows = "not within 90 steps" if outcome.loss_shows is None else outcome.loss_shows
        print(f"| {name} | {outcome.first_alarm} | {what} | {shows} |", flush=True)
    print("\n| healthy run | alarms |\n|---|---|")
    for setting in HEALTHY:
        with tempfile.TemporaryDirectory() as folder:
            outcome = train(Path(folder), setting)
        print(f"| {setting.name} | {len(outcome.alarms)} |", flush=True)
        for alarm in outcome.alarms:
            print("   ", alarm["message"], file=sys.stderr)


if __name__ == "__main__":
    main()
