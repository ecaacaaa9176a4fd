# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of models that led to no step: evaluation, generation, a reference or teacher model, a dry run."""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.native import log, torch_adapter
from msprobe.recording.called_models import name_in_program
from msprobe.training.measurement import entries, has_numbers
from msprobe.training.model_parts import parameters, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_MOST_ENTRIES = 2000  # some 100 KiB of a file of which readers take 1 MiB


@dataclass
class _Gap:
    """What was called of one model between two steps."""

    calls: int = 0
    results: Any = None
    """A digest of what the calls gave."""
    is_measured: bool = True


@dataclass
class Callee:
    """A model that is called outside of steps."""

    name: str
    kind: str
    calls: int = 0
    before: dict[int, _Gap] = field(default_factory=dict)
    """By the step that followed."""


class ForwardOnly:
    """Counts the calls of modules with parameters that are made from outside of all modules, between steps,
    by the step that follows; of the steps that are asked for also what the calls gave.

    steps: those that are asked for; empty: all.
    """

    def __init__(self, steps: Collection[int] = ()) -> None:
        self._steps = steps
        self._callees: list[Callee] = []
        self._known: dict[int, tuple[Any, Callee | None]] = {}  # weak references to modules, by id
        self._entries = 0

    def callee(self, module: Any) -> Callee | None:
        """What stands for a module; None: it has no parameters. To be asked where it is called."""
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            has_parameters = any(True for _ in parameters(module))
            known = weakref.ref(module), self._made(module) if has_parameters else None
            self._known[id(module)] = known
        return known[1]

    def count(self, callee: Callee | None, step: int) -> Callable[[Any], None] | None:
        """Notes a call before `step`. Returns what takes its result, where that is measured."""
        if callee is None:
            return None
        callee.calls += 1
        if self._steps and step not in self._steps:
            return None
        gap = callee.before.get(step)
        if gap is None:
            if self._entries == _MOST_ENTRIES:
                return None
            self._entries += 1
            gap = callee.before[step] = _Gap()
        gap.calls += 1
        return (lambda result: _measure(gap, result)) if gap.is_measured else None

    def rows(self) -> list[dict[str, Any]]:
        """As run.rank{R}.json has them."""
        return [
            {
                "model": one.name,
                "class": one.kind,
                "calls": one.calls,
                "before": {str(step): _written(gap) for step, gap in one.before.items()},
            }
            for one in self._callees
            if one.calls
        ]

    def _made(self, module: Any) -> Callee:
        """Modules of one name and class, as those that are made anew for each evaluation, are one."""
        name, kind = name_in_program(module), type(unwrapped(module)).__name__
        same = (one for one in self._callees if (one.name, one.kind) == (name, kind))
        found = next(same, None)
        if found is None:
            found = Callee(name, kind)
            self._callees.append(found)
        return found


def _written(gap: _Gap) -> dict[str, Any]:
    is_there = gap.is_measured and gap.results is not None
    return {"calls": gap.calls, "results": gap.results.hexdigest()[:16] if is_there else None}


def _measure(gap: _Gap, result: Any) -> None:
    """What cannot be measured is no reason to end a recording."""
    try:
        with torch_adapter().NoModes():
            gap.results = gap.results or hashlib.sha256()
            for path, entry in entries("", result, leaves_out=lambda tensor: not has_numbers(tensor)):
                gap.results.update(f"{path}: {entry}\n".encode())
    except Exception as error:
        gap.is_measured = False
        log.debug("forward only: %s: %s", type(error).__name__, error)
