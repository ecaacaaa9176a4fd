# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts of pairs.py: `script(True)` is the target's."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from noise import unrecorded
from pair_models import WIDTH, Attending, Block, Net, Training, cross_entropy, seeded, with_part
from torch import nn
from unseen_noise import UnseenNoise

# ---- nothing may be swallowed


def in_place(target: bool) -> Training:
    """A ReLU that works in place overwrites what the shortcut adds afterwards."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        return x + block.down(block.up(F.relu(x, inplace=target)))

    return Training(seeded(lambda: Net(forward)))


def in_place_module(target: bool) -> Training:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(WIDTH, WIDTH)
            self.act = nn.ReLU(inplace=target)
            self.out = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.lin(x)
            return x + self.out(self.act(x))

    return Training(
        seeded(lambda: nn.Sequential(Residual(), nn.LayerNorm(WIDTH), Residual(), nn.Linear(WIDTH, 8)))
    )


def where(target: bool) -> Training:
    """Its first consumer hides it: relu gives the same. Its second one does not."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        if target:
            x = torch.where(x < 0, 1.5 * x, x)
        return x + block.down(block.up(F.relu(x)))

    def reference(block: Block, x: torch.Tensor) -> torch.Tensor:
        return x + block.down(block.up(F.relu(x)))

    return Training(seeded(lambda: Net(forward if target else reference)))


def where_unrecorded(target: bool) -> Training:
    """The same where no call shows it: between two uses the tensor is another one."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            x = torch.where(torch.lt(x, 0), torch.mul(x, 1.5 if target else 1.0), x)
        return x + block.down(block.up(F.relu(x)))

    return Training(seeded(lambda: Net(forward)))


def in_place_sum(target: bool) -> Training:
    """As in_place, but what is added in place is the shortcut."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        y = block.down(block.up(F.relu(x, inplace=target)))
        y += x
        return y

    return Training(seeded(lambda: Net(forward)))


class Sharing(nn.Module):
    """Layers that all call one module, but those that leave it out."""

    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((WIDTH,), 1.1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cos(x) * self.weight

    class Layer(nn.Module):
        def __init__(self, rotary: nn.Module | None, shared: nn.Module) -> None:
            super().__init__()
            self.up = nn.Linear(WIDTH, WIDTH)
            self.rotary = shared
            self._rotary = [rotary]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.up(x)
            return torch.tanh(x if self._rotary[0] is None else self._rotary[0](x))

    def __init__(self, left_out: tuple[int, ...]) -> None:
        super().__init__()
        shared = Sharing.Rotary()
        self.layers = nn.ModuleList(
            Sharing.Layer(None if i in left_out else shared, shared) for i in range(5)
        )
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def shared(reference: tuple[int, ...], target: tuple[int, ...]) -> Callable[[bool], Training]:
    """Which layers leave the shared module out."""
    return lambda is_target: Training(seeded(lambda: Sharing(target if is_target else reference)))


def scaled(dtype: torch.dtype) -> Callable[[bool], Training]:
    factor = {False: 1.0, True: 0.7}

    def script(target: bool) -> Training:
        def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
            return x + block.down(block.act(block.up(block.norm(x)))) * factor[target]

        return Training(seeded(lambda: Net(forward)), dtype=dtype)

    return script


def negated(target: bool) -> Training:
    change = with_part("", (lambda x: -x) if target else (lambda x: x))
    return Training(seeded(lambda: Net(change)), dtype=torch.bfloat16)


def larger_input(target: bool) -> Training:
    return Training(seeded(Net), dtype=torch.bfloat16, scale=1.4 if target else 1.0)


def weight(factor: float, dtype: torch.dtype) -> Callable[[bool], Training]:
    def script(target: bool) -> Training:
        model = seeded(Net)
        if target:
            with torch.no_grad():
                model.get_submodule("blocks.1.up").weight.mul_(factor)
        return Training(model, dtype=dtype)

    return script


def eps(target: bool) -> Training:
    model = seeded(Net)
    if target:
        model.get_submodule("blocks.1.norm").eps = 0.5
    return Training(model, dtype=torch.bfloat16)


def silu(target: bool) -> Training:
    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        act = F.silu if target else F.gelu
        return x + block.down(act(block.up(block.norm(x))))

    return Training(seeded(lambda: Net(forward)), dtype=torch.bfloat16)


def subtracted(target: bool) -> Training:
    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        h = block.down(block.act(block.up(block.norm(x))))
        return x + (h - 0.3 * h if target else h)

    return Training(seeded(lambda: Net(forward)), dtype=torch.bfloat16)


def float_before_loss(script: Callable[[bool], Training]) -> Callable[[bool], Training]:
    """The same, with logits that are made float32: a cast is no culprit."""

    def with_float(target: bool) -> Training:
        training = script(target)
        training.loss = lambda logits, labels: cross_entropy(logits.float(), labels)
        return training

    return with_float


def _nan_at(y: torch.Tensor, row: int) -> torch.Tensor:
    """Methods, not operators: the debugger does not see them."""
    place = torch.zeros_like(y, dtype=torch.bool)
    place.select(0, row).select(0, 0).fill_(True)
    return y.masked_fill(place, math.nan)


def one_nan(target: bool) -> Training:
    """In the same place on both sides; all other elements differ."""

    def spoil(y: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            return _nan_at(torch.mul(y, 1.3 if target else 1.0), 0)

    return Training(seeded(lambda: Net(with_part("down", spoil))))


def nan_elsewhere(target: bool) -> Training:
    def spoil(y: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            return _nan_at(y, 5 if target else 0)

    return Training(seeded(lambda: Net(with_part("down", spoil))))


def double(target: bool) -> Training:
    def shift(y: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            return torch.mul(y, 1 + 1e-9 if target else 1.0)

    return Training(seeded(lambda: Net(with_part("down", shift))), dtype=torch.float64)


# ---- dtypes and masks


def wide_softmax(target: bool) -> Training:
    """Only the reference passes dtype=float32."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1))
        weights = F.softmax(scores, dim=-1) if target else F.softmax(scores, dim=-1, dtype=torch.float32)
        return torch.matmul(weights.to(v.dtype), v)

    return Training(seeded(lambda: Attending(attend)), dtype=torch.bfloat16, shape=(4, 16, WIDTH))


def other_dtype(target: bool) -> Training:
    """The same call with another dtype: what comes of it is matched, and has another precision."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        h = block.act(block.up(block.norm(x))).to(torch.bfloat16 if target else torch.float64)
        return x + block.down(h.to(x.dtype))

    return Training(seeded(lambda: Net(forward)))


def additive_mask(target: bool) -> Training:
    """Minimum, mean and norm of masked scores are infinite on both sides."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[-2]
        mask = torch.full((length, length), -math.inf, dtype=q.dtype).triu(2 if target else 1)
        weights = F.softmax(torch.matmul(q, k.transpose(-2, -1)) + mask, dim=-1)
        return torch.matmul(weights, v)

    return Training(seeded(lambda: Attending(attend)), shape=(4, 16, WIDTH))


def scores_before_mask(target: bool) -> Training:
    """A kernel that adds the mask and spoils what is not masked: only the maximum could tell."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[-2]
        mask = torch.full((length, length), -math.inf, dtype=q.dtype).triu(1)
        scores = torch.matmul(q, k.transpose(-2, -1)) + mask
        if target:
            with unrecorded():
                first = torch.zeros(length, length)
                first.select(1, 0).fill_(1.0).select(0, 0).zero_()
                scores = torch.sub(scores, first)
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)

    return Training(seeded(lambda: Attending(attend)), shape=(4, 16, WIDTH))


def mixed_with_noise(target: bool) -> Training:
    """bfloat16 goes in and float32 comes out, on another device."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        weights = F.softmax(torch.matmul(q, k.transpose(-2, -1)), dim=-1, dtype=torch.float32)
        return torch.matmul(weights.to(v.dtype), v)

    training = Training(
        seeded(lambda: Attending(attend)), dtype=torch.bfloat16, shape=(4, 16, WIDTH), steps=3
    )
    training.loss = lambda logits, labels: cross_entropy(logits.float(), labels)
    return _noisy(training) if target else training


def _noisy(training: Training, seed: int = 5) -> Training:
    training.contexts += (UnseenNoise(seed),)
    return training


# ---- losses and gradients: the kinds of msprobe diagnose


def _eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    return torch.matmul(F.softmax(scores, dim=-1), v)


def healthy(target: bool) -> Training:
    return Training(seeded(lambda: Attending(_eager)), shape=(4, 16, WIDTH), steps=4)


def last_bit_of_a_loss(folder: Path) -> None:
    """As another order of summation leaves it: all is equal but the loss of the last step."""
    path = folder / "losses.rank0.csv"
    header, *lines = path.read_text().splitlines()
    step, loss, *rest = lines[-1].split(",")
    bits = torch.tensor(float(loss), dtype=torch.float32).view(torch.int32).add_(1).view(torch.float32)
    lines[-1] = ",".join([step, repr(float(bits)), *rest])
    path.write_text("\n".join([header, *lines]) + "\n")


def noise_everywhere(target: bool) -> Training:
    return _noisy(healthy(target)) if target else healthy(target)


def fused_kernel(target: bool) -> Training:
    attend = F.scaled_dot_product_attention if target else _eager
    return Training(seeded(lambda: Attending(attend)), shape=(4, 16, WIDTH), steps=4)


def mask_prepared_otherwise(target: bool) -> Training:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        if target:
            mask = torch.zeros(hidden.shape, dtype=scores.dtype).masked_fill(
                hidden, torch.finfo(scores.dtype).min
            )
            scores = scores + mask
        else:
            scores = scores.masked_fill(hidden, -math.inf)
        return torch.matmul(F.softmax(scores, dim=-1), v)

    return Training(seeded(lambda: Attending(attend)), shape=(4, 16, WIDTH), steps=4)


def micro_steps(target: bool) -> Training:
    training = healthy(target)
    training.micro_steps = 2 if target else 1
    return training


class AdamW(torch.optim.Optimizer):
    """Written out, unrecorded as a fused kernel is. `rule` is no setting: it is in the source."""

    def __init__(self, parameters: Any, rule: str) -> None:
        super().__init__(parameters, {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01})
        self.rule = rule

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        with unrecorded():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._update(p, group)

    def _update(self, p: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        first, second = group["betas"]
        state["step"] += 1
        t = float(state["step"])
        state["exp_avg"].lerp_(p.grad, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
        corrections = (1.0, 1.0) if self.rule == "no bias correction" else (1 - first**t, 1 - second**t)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        variance = state["exp_avg_sq"] / corrections[1]
        if self.rule == "epsilon inside":
            root = (variance + group["eps"]).sqrt()
        else:
            root = variance.sqrt() + group["eps"]
        p.addcdiv_(state["exp_avg"] / corrections[0], root, value=-group["lr"])


def rule(rule: str) -> Callable[[bool], Training]:
    def script(target: bool) -> Training:
        training = healthy(target)
        training.optimizer = lambda parameters: AdamW(parameters, rule if target else "")
        return training

    return script


def step_of(name: str, settings: dict[str, Any]) -> Callable[[bool], Training]:
    """An optimizer of torch, whose source in the target takes a step a tenth larger."""
    base = getattr(torch.optim, name)

    def step(self: Any, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["lr"] *= 1.1
        loss = base.step(self, closure)
        for group in self.param_groups:
            group["lr"] /= 1.1
        return loss

    def script(target: bool) -> Training:
        made = type(name, (base,), {"step": step}) if target else base
        training = healthy(target)
        training.optimizer = lambda parameters: made(
            [p for p in parameters if p.dim() == 2 or name != "Muon"], **settings
        )
        return training

    return script


def unscaled_too_late(target: bool) -> Training:
    """The gradient is 256 times too large before it is clipped, and the same afterwards."""

    def clip(model: nn.Module) -> None:
        if target:
            with unrecorded():
                for parameter in model.parameters():
                    parameter.grad.mul_(256.0)
        nn.utils.clip_grad_norm_(model.parameters(), 1e-2)

    training = healthy(target)
    training.before_step = clip
    return training


def order_of_norms(target: bool) -> Training:
    """The norm of the same gradients, in another order."""

    def clip(model: nn.Module) -> None:
        parameters = list(model.parameters())
        nn.utils.clip_grad_norm_(parameters[::-1] if target else parameters, 0.1)

    training = healthy(target)
    training.before_step = clip
    return training


def extra_bias(target: bool) -> Training:
    """The target's keys have no bias: fewer parameters, and the layer that they are missing in."""

    def build() -> nn.Module:
        model = Attending(_eager)
        with torch.no_grad():
            model.mlp.up.bias.add_(0.2)
        if target:
            model.mlp.up.register_parameter("bias", None)
        return model

    return Training(seeded(build), shape=(4, 16, WIDTH), steps=3)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Attending(_eager)
        self.first, self.second = nn.Dropout(0.2), nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.second(self.first(x)))


def training_flag(target: bool) -> Training:
    """One dropout is in evaluation mode; all random numbers behind it are others."""
    model = seeded(Dropping)
    if target:
        model.first.eval()  # type: ignore[union-attr]
    return Training(model, shape=(4, 16, WIDTH), steps=3)
