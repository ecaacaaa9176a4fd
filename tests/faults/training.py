# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One training script for all models, with all its phases from data to optimizer, recorded by the debugger.

A `Training` is built whole before it runs, so that a plant can change one thing in it and nothing else.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from models import LENGTH, VOCABULARY, Cnn, MixtureOfExperts, Perceptron, Rnn, Transformer
from torch import nn

STEPS = 3

PRECISIONS = ("float32", "autocast", "bfloat16", "float16")
"""What is computed in: autocast to bfloat16; weights and data of bfloat16; autocast to float16, with a scaled
loss.
"""

Batch = dict[str, torch.Tensor]


# ---- what the models are trained on


def token_batch(generator: torch.Generator) -> Batch:
    ids = torch.randint(0, VOCABULARY, (3, LENGTH + 1), generator=generator)
    return {"ids": ids[:, :-1].contiguous(), "labels": ids[:, 1:].contiguous()}


def image_batch(generator: torch.Generator) -> Batch:
    images = torch.randn(6, 3, 8, 8, generator=generator)
    return {"images": images, "labels": torch.randint(0, 5, (6,), generator=generator)}


def feature_batch(generator: torch.Generator) -> Batch:
    features = torch.randn(8, 12, generator=generator)
    return {"features": features, "labels": torch.randint(0, 6, (8,), generator=generator)}


def loss_of_model(model: nn.Module, batch: Batch) -> torch.Tensor:
    return model(**batch)


def loss_of_logits(model: nn.Module, batch: Batch) -> torch.Tensor:
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    logits = model(**inputs)
    return F.cross_entropy(logits.flatten(0, -2), batch["labels"].flatten())


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.05)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=3e-3)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)


# ---- recipes


@dataclass(frozen=True)
class Recipe:
    """A model and how it is trained."""

    build: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], Batch]
    loss: Callable[[nn.Module, Batch], torch.Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    micro_steps: int = 1
    reduction: str = ""
    """With two processes: "ddp" (DistributedDataParallel), or "hand" (all_reduce of each gradient)."""

    @property
    def ranks(self) -> int:
        return 2 if self.reduction else 1


RECIPES = {
    "transformer": Recipe(Transformer, token_batch, loss_of_model, adamw),
    "dropout": Recipe(lambda: Transformer(dropout=0.1), token_batch, loss_of_model, adamw),
    "recompute": Recipe(lambda: Transformer(dropout=0.1, recompute=True), token_batch, loss_of_model, adamw),
    "cnn": Recipe(Cnn, image_batch, loss_of_logits, sgd),
    "rnn": Recipe(Rnn, token_batch, loss_of_logits, adam, micro_steps=2),
    "moe": Recipe(MixtureOfExperts, token_batch, loss_of_model, adamw),
    "ddp": Recipe(Perceptron, feature_batch, loss_of_logits, adamw, reduction="ddp"),
    "hand": Recipe(Perceptron, feature_batch, loss_of_logits, sgd, reduction="hand"),
}

MOMENTS = ("begin", "backward", "gradients", "optimizer", "end")


class Training:
    """A training that is ready to run. Everything in it is there to be changed by a plant.

    `hooks[moment, step]` are called at the beginning of a step (before it is recorded), before its
    backward, when the gradients are reduced, before the optimizer, and at its end. `contexts` are entered
    around the training.
    """

    def __init__(self, name: str, rank: int = 0, precision: str = "float32") -> None:
        assert precision in PRECISIONS
        self.name = name
        self.precision = precision
        self.recipe = RECIPES[name]
        self.rank = rank
        self.max_norm: float | None = 0.5
        self.norm_type = 2.0
        self.optimizer_steps = set(range(STEPS))
        self.loss_divisor = self.recipe.micro_steps
        self.zero_grad_steps = set(range(STEPS))
        self.zero_to_none = True
        self.unsynchronised_steps: set[int] = set()
        self.reduce_op: Any = dist.ReduceOp.SUM
        self.reduce_divisor = float(self.recipe.ranks)
        self.contexts: list[contextlib.AbstractContextManager[Any]] = []
        self.hooks: dict[tuple[str, int], list[Callable[[], None]]] = defaultdict(list)
        self.batches = [
            [self.recipe.batch(self._stream(step, micro)) for micro in range(self.recipe.micro_steps)]
            for step in range(STEPS)
        ]
        for batch in (batch for batches in self.batches for batch in batches):
            batch.update((name, self._cast(value)) for name, value in batch.items())
        if precision == "float16" and name == "rnn":  # oneDNN has no LSTM of float16 on most CPUs
            self.contexts.append(torch.backends.mkldnn.flags(enabled=False))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10) if precision == "float16" else None
        self.build(seed=7)

    def _stream(self, step: int, micro: int) -> torch.Generator:
        return torch.Generator().manual_seed(1000 + 100 * step + 10 * micro + self.rank)

    def _cast(self, value: torch.Tensor) -> torch.Tensor:
        is_cast = self.precision == "bfloat16" and value.dtype.is_floating_point
        return value.to(torch.bfloat16) if is_cast else value

    def build(self, seed: int) -> None:
        """The model, its optimizer and the warm-up, from this seed."""
        torch.manual_seed(seed)
        self.model: nn.Module = self.recipe.build()
        if self.precision == "bfloat16":
            self.model.to(torch.bfloat16)
        self.wrapped = self.model
        if self.recipe.reduction == "ddp":
            self.wrapped = nn.parallel.DistributedDataParallel(self.model)
        self.use_optimizer(self.recipe.optimizer(self.model.parameters()))

    def use_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=STEPS - 1)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        return dict(self.model.named_parameters())

    def module(self, path: str) -> Any:
        return self.model.get_submodule(path)

    def at(self, moment: str, step: int, hook: Callable[[], Any]) -> None:
        assert moment in MOMENTS
        self.hooks[moment, step].append(hook)

    # ---- the script

    def run(self, probe: Any) -> list[float]:
        """Trains with everything recorded; the losses, of the micro-steps one after the other."""
        losses: list[float] = []
        with contextlib.ExitStack() as stack:
            for context in self.contexts:
                stack.enter_context(context)
            for step in range(STEPS):
                self._call("begin", step)
                probe.start(self.wrapped)
                losses += self._step(step)
                probe.stop()
                probe.step()
                self._call("end", step)
        return losses

    def _step(self, step: int) -> list[float]:
        losses = []
        if step in self.zero_grad_steps:
            self.optimizer.zero_grad(set_to_none=self.zero_to_none)
        synchronise = contextlib.nullcontext()
        if step in self.unsynchronised_steps:
            synchronise = self.wrapped.no_sync()
        with synchronise:
            for batch in self.batches[step]:
                with self._autocast():
                    loss = self.recipe.loss(self.wrapped, batch) / self.loss_divisor
                self._call("backward", step)
                (loss if self.scaler is None else self.scaler.scale(loss)).backward()
                losses.append(float(loss.detach()))
        if self.recipe.reduction == "hand":
            self._reduce()
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        self._call("gradients", step)
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm, norm_type=self.norm_type)
        self._call("optimizer", step)
        if step in self.optimizer_steps:
            self._optimize()
        if self.scaler is not None:
            self.scaler.update()
        self.warm_up.step()
        return losses

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        low = {"autocast": torch.bfloat16, "float16": torch.float16}.get(self.precision)
        return contextlib.nullcontext() if low is None else torch.autocast("cpu", dtype=low)

    def _optimize(self) -> None:
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)

    def _reduce(self) -> None:
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, op=self.reduce_op)
                parameter.grad = torch.div(parameter.grad, self.reduce_divisor)

    def _call(self, moment: str, step: int) -> None:
        for hook in self.hooks[moment, step]:
            hook()


# ---- how it is recorded

_STATISTICS = {"task": "statistics", "level": "mix", "statistics": {"diagnosis": ["all"]}}

VARIANTS: dict[str, dict[str, Any]] = {
    "mix": _STATISTICS,
    "md5": {**_STATISTICS, "statistics": {"diagnosis": ["all"], "summary_mode": "md5"}},
    "tensor": {"task": "tensor", "level": "mix", "tensor": {"diagnosis": ["all"]}},
    "L0": {**_STATISTICS, "level": "L0"},
    "L1": {**_STATISTICS, "level": "L1"},
    "bare": {"task": "statistics", "level": "mix"},
}

for _level in ("mix", "L0", "L1"):
    for _task in ("mix", "md5", "tensor"):
        _name = "statistics" if _task == "mix" else _task
        VARIANTS[f"{_name}.{_level}"] = {**VARIANTS[_task], "level": _level}


def debugger(folder: Path, variant: str, rank: int) -> Any:
    """The debugger of this process, which writes to folder/dump."""
    from msprobe import PrecisionDebugger

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"config{rank}.json"
    path.write_text(json.dumps({**VARIANTS[variant], "dump_path": str(folder / "dump")}), encoding="utf-8")
    return PrecisionDebugger(path)
