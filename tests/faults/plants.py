# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is changed in the second run: faults, and healthy differences."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from models import Attention
from noise import WrongKernel, unrecorded
from torch import nn
from torch.utils.checkpoint import checkpoint
from training import STEPS, Training

Plant = Callable[[Training], None]


def nothing(training: Training) -> None:
    """The same run again."""


def both(first: Plant, second: Plant) -> Plant:
    def plant(training: Training) -> None:
        first(training)
        second(training)

    return plant


def other_code(module: nn.Module, **methods: Any) -> None:
    """Gives this one module other methods and properties, as if its class had been written so."""
    old = type(module)
    module.__class__ = type(
        old.__name__, (old,), {"__module__": old.__module__, "__qualname__": old.__qualname__, **methods}
    )


# ---- data


def token(step: int) -> Plant:
    def plant(training: Training) -> None:
        ids = training.batches[step][0]["ids"]
        ids[1, 3] = (ids[1, 3] + 5) % 40

    return plant


def labels_shifted(step: int) -> Plant:
    def plant(training: Training) -> None:
        batch = training.batches[step][0]
        batch["labels"] = batch["labels"].roll(1, dims=1)

    return plant


def batch_order(training: Training) -> None:
    training.batches[1], training.batches[2] = training.batches[2], training.batches[1]


def images_scaled(training: Training) -> None:
    for batches in training.batches:
        batches[0]["images"] *= 1.01


def label_of_loss(training: Training) -> None:
    labels = training.batches[1][0]["labels"]
    labels[2] = (labels[2] + 1) % 5


def labels_permuted(training: Training) -> None:
    """The labels of one batch in another order: no statistic of theirs is changed."""
    batch = training.batches[1][0]
    batch["labels"] = batch["labels"].roll(1)


def rank_data(training: Training) -> None:
    if training.rank == 1:
        training.batches[1] = training.batches[2]


def reversed_sequence(training: Training) -> None:
    for batches in training.batches:
        for batch in batches:
            batch["ids"] = batch["ids"].flip(1)


# ---- weights, buffers, settings of modules


def weight(name: str, step: int = 0) -> Plant:
    """One element is off, from the beginning of this step."""

    def plant(training: Training) -> None:
        def change() -> None:
            with torch.no_grad():
                training.parameters[name].view(-1)[3] += 0.05

        training.at("begin", step, change)

    return plant


def rank_weight(training: Training) -> None:
    if training.rank == 1:
        weight("outer.weight")(training)


def mask_off_by_one(training: Training) -> None:
    mask = training.module("blocks.1.attn").mask
    mask.copy_(torch.ones_like(mask).triu(2))


def running_variance(training: Training) -> None:
    training.module("bn2").running_var.fill_(0.5)


def attribute(path: str, **values: Any) -> Plant:
    def plant(training: Training) -> None:
        for name, value in values.items():
            assert hasattr(training.module(path), name)
            setattr(training.module(path), name, value)

    return plant


def eval_mode(path: str, step: int) -> Plant:
    def plant(training: Training) -> None:
        training.at("begin", step, training.module(path).eval)

    return plant


def padding_mode(training: Training) -> None:
    convolution = training.module("conv")
    convolution.padding_mode = "reflect"


def softmax_dim(training: Training) -> None:
    def attend(self: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        weights = F.softmax(scores.masked_fill(self.mask, float("-inf")), dim=-2)
        return torch.matmul(self.drop(weights), v)

    other_code(training.module("blocks.0.attn"), attend=attend)


def initial_state(training: Training) -> None:
    def initial(self: Any, ids: torch.Tensor) -> torch.Tensor:
        return torch.full((1, ids.shape[0], 16), 0.1, dtype=self.cell.weight_hh.dtype)

    other_code(training.model, initial=initial)


def loss_divisor(training: Training) -> None:
    training.loss_divisor = 1


# ---- which calls are made


def residual_missing(training: Training) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return self.drop(self.mlp(self.norm2(x)))

    other_code(training.module("blocks.1"), forward=forward)


def called_twice(training: Training) -> None:
    other_code(
        training.module("blocks.0.mlp"), forward=lambda self, x: self.down(self.act(self.act(self.up(x))))
    )


def relu_for_gelu(training: Training) -> None:
    other_code(training.module("blocks.0.mlp"), forward=lambda self, x: self.down(F.relu(self.up(x))))


def average_pool(training: Training) -> None:
    training.model.pool = nn.AvgPool2d(2)


def weights_not_normalised(training: Training) -> None:
    other_code(training.module("moe"), combine=lambda self, weights: weights)


def bfloat16_layer(training: Training) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        low = F.linear(x.to(torch.bfloat16), self.weight.to(torch.bfloat16), self.bias.to(torch.bfloat16))
        return low.to(x.dtype)

    other_code(training.module("blocks.1.mlp.down"), forward=forward)


def changed_in_place(training: Training) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        if self.training_step == 1:
            x.mul_(1.02)
        return x + self.drop(self.mlp(self.norm2(x)))

    _with_step(training, "blocks.1", forward)


def overwritten(training: Training) -> None:
    """Memory that something else writes to, which no record shows."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        if self.training_step == 1:
            with unrecorded():
                x.data[0, :4].mul_(1.5)
        return x + self.drop(self.mlp(self.norm2(x)))

    _with_step(training, "blocks.1", forward)


def _with_step(training: Training, path: str, forward: Callable[..., Any]) -> None:
    """`forward` finds the step of the training in `training_step`, which is no attribute of the module."""
    now = {"step": 0}
    for step in range(STEPS):
        training.at("begin", step, lambda step=step: now.update(step=step))
    module = training.module(path)
    other_code(module, forward=forward, training_step=property(lambda self: now["step"]))


# ---- kernels

Change = Callable[[Any, str], object]
"""Spoils the result of a kernel in place; given the precision of the training as well."""

_ROUNDING = {"float32": 2.0**-24, "autocast": 2.0**-8, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def _seen(factor: float, precision: str) -> float:
    """The factor, but at least 64 roundings away from 1: less is no fault in so low a precision."""
    return 1.0 + math.copysign(max(abs(factor - 1.0), 64 * _ROUNDING[precision]), factor - 1.0)


def kernel(name: str, change: Change, step: int | None = None, calls: tuple[int, ...] | None = None) -> Plant:
    def plant(training: Training) -> None:
        wrong = WrongKernel(name, lambda result: change(result, training.precision), step=step, calls=calls)
        for number in range(STEPS):
            training.at("begin", number, lambda number=number: wrong.begin(number))
        training.contexts.append(wrong)

    return plant


def _first(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


def one_element(by: float) -> Change:
    return lambda result, _: _first(result).view(-1)[17].add_(by)


def scaled(factor: float) -> Change:
    return lambda result, precision: _first(result).mul_(_seen(factor, precision))


def last_column(factor: float) -> Change:
    return lambda result, precision: _first(result)[..., -8:].mul_(_seen(factor, precision))


def one_channel(factor: float) -> Change:
    return lambda result, precision: _first(result)[:, 2].mul_(_seen(factor, precision))


def second_result(factor: float) -> Change:
    return lambda result, precision: result[1].mul_(_seen(factor, precision))


def one_dropped(result: Any, precision: str) -> None:
    """The mask of one sample is that of another."""
    _first(result)[0].copy_(_first(result)[1])


def routing(result: Any, precision: str) -> None:
    """The first two tokens get the experts of each other."""
    for part in result:
        part[:2].copy_(part[:2].flip(0).clone())
    result[1][0].add_(1).remainder_(4)


def not_a_number(result: Any, precision: str) -> None:
    _first(result).view(-1)[5] = float("nan")


# ---- backward


def gradient_scaled(name: str, factor: float, step: int | None = None) -> Plant:
    def plant(training: Training) -> None:
        now = {"step": 0}
        for number in range(STEPS):
            training.at("begin", number, lambda number=number: now.update(step=number))

        scale = _seen(factor, training.precision)

        def hook(gradient: torch.Tensor) -> torch.Tensor:
            with unrecorded():
                return torch.mul(gradient, scale if step in (None, now["step"]) else 1.0)

        training.parameters[name].register_hook(hook)

    return plant


def detached(training: Training) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x)).detach()
        return x + self.drop(self.mlp(self.norm2(x)))

    other_code(training.module("blocks.1"), forward=forward)


def frozen(training: Training) -> None:
    training.parameters["bn1.weight"].requires_grad_(False)


def not_zeroed(training: Training) -> None:
    training.zero_grad_steps.remove(1)


# ---- recomputation and randomness


def recompute_mask(training: Training) -> None:
    """The recomputation draws its dropout anew."""
    other_code(
        training.model,
        run_block=lambda self, block, x: checkpoint(block, x, use_reentrant=False, preserve_rng_state=False),
    )


def seed(training: Training) -> None:
    training.build(seed=8)


def drawn_between_steps(training: Training) -> None:
    training.at("begin", 1, lambda: torch.rand(1))


def drawn_in_block(training: Training) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        if self.training_step == 1:
            with unrecorded():
                torch.rand(1)
        x = x + self.attn(self.norm1(x))
        return x + self.drop(self.mlp(self.norm2(x)))

    _with_step(training, "blocks.1", forward)


# ---- communication


def reduced_to_sum(training: Training) -> None:
    """A communication hook that forgets to divide by the number of ranks."""
    import torch.distributed as dist

    def hook(state, bucket):  # type: ignore[no-untyped-def]  # torch reads the annotations of a hook
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])

    training.wrapped.register_comm_hook(None, hook)


def not_synchronised(training: Training) -> None:
    training.unsynchronised_steps.add(1)


def rank_reduction(training: Training) -> None:
    """Rank 1 receives something else than rank 0."""
    if training.rank == 1:
        kernel("allreduce_", _received(1.02), 1)(training)


def _received(factor: float) -> Change:
    def change(result: Any, precision: str) -> None:
        tensors, work = result
        work.wait()
        tensors[0].mul_(_seen(factor, precision))

    return change


def rank_gradient(training: Training) -> None:
    if training.rank == 1:
        gradient_scaled("inner.weight", 1.05)(training)


def reduce_op(training: Training) -> None:
    import torch.distributed as dist

    training.reduce_op = dist.ReduceOp.MAX


def not_divided(training: Training) -> None:
    training.reduce_divisor = 1.0


def all_reduce_kernel(training: Training) -> None:
    if training.rank == 0:
        kernel("allreduce_", _received(1.03), 1, (2,))(training)


# ---- clipping and optimizer


def max_norm(training: Training) -> None:
    training.max_norm = 0.25


def norm_type(training: Training) -> None:
    training.norm_type = float("inf")


def not_clipped(training: Training) -> None:
    training.max_norm = None


def group(**values: Any) -> Plant:
    """Settings of the first group of the optimizer, from the beginning."""

    def plant(training: Training) -> None:
        settings = training.optimizer.param_groups[0]
        assert set(values) <= set(settings)
        settings.update(values)

    return plant


def learning_rate_later(training: Training) -> None:
    training.at("optimizer", 2, lambda: group(lr=2e-3)(training))


def other_optimizer(training: Training) -> None:
    training.use_optimizer(torch.optim.Adam(training.model.parameters(), lr=3e-3, weight_decay=0.05))


def rank_learning_rate(training: Training) -> None:
    if training.rank == 1:
        group(lr=2e-3)(training)


def state_reset(key: str, name: str, step: int) -> Plant:
    def plant(training: Training) -> None:
        training.at("begin", step, lambda: training.optimizer.state[training.parameters[name]][key].zero_())

    return plant


def momentum_lost(training: Training) -> None:
    training.at("begin", 2, training.optimizer.state.clear)


def step_skipped(training: Training) -> None:
    training.optimizer_steps.remove(1)


# ---- healthy: the same mathematics


def fused_attention(training: Training) -> None:
    """One fused function in place of five."""

    def attend(self: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~self.mask, scale=self.scale)

    for module in training.model.modules():
        if isinstance(module, Attention):
            other_code(module, attend=attend)


def split_linear(training: Training) -> None:
    """A product and an addition in place of `linear`."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.matmul(x, self.weight.t())
        return y if self.bias is None else y + self.bias

    for module in training.model.modules():
        if isinstance(module, nn.Linear):
            other_code(module, forward=forward)


def double_softmax(training: Training) -> None:
    """The softmax of the attention in double, and back: casts that the reference lacks."""

    def attend(self: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = (torch.matmul(q, k.transpose(-2, -1)) * self.scale).double()
        weights = F.softmax(scores.masked_fill(self.mask, float("-inf")), dim=-1)
        return torch.matmul(self.drop(weights.to(v.dtype)), v)

    for module in training.model.modules():
        if isinstance(module, Attention):
            other_code(module, attend=attend)


def foreach_optimizer(training: Training) -> None:
    parameters = training.model.parameters()
    training.use_optimizer(torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.05, foreach=True))


def fused_optimizer(training: Training) -> None:
    parameters = training.model.parameters()
    training.use_optimizer(torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.05, fused=True))


@contextlib.contextmanager
def _no_mkldnn() -> Iterator[None]:
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def without_mkldnn(training: Training) -> None:
    training.contexts.append(_no_mkldnn())


def more_threads(training: Training) -> None:
    training.at("begin", 0, lambda: torch.set_num_threads(2))


def channels_last(training: Training) -> None:
    training.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for batches in training.batches:
        batches[0]["images"] = batches[0]["images"].contiguous(memory_format=torch.channels_last)


def gradients_kept(training: Training) -> None:
    """Gradients are set to zero, not to None."""
    training.zero_to_none = False


def not_recomputed(training: Training) -> None:
    other_code(training.model, run_block=lambda self, block, x: block(x))


def gradient_buckets(training: Training) -> None:
    """Another size of the buckets that are reduced at once."""
    training.wrapped = nn.parallel.DistributedDataParallel(training.model, bucket_cap_mb=1e-3)
