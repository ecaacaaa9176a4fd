# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which modules of a training are its models, told from what is called and from what optimizers hold."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

from msprobe.engines import COMPILED
from msprobe.training.measurement import has_numbers, measure
from msprobe.training.model_parts import (
    chain,
    modules,
    named_modules,
    named_parameters,
    parameters,
    parts_of,
    unwrapped,
)

if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Iterator

_MARKS = 4  # parameters that are looked at to see whether a module changes


class TrainedModels:
    """The models of a training, as they are found. A model is what is called from outside of all other
    modules. Where it has only some of the parameters that the optimizers of the process hold, as the parts
    of a policy that are called one by one, it is the smallest module around it that has the most of them.

    Wrappers, as DistributedDataParallel, are none: names are the same then on one process and on many.
    """

    def __init__(self, named: Iterable[Any] | None) -> None:
        """named: those that the user named; else they are found."""
        self.is_named = named is not None
        self.found: list[Any] = []
        self.entrance: Any = None
        """What was called first of the models, or of what they are wrapped in."""
        self.entrances: dict[int, str] = {}
        """Paths of the parts of models that are called from outside, by id."""
        self._compiled: dict[int, Any] = {}
        self._members: set[int] = set()
        self._entered: set[int] = set()
        self._twins: list[_Twin] = []
        for model in named or ():
            self._add(model, model)

    def __contains__(self, module: Any) -> bool:
        """Whether it is a model, a part of one, or wrapped around one."""
        if id(module) in self._members:
            return True
        holds = modules(module) if self.is_named else (unwrapped(module),)
        if not any(id(part) in self._members for part in holds):
            return False
        self._members.update(id(one) for one in chain(module))
        return True

    def clear(self) -> None:
        """Of those that were found; those that were named stay."""
        self.entrance = None
        if not self.is_named:
            self.found, self._members = [], set()
            self.entrances.clear()
            self._compiled.clear()
            self._entered.clear()
            self._twins = []

    def forget(self) -> None:
        """Of all, so that none is kept alive."""
        self.is_named = False
        self.clear()

    def as_called(self, model: Any) -> Any:
        """A model, or what torch.compile() returned for it: that is called, and the model itself never is."""
        return self._compiled.get(id(model), model)

    def averaged(self) -> dict[str, Any]:
        """By their names in the program, modules of the structure of a model whose weights have changed since
        it was found: averages of its weights, and what else follows them.
        """
        return {twin.name: module for twin in self._twins if (module := twin.changed()) is not None}

    def enter(self, module: Any) -> bool:
        """Notes a call from outside; whether there are other models now than before."""
        if self.is_named and not self._entered:
            self._find_twins(_Program())
        if self.is_named or id(module) in self._members:
            self._note_entrance(module)
            return False
        before = list(self.found)
        program = _Program()
        self._add(_model_around(unwrapped(module), program), module)
        self._note_entrance(module)
        self._find_twins(program)
        return len(before) != len(self.found) or any(a is not b for a, b in zip(before, self.found))

    def _add(self, model: Any, called: Any) -> None:
        inner = unwrapped(model)
        parts = {id(part) for part in modules(inner)}
        # A part may have been called before the whole, e.g. to find out a shape.
        self.found = [*(known for known in self.found if id(known) not in parts), inner]
        self._members |= parts | {id(one) for one in (*chain(model), *chain(called))}
        around = ((parts_of(one).get(COMPILED), one) for one in (*chain(called), *chain(model)))
        self._compiled.update({id(inner): one for inner, one in around if inner is not None})

    def _find_twins(self, program: _Program) -> None:
        self._twins = [twin for model in self.found for twin in _twins_of(model, self._members, program)]

    def _note_entrance(self, module: Any) -> None:
        self.entrance = module if self.entrance is None else self.entrance
        if id(module) in self._entered:
            return
        self._entered.add(id(module))
        inner = unwrapped(module)
        for model in self.found:
            path = next((path for path, part in named_modules(model) if part is inner), None)
            if path:
                self.entrances[id(inner)] = path


class _Program:
    """What there is of torch in the process, among all objects."""

    def __init__(self) -> None:
        from torch import nn
        from torch.optim import Optimizer

        objects = gc.get_objects()
        self.modules = [one for one in objects if issubclass(type(one), nn.Module)]
        self.held = {
            id(parameter)
            for optimizer in objects
            if issubclass(type(optimizer), Optimizer)
            for parameter in _parameters_of(optimizer)
        }
        """The parameters of all optimizers, by id."""
        self.around: dict[int, list[Any]] = {}
        """The modules directly around a module, by its id."""
        for one in self.modules:
            for part in parts_of(one).values():
                self.around.setdefault(id(part), []).append(one)

    def all_around(self, module: Any) -> Iterator[Any]:
        """From the inside out."""
        seen: set[int] = set()
        wider = list(self.around.get(id(module), ()))
        while wider:
            one = wider.pop(0)
            if id(one) not in seen:
                seen.add(id(one))
                yield one
                wider += self.around.get(id(one), ())


def _parameters_of(optimizer: Any) -> list[Any]:
    try:
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]
    except Exception:  # one that is not complete, or keeps them elsewhere
        return []


def _model_around(module: Any, program: _Program) -> Any:
    """The smallest module around it, or itself, that has the most of what the optimizers hold."""

    def count(of: Any) -> int:
        return sum(id(parameter) in program.held for parameter in parameters(of))

    best, most = module, count(module)
    if most in (0, len(program.held)):
        return module
    for one in program.all_around(module):
        if (number := count(one)) > most:
            best, most = one, number
    return best


class _Twin:
    """A module of the structure of a model that is no part of it: its averaged weights, where they change."""

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        self._module = weakref.ref(module)
        self._begun_with = _content_of(module)

    def changed(self) -> Any:
        """The module, where it holds something else than at first; else None."""
        module = self._module()
        return module if module is not None and _content_of(module) != self._begun_with else None


def _twins_of(model: Any, members: set[int], program: _Program) -> Iterator[_Twin]:
    structure = _structure_of(model)
    for one in program.modules:
        if type(one) is not type(model) or id(one) in members or _structure_of(one) != structure:
            continue
        holders = [one, *program.all_around(one)]
        yield _Twin(name_in_program(one, {id(holder) for holder in (*holders, *_objects_with(one))}), one)


def _structure_of(module: Any) -> list[tuple[str, Any]]:
    return [(name, tuple(parameter.shape)) for name, parameter in named_parameters(module)]


def _objects_with(module: Any) -> list[Any]:
    """Those of which it is an attribute."""
    found = []
    for one in gc.get_referrers(module):
        found += [one] if not isinstance(one, dict) else gc.get_referrers(one)
    return [one for one in found if any(value is module for value in _attributes(one).values())]


def _content_of(module: Any) -> list[str]:
    """Of its smallest parameters: an average changes all of them."""
    known = [one for one in parameters(module) if has_numbers(one)]
    return [measure(one.detach()) for one in sorted(known, key=lambda one: int(one.numel()))[:_MARKS]]


def name_in_program(module: Any, known: set[int] | None = None) -> str:
    """What the calling code calls a module: an attribute of an object whose method runs, else a variable;
    else its class.

    known: what stands for it, by id; else what it wraps.
    """
    known = known or {id(one) for one in chain(module)}
    frame: types.FrameType | None = sys._getframe(1)
    variables: list[str] = []
    while frame is not None:
        held = frame.f_locals.get("self")
        if held is not None and not str(frame.f_globals.get("__name__")).startswith(("torch.", "msprobe.")):
            attributes = _attributes(held)
            name = _name_of(known, attributes) or _name_of(known, attributes.get("_modules") or {})
            if name:
                return name
        variables += filter(None, (_name_of(known, frame.f_locals),))
        frame = frame.f_back
    return variables[-1] if variables else type(unwrapped(module)).__name__


def _attributes(value: object) -> dict[str, Any]:
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return {}


def _name_of(known: set[int], values: Any) -> str:
    return next((name for name, value in list(values.items()) if id(value) in known), "").strip("_")
