# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks around what the optimizers of the process do with the gradients."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from msprobe.hooks.compiled_regions import untraced
from msprobe.training.graph_capture import captures_graph
from msprobe.training.model_parts import parameters
from msprobe.training.steps_taken import steps_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from msprobe.hooks.functions import Removable


def optimizers_of(models: Iterable[Any]) -> list[Any]:
    """The optimizers of the process that have parameters of the models."""
    held = {id(parameter) for model in models for parameter in parameters(model)}
    return [one for one in optimizers_of_process() if has_any(one, held)]


def optimizers_of_process() -> list[Any]:
    """Not those that only stand around another one and pass requests on, as that of accelerate does."""
    from torch.optim import Optimizer

    found = [one for one in gc.get_objects() if issubclass(type(one), Optimizer)]
    return list({id(one): one for one in map(innermost, found)}.values())


def has_any(optimizer: Any, held: Container[int]) -> bool:
    """Whether it has one of these parameters, given by their id()."""
    groups = getattr(optimizer, "param_groups", ())
    return any(id(parameter) in held for group in groups for parameter in group["params"])


def innermost(optimizer: Any) -> Any:
    """The optimizer that updates parameters, where `optimizer` has its groups from another one."""
    from torch.optim import Optimizer

    while issubclass(type(optimizer), Optimizer) and "param_groups" not in vars(optimizer):
        groups = getattr(optimizer, "param_groups", None)
        inner = (one for one in vars(optimizer).values() if issubclass(type(one), Optimizer))
        found = next((one for one in inner if one is not optimizer and one.param_groups is groups), None)
        if found is None:
            break
        optimizer = found
    return optimizer


def steps_behind(optimizers: Iterable[Any]) -> int:
    """How many steps the optimizers have made: a training that goes on from a checkpoint."""
    return max(map(steps_taken, optimizers), default=0)


class OptimizerUpdates:
    """Calls `begin(optimizer, args, kwargs)` and `end(optimizer)` around what each `step()` of each
    torch.optim.Optimizer does with gradients.

    Without a closure that is the whole step: `begin` runs before the hooks of the optimizer itself, and after
    what was done to the gradients before `step()`. A closure computes gradients inside of the step, as under
    Lightning's Trainer: then it begins when the closure has run for the first time, or, should it never run,
    where it ends.

    missed(optimizer): called before `end` instead of `begin` when the hook was installed inside of a step, by
        what a closure calls; the gradients are then those of the last evaluation. Without it that step is
        left out.
    """

    def __init__(
        self,
        begin: Callable[[Any, Any, Any], None],
        end: Callable[[Any], None] = lambda _: None,
        missed: Callable[[Any], None] | None = None,
    ) -> None:
        self._begin = begin
        self._end = end
        self._missed = missed
        self._has_begun: dict[int, bool] = {}  # by the id of an optimizer that steps
        self._handles: list[Removable] = []

    @property
    def is_inside_another(self) -> bool:
        """For `begin`: an optimizer that is stepping has this one do it, as ZeroRedundancyOptimizer does."""
        return len(self._has_begun) > 1

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self._handles = [
            register_optimizer_step_pre_hook(untraced(self._before_step)),
            register_optimizer_step_post_hook(untraced(self._after_step)),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before_step(
        self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Hands torch other arguments when there is a closure."""
        if captures_graph():
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)  # args[0] is the optimizer
        if not callable(closure):
            self._has_begun[id(optimizer)] = True
            self._begin(optimizer, args, kwargs)
            return None
        self._has_begun[id(optimizer)] = False

        def evaluate(*given: Any, **named: Any) -> Any:
            result = closure(*given, **named)
            if not self._has_begun.get(id(optimizer), True):
                self._has_begun[id(optimizer)] = True
                self._begin(optimizer, args, kwargs)
            return result

        if "closure" in kwargs:
            return args, {**kwargs, "closure": evaluate}
        return (args[0], evaluate, *args[2:]), kwargs

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if captures_graph():
            return
        has_begun = self._has_begun.pop(id(optimizer), None)
        if has_begun is None:
            if self._missed is None:
                return
            self._missed(optimizer)
        elif not has_begun:
            self._begin(optimizer, args, kwargs)
        self._end(optimizer)
