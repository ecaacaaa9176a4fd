# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What can be changed in a training from outside, by name and value: one row per kind.

| name | what it changes | from when on | needs |
|---|---|---|---|
| env.NAME | a variable of the environment | before the command starts (launch.py) | |
| fixed.time, .urandom, .pid, .generators | the answer to a line of the user | the start | |
| seed.python, .numpy, .torch | the seed of the generator, until the script seeds | the import of torch | |
| torch.NAME | a switch: deterministic, num_threads, ..., until the script sets it | the import of torch | |
| data.workers | of every DataLoader | the import of torch | |
| compile.backend | of every torch.compile: off, eager, aot_eager, inductor | the import of torch | |
| optimizer.NAME, optimizer.groups.N.NAME | of every group, or one | each step of an optimizer | |
| optimizer.initial_lr, optimizer.groups.N.initial_lr | what a scheduler begins with | it is made | |
| clip.max_norm, .norm_type, .clip_value | the argument of calls that clip gradients | each step | |
| MODULE.NAME | an attribute of a module; MODULE.PARAMETER.requires_grad | each step | |
| precision.MODULE | what it computes in (precision.py), for the time of a call | each step | |
| transplant.MODULE | its results and gradients (transplant.py) | kept steps | run --keep MODULE |
| feed.weights, .optimizer | the values of another run (feed.py) | first kept step | run --keep-values |
| feed.random, .inputs, .gradients, .update | the same | kept steps | run --keep-values |
| feed.loss | the gradient that the model gets of the loss (transplant.py) | kept steps | the same |

What is set is undone by the end of the process alone: a script that sets it later has its way.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import os
from typing import TYPE_CHECKING, Any

from msprobe.experiment import sources, updates
from msprobe.experiment.along_the_training import modules_of
from msprobe.experiment.ending import end_process
from msprobe.experiment.kept import KINDS
from msprobe.experiment.precision import DTYPES, Precision
from msprobe.native import InvalidArgument
from msprobe.recording.recorder import QuietRecorder
from msprobe.training.phases import watch_clipping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.experiment.plan import Change
    from msprobe.recording.recorder import Recorder
    from msprobe.training.phases import CallWatch

_ROOMS = (
    "env",
    "seed",
    "fixed",
    "torch",
    "data",
    "compile",
    "optimizer",
    "clip",
    "feed",
    "precision",
    "transplant",
)
"""The first word of a name that is none of a module. A module of that name is `model.NAME`."""


def room_of(name: str) -> str:
    """ "module" where the first word is none of a kind."""
    first = name.partition(".")[0]
    return first if first in _ROOMS and "." in name else "module"


def value_of(text: str) -> Any:
    """A number, True, False, None, a tuple, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "null": None}.get(text, text)


def check(changes: Sequence[Change]) -> None:
    """Raises InvalidArgument for what no kind takes."""
    for change in changes:
        room, _, rest = change.name.partition(".")
        if room_of(change.name) == "module" and "." not in change.name.strip("."):
            raise InvalidArgument(f"{change.said}: expected MODULE.ATTRIBUTE, or one of {', '.join(_ROOMS)}")
        if room in _KNOWN and rest not in _KNOWN[room]:
            raise InvalidArgument(f"{change.said}: expected {room}. and one of {', '.join(_KNOWN[room])}")
        if room == "precision" and change.value not in DTYPES:
            raise InvalidArgument(f"{change.said}: expected one of {', '.join(DTYPES)}")
        if room == "compile" and change.value not in BACKENDS:
            raise InvalidArgument(f"{change.said}: expected one of {', '.join(BACKENDS)}")
        if room in ("transplant", "feed") and not os.path.isdir(change.value):
            raise InvalidArgument(f"{change.said}: does not exist; expected the folder of a run")
    answered = sorted(one.name.partition(".")[2] for one in changes if room_of(one.name) in _ANSWERED)
    for one, other in itertools.pairwise(answered):
        if other == one or other.startswith(f"{one}."):
            raise InvalidArgument(f"{other}: is answered already, by {one}; expected one of them")


_ANSWERED = ("precision", "transplant")

BACKENDS = ("off", "eager", "aot_eager", "inductor")
"""What torch.compile may do, each more than the one before: nothing, trace, trace the backward pass, too, and
compile.
"""

_KNOWN = {
    "compile": ("backend",),
    "seed": ("python", "numpy", "torch"),
    "fixed": ("time", "urandom", "pid", "generators"),
    "clip": ("max_norm", "norm_type", "clip_value"),
    "feed": (*KINDS, "loss"),
}


def at_start(changes: Sequence[Change], *, in_this_process: bool = False) -> None:
    """Before the script begins. in_this_process: variables of the environment are set here. Raises
    InvalidArgument.
    """
    check(changes)
    for change in changes if in_this_process else ():
        if change.name == "env.PYTHONHASHSEED":
            raise InvalidArgument(f"{change.said}: is read when Python starts: set it before the command")
        if room_of(change.name) == "env":
            os.environ[change.name[4:]] = change.value
    fixed = frozenset(change.name[6:] for change in changes if room_of(change.name) == "fixed")
    if fixed:
        sources.fix(fixed)


def with_torch(changes: Sequence[Change]) -> None:
    """When torch was imported. Raises InvalidArgument."""
    updates.watch()
    for change in changes:
        name = change.name.partition(".")[2]
        if room_of(change.name) == "seed":
            _seed(name, int(change.value))
        elif room_of(change.name) == "torch":
            _switch(name, value_of(change.value))
        elif room_of(change.name) == "data":
            _workers(int(change.value))
        elif room_of(change.name) == "compile":
            _compile_with(change.value)
        elif _is_of_scheduler(change):
            _schedule_from(change)


def _seed(name: str, value: int) -> None:
    """The one that would be at work from here on anyway; a script that seeds later has its way."""
    if name == "python":
        import random

        random.seed(value)
    elif name == "numpy":
        import numpy

        numpy.random.seed(value)
    else:
        import torch

        torch.manual_seed(value)


def _switch(name: str, value: Any) -> None:
    import torch

    if name == "deterministic":
        torch.use_deterministic_algorithms(bool(value), warn_only=True)
        torch.backends.cudnn.benchmark = False
        return
    setter = setter_of(name)
    if setter is not None:
        setter(value)
        return
    *places, last = name.split(".")
    part: Any = torch
    for place in places:
        part = getattr(part, place, None)
    if part is None or not hasattr(part, last):
        raise InvalidArgument(f"torch.{name}: torch has no such switch")
    setattr(part, last, value)


def setter_of(name: str) -> Callable[..., Any] | None:
    """The function of torch that sets a switch; None: it is an attribute."""
    import torch

    found = getattr(torch, f"set_{name}", None)
    return found if callable(found) else None


def _workers(count: int) -> None:
    from torch.utils.data import DataLoader

    original: Any = DataLoader.__init__

    @functools.wraps(original)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("num_workers"):
            kwargs["num_workers"] = count
            if count == 0:
                for of_workers in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                    kwargs.pop(of_workers, None)
        original(self, *args, **kwargs)

    DataLoader.__init__ = made  # type: ignore[method-assign]


def _compile_with(backend: str) -> None:
    import torch

    original: Any = torch.compile

    @functools.wraps(original)
    def compiled(model: Any = None, **kwargs: Any) -> Any:
        if backend == "off":
            return original(model, **{**kwargs, "disable": True})
        for of_inductor in ("mode", "options") if backend != "inductor" else ():
            kwargs.pop(of_inductor, None)
        return original(model, **{**kwargs, "backend": backend})

    torch.compile = compiled


def _is_of_scheduler(change: Change) -> bool:
    return room_of(change.name) == "optimizer" and change.name.endswith(".initial_lr")


def _schedule_from(change: Change) -> None:
    """A scheduler multiplies what it found in the groups when it was made: that is exchanged before."""
    from torch.optim.lr_scheduler import LRScheduler

    original: Any = LRScheduler.__init__

    @functools.wraps(original)
    def made(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        for group in _groups(optimizer, change):
            if "initial_lr" not in group:  # else there is one before this, or a checkpoint
                group["lr"] = value_of(change.value)
            group["initial_lr"] = value_of(change.value)
        original(self, optimizer, *args, **kwargs)

    LRScheduler.__init__ = made  # type: ignore[method-assign]


def _groups(optimizer: Any, change: Change) -> list[dict[str, Any]]:
    place = change.name.removeprefix("optimizer.").removeprefix("groups.").rpartition(".")[0]
    return [group for number, group in enumerate(optimizer.param_groups) if place in ("", str(number))]


def _kind_of(change: Change) -> str:
    return "loss" if change.name == "feed.loss" else room_of(change.name)


def recorders(changes: Sequence[Change]) -> list[Recorder]:
    """What changes modules, optimizers and values, as recorders along the training."""
    from msprobe.experiment.feed import Feeder
    from msprobe.experiment.transplant import LossGradient, Transplant

    kinds: tuple[tuple[tuple[str, ...], Callable[[Sequence[Change]], Recorder]], ...] = (
        (("module", "optimizer", "clip"), Settings),
        (("feed",), Feeder),
        (("loss",), lambda some: LossGradient(some[0])),
        (("precision",), Precision),
        (("transplant",), Transplant),
    )
    wanted = ((make, [one for one in changes if _kind_of(one) in rooms]) for rooms, make in kinds)
    return [make(some) for make, some in wanted if some]


class Settings(QuietRecorder):
    """Sets attributes of modules before each step, and settings of optimizers before each of theirs. A name
    that fits nothing ends the process: the run would be another experiment.
    """

    name = "settings"

    def __init__(self, changes: Sequence[Change]) -> None:
        self._modules = [change for change in changes if room_of(change.name) == "module"]
        self._of_optimizer = [change for change in changes if room_of(change.name) == "optimizer"]
        self._of_clipping = [change for change in changes if room_of(change.name) == "clip"]
        self._clipping: list[CallWatch] = []
        self._step = 0
        self._set: list[tuple[Any, str, Any, int]] = []

    def models_found(self, models: list[Any]) -> None:
        modules = modules_of(models)
        self._set = [_target(change, modules) for change in self._modules]
        if self._of_clipping and not self._clipping:
            self._clipping = watch_clipping(self._clipped)
            for watch in self._clipping:
                watch.install()
        if self._of_optimizer:
            updates.listen(self._before_step)

    def begin_step(self, step: int) -> None:
        self._step = step
        for module, name, value, first in self._set:
            if step >= first and getattr(module, name, None) is not value:
                setattr(module, name, value)

    def close(self) -> None:
        updates.leave(self._before_step)
        for watch in reversed(self._clipping):
            watch.remove()
        self._clipping = []

    def _clipped(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs)
        for change in self._of_clipping:
            name = change.name.partition(".")[2]
            if self._step >= change.first and name in inspect.signature(original).parameters:
                given.arguments[name] = value_of(change.value)
        return original(*given.args, **given.kwargs)

    def _before_step(self, optimizer: Any) -> None:
        for change in self._of_optimizer:
            name = change.name.rpartition(".")[2]
            groups = [group for group in _groups(optimizer, change) if name in group]
            if not groups:
                end_process(f"{change.name}: {type(optimizer).__name__} has no such setting")
            is_set_here = self._step >= change.first and not _is_of_scheduler(change)
            for group in groups if is_set_here else ():
                group[name] = value_of(change.value)


def _target(change: Change, modules: dict[str, Any]) -> tuple[Any, str, Any, int]:
    path, _, name = change.name.removeprefix("model.").rpartition(".")
    module = modules.get(path)
    if module is None and name == "requires_grad":
        holder = modules.get(path.rpartition(".")[0])
        module = None if holder is None else holder._parameters.get(path.rpartition(".")[2])
    if module is None:
        end_process(f"{change.name}: the model has no module {path}")
    if not hasattr(module, name):
        end_process(f"{change.name}: {path or 'the model'} ({type(module).__name__}) has no attribute {name}")
    now, value = getattr(module, name), value_of(change.value)
    if isinstance(now, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(now, tuple) and isinstance(value, list):
        value = tuple(value)
    return module, name, _as(now, value), change.first


def _as(now: Any, value: Any) -> Any:
    """A function by its name, as a record has it ("torch.nn.functional.gelu"); a Parameter is refused."""
    import torch

    if isinstance(now, (torch.Tensor, torch.nn.Module)):
        end_process(
            f"a {type(now).__name__} cannot be set to {value!r}: expected a number, a word or a switch"
        )
    if callable(now) and isinstance(value, str):
        found: Callable[..., Any] | None = _imported(value)
        if found is None:
            end_process(f"{value}: expected the name of a function")
        return found
    return value


def _imported(name: str) -> Any:
    import importlib

    module_name, _, last = name.rpartition(".")
    for place in (module_name, "torch.nn.functional"):
        try:
            found = getattr(importlib.import_module(place), last, None)
        except (ImportError, ValueError):
            continue
        if callable(found):
            return found
    return None
