# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Modes that a script enters and leaves, wherever that is in a step: they do what they do without us."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msprobe
import pytest
import torch
from children import run
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

STEPS = 6

# Modules of torch with modes of their own.
_MODULES = (
    "torch._subclasses.fake_tensor", "torch.distributed._tools.mem_tracker", "torch.distributed.tensor.debug",
    "torch.testing._internal.logging_tensor", "torch.utils._debug_mode", "torch.utils.flop_counter",
    "torch.utils.checkpoint", "torch.fx.experimental.proxy_tensor", "torch.cuda._sanitizer",
)  # fmt: skip


class Functions(TorchFunctionMode):
    """Keeps the names of what it sees."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


# ---- contexts, by name: what makes one of them, given where to write what it sees


def contexts() -> dict[str, Callable[[list[str]], Any]]:
    found: dict[str, Callable[[list[str]], Any]] = {
        "functions": Functions,
        "operators": Operators,
        "device": lambda _: torch.device("cpu"),
        "no torch function": lambda _: _of_class(torch._C.DisableTorchFunction),
        "no subclasses": lambda _: _of_class(torch._C.DisableTorchFunctionSubclass),
        "autocast": lambda _: torch.autocast("cpu", torch.bfloat16),
        "no autocast": lambda _: torch.autocast("cpu", enabled=False),
        "enable_grad": lambda _: torch.enable_grad(),
        "anomalies": lambda _: torch.autograd.detect_anomaly(check_nan=False),
        "saved tensors": lambda _: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
        "saved on CPU": lambda _: torch.autograd.graph.save_on_cpu(),
        "no threads": lambda _: torch.autograd.set_multithreading_enabled(False),
        "profiler": lambda _: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        "range": lambda _: torch.profiler.record_function("range"),
        "generators": lambda _: torch.random.fork_rng(),
        "attention": lambda _: nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH),
        "parametrizations": lambda _: nn.utils.parametrize.cached(),
        "flags": lambda _: torch.backends.mkldnn.flags(enabled=False),
        "default device": lambda _: _default_device(),
        "counter": lambda _: _module_of("torch.utils.flop_counter").FlopCounterMode(display=False),
        "tracker": lambda _: _module_of("torch.utils.module_tracker").ModuleTracker(),
    }
    for kind in (TorchFunctionMode, TorchDispatchMode):
        for mode in _subclasses(kind):
            if mode.__module__.startswith("torch.") and mode.__name__ not in _NOT_AROUND_A_TRAINING:
                with contextlib.suppress(Exception):  # one that has to be given something
                    mode()
                    found[mode.__name__] = lambda _, mode=mode: mode()
    return found


# What is computed under these are no numbers, or they are inside of others.
_NOT_AROUND_A_TRAINING = {
    "FakeTensorMode", "FunctionalTensorMode", "FakeCopyMode", "CrossRefFakeMode", "NoEnterTorchFunctionMode",
    "_CloneArgBeforeMutateMode", "PreDispatchTorchFunctionMode", "TransformGetItemToIndex",
    "_CachingTorchDispatchMode", "_CachedTorchDispatchMode", "PlacementTrackingMode", "LocalTensorMode",
    "_AnalyzeCustomOpInputOutputMode", "FSDPMemTracker", "MemTracker", "RuntimeEstimator", "SACEstimator",
    "CUDASanitizerDispatchMode", "CommDebugMode",
}  # fmt: skip


def _module_of(name: str) -> Any:
    return importlib.import_module(name)


@contextlib.contextmanager
def _of_class(guard: Any) -> Iterator[None]:
    with guard():
        yield


@contextlib.contextmanager
def _default_device() -> Iterator[None]:
    torch.set_default_device("cpu")
    yield
    torch.set_default_device(None)


def _subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


# ---- a training


class Stopped(Exception):
    pass


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer, self.stops = nn.Linear(4, 8), nn.Linear(8, 1), False

    def forward(self, x: Any) -> Any:
        if self.stops:
            raise Stopped
        return self.outer(nn.functional.gelu(self.inner(x)).softmax(-1))


class Entered:
    """Contexts that are entered and left at places of a training: "0 begin", "0 called", "0 stepped", ..."""

    def __init__(self, makers: list[Callable[[], Any]], places: list[tuple[str, str]]) -> None:
        self._makers, self._places = makers, places
        self._open: list[tuple[str, Any]] = []

    def __enter__(self) -> Entered:
        return self

    def __exit__(self, *error: Any) -> None:
        for _, context in reversed(self._open):
            context.__exit__(None, None, None)

    def at(self, place: str) -> None:
        while self._open and self._open[-1][0] == place:
            self._open.pop()[1].__exit__(None, None, None)
        assert all(until != place for until, _ in self._open), "contexts are nested"
        for index, (begin, end) in enumerate(self._places):
            if begin == place:
                context = self._makers[index % len(self._makers)]()
                context.__enter__()
                self._open.append((end, context))


# Of the first, of middle steps and of the last: around a call, from one step to the next, in one another.
PLACES = [
    ("0 begin", "0 called"),
    ("1 called", "2 begin"),
    ("2 begin", "4 begin"),
    ("2 stepped", "3 called"),
    ("4 called", "5 stepped"),
    ("5 begin", "5 called"),
]


def train(makers: list[Callable[[], Any]]) -> dict[str, Any]:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    x = torch.randn(STEPS, 5, 4)
    losses = []
    with Entered(makers, PLACES) as entered:
        for step in range(STEPS):
            entered.at(f"{step} begin")
            if step in (0, 3, STEPS - 1):
                net.stops = True
                with contextlib.suppress(Stopped), makers[0]():
                    net(x[step])
                net.stops = False
            y = net(x[step])
            entered.at(f"{step} called")
            loss = y.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            entered.at(f"{step} stepped")
            losses.append(loss)
    return {
        "losses": [loss.item().hex() for loss in losses],
        "weights": [p.detach().flatten()[:3].tolist() for p in net.parameters()],
        "stacks": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "state": (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), str(torch.zeros(1).device)),
    }


def around_a_training(directory: Path) -> dict[str, list[Any]]:
    """By the names of contexts: what a training is without and with us, and what they saw of it."""
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    results: dict[str, list[Any]] = {}
    pairs = [(name,) for name in contexts()]
    pairs += [
        ("functions", "operators"),
        ("device", "functions"),
        ("functions", "default device"),
        ("operators", "counter"),
    ]
    for number, names in enumerate(pairs):
        found = []
        for recorded in (False, True):
            seen: list[str] = []
            made = contexts()
            makers = [lambda make=made[name], seen=seen: make(seen) for name in names]
            block: Any = contextlib.nullcontext()
            if recorded:
                block = msprobe.capture(output=directory / str(number), steps="1-2,5")
            with block:
                try:
                    result = train(makers)
                except Exception as error:
                    result = {"error": f"{type(error).__name__}: {error}"}
            found.append({**result, "seen": seen})
        results[" in ".join(names)] = found
    return results


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    return run(around_a_training, tmp_path_factory.mktemp("modes"), timeout=300)


def test_contexts_of_a_script_do_what_they_do_without_us(trainings):
    assert len(trainings) > 25
    for name, (without, within) in trainings.items():
        assert within == without, name
    assert not any("error" in without for without, _ in trainings.values())
