# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Small pairs of runs that a verdict once got wrong, each with the right answer.

Every pair is one script, run twice: `script(True)` is the target. Most are asked of `msprobe compare`, in
each of the four ways to record; those with losses, gradients or an optimizer of `msprobe diagnose`.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from judging import DIFFER, SAME
from noise import unrecorded
from torch import nn
from unseen_noise import UnseenNoise

WIDTH = 32

RECORDINGS: dict[str, dict[str, Any]] = {
    "bare": {"task": "statistics", "level": "mix"},
    "diagnosis": {"task": "statistics", "level": "mix", "statistics": {"diagnosis": ["all"]}},
    "md5": {"task": "statistics", "level": "mix", "statistics": {"summary_mode": "md5"}},
    "tensor": {"task": "tensor", "level": "mix"},
}


@dataclass(frozen=True)
class Pair:
    name: str
    script: Callable[[bool], Training]
    statuses: tuple[str, ...] = DIFFER
    culprit: str = ""
    """Regular expression: in kind, name, module or operator of the first culprit."""
    mentions: str = ""
    """Regular expression: anywhere in the file of the answer."""
    recordings: tuple[str, ...] = tuple(RECORDINGS)
    """Empty: asked of msprobe diagnose, about runs of msprobe.capture()."""
    after: Callable[[Path], None] | None = None
    """What is done to the folder of the target's run."""

    @property
    def ways(self) -> tuple[str, ...]:
        return self.recordings or ("diagnose",)


# ---- models and trainings


class Block(nn.Module):
    """A residual block, whose parts can be replaced: `change(block, name, x)` is asked at each of them."""

    def __init__(self, width: int, change: Change | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(2 * width, width)
        self._change = [change]  # in a list: no setting of the module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        change = self._change[0]
        if change is not None:
            return change(self, x)
        return x + self.down(self.act(self.up(self.norm(x))))


Change = Callable[[Block, torch.Tensor], torch.Tensor]


class Net(nn.Module):
    def __init__(
        self, change: Change | None = None, blocks: int = 3, head: Callable[..., Any] | None = None
    ) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, change if i == 1 else None) for i in range(blocks))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 8)
        self._logits = [head or (lambda logits: logits)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self._logits[0](self.head(self.last(x)))


class Attention(nn.Module):
    """With a bias of the keys, whose gradient is zero but for rounding."""

    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self._attend = [attend]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part(x).unflatten(-1, (4, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        return self.out(self._attend[0](q, k, v).transpose(1, 2).flatten(2))


class Attending(nn.Module):
    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = Attention(attend)
        self.mlp = Block(WIDTH, None)
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        x = self.mlp(x + self.attention(self.norm(x)))
        return self.head(x)


@dataclass
class Training:
    """`contexts` are entered around it; `grown`: what the optimizer gets is changed by this."""

    model: nn.Module
    dtype: torch.dtype = torch.float32
    shape: tuple[int, ...] = (16, WIDTH)
    scale: float = 1.0
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda p: torch.optim.AdamW(p, lr=1e-3)
    before_step: Callable[[nn.Module], object] = lambda model: None
    contexts: tuple[contextlib.AbstractContextManager[Any], ...] = ()
    steps: int = 1
    micro_steps: int = 1

    def run(self, start: Callable[[nn.Module], None], stop: Callable[[], None]) -> None:
        self.model.to(self.dtype)
        optimizer = self.optimizer(self.model.parameters())
        with contextlib.ExitStack() as stack:
            for context in self.contexts:
                stack.enter_context(context)
            for step in range(self.steps):
                x, labels = self._batch(step)
                start(self.model)
                optimizer.zero_grad()
                for part, goal in zip(x.chunk(self.micro_steps), labels.chunk(self.micro_steps)):
                    logits = self.model(part)
                    loss = (self.loss or _cross_entropy)(logits, goal)
                    (loss / self.micro_steps if self.micro_steps > 1 else loss).backward()
                self.before_step(self.model)
                optimizer.step()
                stop()

    def _batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(100 + step)
        x = torch.randn(self.shape, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, 8, self.shape[:-1], generator=generator)
        return (x * self.scale).to(self.dtype), labels


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(7)
    return build()


def _with(part: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """As all blocks, but `change` is done to what comes out of a part ("": to what goes in)."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        y = change(x) if part == "" else x
        shortcut = y
        for name in ("norm", "up", "act", "down"):
            y = getattr(block, name)(y)
            y = change(y) if part == name else y
        return shortcut + y

    return forward


# ---- nothing may be swallowed


def _in_place(target: bool) -> Training:
    """A ReLU that works in place overwrites what the shortcut adds afterwards."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        return x + block.down(block.up(F.relu(x, inplace=target)))

    return Training(seeded(lambda: Net(forward)))


def _in_place_module(target: bool) -> Training:
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


def _where(target: bool) -> Training:
    """Its first consumer hides it: relu gives the same. Its second one does not."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        if target:
            x = torch.where(x < 0, 1.5 * x, x)
        return x + block.down(block.up(F.relu(x)))

    def reference(block: Block, x: torch.Tensor) -> torch.Tensor:
        return x + block.down(block.up(F.relu(x)))

    return Training(seeded(lambda: Net(forward if target else reference)))


def _where_unrecorded(target: bool) -> Training:
    """The same where no call shows it: between two uses the tensor is another one."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            x = torch.where(torch.lt(x, 0), torch.mul(x, 1.5 if target else 1.0), x)
        return x + block.down(block.up(F.relu(x)))

    return Training(seeded(lambda: Net(forward)))


def _in_place_sum(target: bool) -> Training:
    """As _in_place, but what is added in place is the shortcut."""

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


def _shared(reference: tuple[int, ...], target: tuple[int, ...]) -> Callable[[bool], Training]:
    """Which layers leave the shared module out."""
    return lambda is_target: Training(seeded(lambda: Sharing(target if is_target else reference)))


def _scaled(dtype: torch.dtype) -> Callable[[bool], Training]:
    factor = {False: 1.0, True: 0.7}

    def script(target: bool) -> Training:
        def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
            return x + block.down(block.act(block.up(block.norm(x)))) * factor[target]

        return Training(seeded(lambda: Net(forward)), dtype=dtype)

    return script


def _negated(target: bool) -> Training:
    change = _with("", (lambda x: -x) if target else (lambda x: x))
    return Training(seeded(lambda: Net(change)), dtype=torch.bfloat16)


def _larger_input(target: bool) -> Training:
    return Training(seeded(Net), dtype=torch.bfloat16, scale=1.4 if target else 1.0)


def _weight(factor: float, dtype: torch.dtype) -> Callable[[bool], Training]:
    def script(target: bool) -> Training:
        model = seeded(Net)
        if target:
            with torch.no_grad():
                model.get_submodule("blocks.1.up").weight.mul_(factor)
        return Training(model, dtype=dtype)

    return script


def _eps(target: bool) -> Training:
    model = seeded(Net)
    if target:
        model.get_submodule("blocks.1.norm").eps = 0.5
    return Training(model, dtype=torch.bfloat16)


def _silu(target: bool) -> Training:
    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        act = F.silu if target else F.gelu
        return x + block.down(act(block.up(block.norm(x))))

    return Training(seeded(lambda: Net(forward)), dtype=torch.bfloat16)


def _subtracted(target: bool) -> Training:
    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        h = block.down(block.act(block.up(block.norm(x))))
        return x + (h - 0.3 * h if target else h)

    return Training(seeded(lambda: Net(forward)), dtype=torch.bfloat16)


def _float_before_loss(script: Callable[[bool], Training]) -> Callable[[bool], Training]:
    """The same, with logits that are made float32: a cast is no culprit."""

    def with_float(target: bool) -> Training:
        training = script(target)
        training.loss = lambda logits, labels: _cross_entropy(logits.float(), labels)
        return training

    return with_float


def _nan_at(y: torch.Tensor, row: int) -> torch.Tensor:
    """Methods, not operators: the debugger does not see them."""
    place = torch.zeros_like(y, dtype=torch.bool)
    place.select(0, row).select(0, 0).fill_(True)
    return y.masked_fill(place, math.nan)


def _one_nan(target: bool) -> Training:
    """In the same place on both sides; all other elements differ."""

    def spoil(y: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            return _nan_at(torch.mul(y, 1.3 if target else 1.0), 0)

    return Training(seeded(lambda: Net(_with("down", spoil))))


def _nan_elsewhere(target: bool) -> Training:
    def spoil(y: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            return _nan_at(y, 5 if target else 0)

    return Training(seeded(lambda: Net(_with("down", spoil))))


def _double(target: bool) -> Training:
    def shift(y: torch.Tensor) -> torch.Tensor:
        with unrecorded():
            return torch.mul(y, 1 + 1e-9 if target else 1.0)

    return Training(seeded(lambda: Net(_with("down", shift))), dtype=torch.float64)


# ---- dtypes and masks


def _wide_softmax(target: bool) -> Training:
    """Only the reference passes dtype=float32."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1))
        weights = F.softmax(scores, dim=-1) if target else F.softmax(scores, dim=-1, dtype=torch.float32)
        return torch.matmul(weights.to(v.dtype), v)

    return Training(seeded(lambda: Attending(attend)), dtype=torch.bfloat16, shape=(4, 16, WIDTH))


def _other_dtype(target: bool) -> Training:
    """The same call with another dtype: what comes of it is matched, and has another precision."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        h = block.act(block.up(block.norm(x))).to(torch.bfloat16 if target else torch.float64)
        return x + block.down(h.to(x.dtype))

    return Training(seeded(lambda: Net(forward)))


def _additive_mask(target: bool) -> Training:
    """Minimum, mean and norm of masked scores are infinite on both sides."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[-2]
        mask = torch.full((length, length), -math.inf, dtype=q.dtype).triu(2 if target else 1)
        weights = F.softmax(torch.matmul(q, k.transpose(-2, -1)) + mask, dim=-1)
        return torch.matmul(weights, v)

    return Training(seeded(lambda: Attending(attend)), shape=(4, 16, WIDTH))


def _scores_before_mask(target: bool) -> Training:
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


def _mixed_with_noise(target: bool) -> Training:
    """bfloat16 goes in and float32 comes out, on another device."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        weights = F.softmax(torch.matmul(q, k.transpose(-2, -1)), dim=-1, dtype=torch.float32)
        return torch.matmul(weights.to(v.dtype), v)

    training = Training(
        seeded(lambda: Attending(attend)), dtype=torch.bfloat16, shape=(4, 16, WIDTH), steps=3
    )
    training.loss = lambda logits, labels: _cross_entropy(logits.float(), labels)
    return _noisy(training) if target else training


def _noisy(training: Training, seed: int = 5) -> Training:
    training.contexts += (UnseenNoise(seed),)
    return training


# ---- losses and gradients: the kinds of msprobe diagnose


def _eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    return torch.matmul(F.softmax(scores, dim=-1), v)


def _healthy(target: bool) -> Training:
    return Training(seeded(lambda: Attending(_eager)), shape=(4, 16, WIDTH), steps=4)


def _last_bit_of_a_loss(folder: Path) -> None:
    """As another order of summation leaves it: all is equal but the loss of the last step."""
    path = folder / "losses.rank0.csv"
    header, *lines = path.read_text().splitlines()
    step, loss, *rest = lines[-1].split(",")
    bits = torch.tensor(float(loss), dtype=torch.float32).view(torch.int32).add_(1).view(torch.float32)
    lines[-1] = ",".join([step, repr(float(bits)), *rest])
    path.write_text("\n".join([header, *lines]) + "\n")


def _noise_everywhere(target: bool) -> Training:
    return _noisy(_healthy(target)) if target else _healthy(target)


def _fused_kernel(target: bool) -> Training:
    attend = F.scaled_dot_product_attention if target else _eager
    return Training(seeded(lambda: Attending(attend)), shape=(4, 16, WIDTH), steps=4)


def _mask_prepared_otherwise(target: bool) -> Training:
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


def _micro_steps(target: bool) -> Training:
    training = _healthy(target)
    training.micro_steps = 2 if target else 1
    return training


class AdamW(torch.optim.Optimizer):
    """Written out, unrecorded as a fused kernel is. `rule` is no setting: it is in the source."""

    def __init__(self, parameters: Any, rule: str) -> None:
        super().__init__(parameters, {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01})
        self._rule = rule

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
        corrections = (1.0, 1.0) if self._rule == "no bias correction" else (1 - first**t, 1 - second**t)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        variance = state["exp_avg_sq"] / corrections[1]
        if self._rule == "epsilon inside":
            root = (variance + group["eps"]).sqrt()
        else:
            root = variance.sqrt() + group["eps"]
        p.addcdiv_(state["exp_avg"] / corrections[0], root, value=-group["lr"])


def _rule(rule: str) -> Callable[[bool], Training]:
    def script(target: bool) -> Training:
        training = _healthy(target)
        training.optimizer = lambda parameters: AdamW(parameters, rule if target else "")
        return training

    return script


def _step_of(name: str, settings: dict[str, Any]) -> Callable[[bool], Training]:
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
        training = _healthy(target)
        training.optimizer = lambda parameters: made(
            [p for p in parameters if p.dim() == 2 or name != "Muon"], **settings
        )
        return training

    return script


def _unscaled_too_late(target: bool) -> Training:
    """The gradient is 256 times too large before it is clipped, and the same afterwards."""

    def clip(model: nn.Module) -> None:
        if target:
            with unrecorded():
                for parameter in model.parameters():
                    parameter.grad.mul_(256.0)
        nn.utils.clip_grad_norm_(model.parameters(), 1e-2)

    training = _healthy(target)
    training.before_step = clip
    return training


def _order_of_norms(target: bool) -> Training:
    """The norm of the same gradients, in another order."""

    def clip(model: nn.Module) -> None:
        parameters = list(model.parameters())
        nn.utils.clip_grad_norm_(parameters[::-1] if target else parameters, 0.1)

    training = _healthy(target)
    training.before_step = clip
    return training


def _extra_bias(target: bool) -> Training:
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


def _training_flag(target: bool) -> Training:
    """One dropout is in evaluation mode; all random numbers behind it are others."""
    model = seeded(Dropping)
    if target:
        model.first.eval()  # type: ignore[union-attr]
    return Training(model, shape=(4, 16, WIDTH), steps=3)


PAIRS = (
    Pair("in_place", _in_place, culprit="relu|blocks.1|in.place", mentions=r"relu"),
    Pair("in_place_sum", _in_place_sum, culprit="relu|blocks.1|in.place", mentions=r"relu"),
    Pair(
        "in_place_module",
        _in_place_module,
        culprit=r"relu|0\.act|__add__|in.?place",
        mentions=r"inplace|in place",
    ),
    Pair("where_hidden_by_relu", _where, culprit=r"where|__lt__|mul__|blocks\.1"),
    Pair("where_unrecorded", _where_unrecorded, culprit=r"relu|__add__|blocks\.1"),
    Pair(
        "shared_module_missing",
        _shared((), (2,)),
        culprit=r"missing_call.*rotary\.\w+\.forward\.2.*layers\.2",
    ),
    Pair("shared_module_extra", _shared((2,), ()), culprit=r"extra_call.*rotary\.\w+\.forward\.2.*layers\.2"),
    Pair(
        "shared_module_elsewhere",
        _shared((3,), (1,)),
        culprit=r"missing_call.*rotary\.\w+\.forward\.1.*layers\.1",
        mentions=r"extra_call",
    ),
    Pair(
        "shared_module_diagnosed",
        _shared((), (2, 3)),
        recordings=(),
        culprit=r"rotary\.\w+\.forward\.2.*layers\.2",
        mentions=r"the third call of layers\.0\.rotary in layers\.2 is not called by the target",
    ),
    Pair("argument_float32", _scaled(torch.float32), culprit=r"__mul__"),
    Pair("argument_bfloat16", _scaled(torch.bfloat16), culprit=r"__mul__"),
    Pair("negated_bfloat16", _negated, culprit=r"__neg__|neg|blocks\.1"),
    Pair("input_bfloat16", _larger_input, culprit=r"input_data|argument|first|linear\.0"),
    Pair("weight_larger_bfloat16", _weight(1.9, torch.bfloat16), culprit=r"blocks\.1\.up|linear\.3"),
    Pair("weight_smaller_bfloat16", _weight(0.6, torch.bfloat16), culprit=r"blocks\.1\.up|linear\.3"),
    Pair("eps_bfloat16", _eps, culprit=r"blocks\.1\.norm|layer_norm\.1"),
    Pair("silu_bfloat16", _silu, culprit=r"silu|gelu|blocks\.1"),
    Pair("subtracted_bfloat16", _subtracted, culprit=r"__sub__|__mul__|__rmul__|blocks\.1"),
    Pair("weight_float16", _weight(1.05, torch.float16), culprit=r"blocks\.1\.up|linear\.3"),
    Pair(
        "float_before_loss_weight",
        _float_before_loss(_weight(1.9, torch.bfloat16)),
        culprit=r"blocks\.1\.up|linear\.3",
    ),
    Pair("float_before_loss_eps", _float_before_loss(_eps), culprit=r"blocks\.1\.norm|layer_norm\.1"),
    Pair("float_before_loss_silu", _float_before_loss(_silu), culprit=r"silu|gelu|blocks\.1"),
    Pair("float_before_loss_argument", _float_before_loss(_scaled(torch.bfloat16)), culprit=r"__mul__"),
    Pair("one_nan", _one_nan, culprit=r"blocks\.1|linear\.4|__add__"),
    Pair(
        "nan_elsewhere", _nan_elsewhere, recordings=("md5", "tensor"), culprit=r"blocks\.1|linear\.4|__add__"
    ),
    Pair("float64", _double, culprit=r"blocks\.1|linear\.4|__add__"),
    Pair("wide_softmax", _wide_softmax, culprit=r"softmax"),
    Pair("other_dtype", _other_dtype, culprit=r"Tensor\.to|blocks\.1"),
    Pair("additive_mask", _additive_mask, culprit=r"mask|triu|__add__|attention"),
    Pair("scores_before_mask", _scores_before_mask, culprit=r"softmax|__add__|attention"),
    Pair("mixed_with_noise", _mixed_with_noise, statuses=SAME),
    Pair("loss_last_bit", _healthy, statuses=SAME, recordings=(), after=_last_bit_of_a_loss),
    Pair("noise_everywhere", _noise_everywhere, statuses=SAME, recordings=()),
    Pair("fused_kernel", _fused_kernel, statuses=SAME, recordings=()),
    Pair("mask_prepared_otherwise", _mask_prepared_otherwise, statuses=SAME, recordings=()),
    Pair("micro_steps", _micro_steps, statuses=SAME, recordings=()),
    Pair("order_of_norms", _order_of_norms, statuses=SAME, recordings=()),
    Pair("mixed_with_noise_diagnosed", _mixed_with_noise, statuses=SAME, recordings=()),
    Pair("epsilon_inside", _rule("epsilon inside"), recordings=(), culprit=r"optimizer|update|rule"),
    Pair("no_bias_correction", _rule("no bias correction"), recordings=(), culprit=r"optimizer|update|rule"),
    *(
        Pair(f"step_of_{name}", _step_of(name, settings), recordings=(), culprit=r"optimizer|update|rule")
        for name, settings in (
            ("SGD", {"lr": 0.1, "momentum": 0.9}),
            ("Adam", {"lr": 1e-3}),
            ("AdamW", {"lr": 1e-3}),
            ("Adafactor", {"lr": 1e-2}),
            ("Muon", {"lr": 1e-2}),
        )
    ),
    Pair(
        "unscaled_too_late", _unscaled_too_late, recordings=(), culprit=r"^(?!.*key\.bias).*(clip|gradient)"
    ),
    Pair("parameter_missing", _extra_bias, recordings=(), culprit=r"mlp\.up"),
    Pair("training_flag", _training_flag, recordings=(), culprit=r"first.*|training"),
    Pair("where_hidden_by_relu_diagnosed", _where, recordings=(), culprit=r"where|__lt__|mul__|blocks\.1"),
    Pair(
        "weight_diagnosed_bfloat16",
        _weight(0.6, torch.bfloat16),
        recordings=(),
        culprit=r"blocks\.1\.up|linear\.3",
    ),
)
BY_PAIR = {pair.name: pair for pair in PAIRS}


# ---- recording one side, in a process of its own


def record(name: str, way: str, *, target: bool, folder: Path) -> None:
    torch.set_num_threads(1)
    training = BY_PAIR[name].script(target)
    folder.mkdir(parents=True)
    if way == "diagnose":
        _captured(training, folder / "run")
    else:
        _dumped(training, folder, RECORDINGS[way])
    if target and BY_PAIR[name].after is not None:
        BY_PAIR[name].after(folder / "run")


def _captured(training: Training, output: Path) -> None:
    import msprobe

    with msprobe.capture(output=output, steps="all"):
        training.run(lambda model: None, lambda: None)


def _dumped(training: Training, folder: Path, config: dict[str, Any]) -> None:
    from msprobe import PrecisionDebugger

    path = folder / "config.json"
    path.write_text(json.dumps({**config, "dump_path": str(folder / "dump")}))
    probe = PrecisionDebugger(path)

    def stop() -> None:
        probe.stop()
        probe.step()

    training.run(probe.start, stop)
