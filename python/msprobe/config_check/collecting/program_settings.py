# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hyper-parameters of the objects that a running program holds: of its trainer, its model, its main script.

They are found by their types, through the functions that are running and through the model. No library is
imported for it, no property is read, and only what is plain is taken: numbers, texts, flags, and lists and
mappings of these. No tensor is touched.
"""

from __future__ import annotations

import argparse
import enum
import functools
import numbers
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from msprobe.config_check.collecting.hyperparameters import Parameters, flattened, merge
from msprobe.engines import DEEPSPEED
from msprobe.native import log
from msprobe.training.model_parts import modules
from msprobe.training.running_program import attributes_of, frames_of_program, variables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    Reader = Callable[[Any], tuple[str, Any]]  # the title of an object, and its settings as a tree

_DEEPEST = 8
_MOST_ITEMS = 1000
_MOST_KEYS = 300  # a mapping with more is a vocabulary, or data
_HAS_FAST_LOCALS = 0x1  # flag of the code of a function: its local names are no dictionary

# What a variable says of one run alone: when and where it is.
_OF_ONE_RUN = re.compile(r"time|date|path|dir$|file|folder|uuid|hash|port$|url|host|device", re.IGNORECASE)
# Classes of what changes while a program runs: how far it is, what it found.
_OF_PROGRESS = re.compile(r"(State|Control|Output|Result|Metrics)$")
# What tells two runs of one program apart, in any object.
_OF_ONE_OBJECT = re.compile(r"hash|uuid", re.IGNORECASE)
# Attributes of a schedule that say how far it is.
_PROGRESS_OF_A_SCHEDULE = ("last_epoch", "base_lrs", "best", "num_bad_epochs", "cooldown_counter")
# Where a module keeps its settings.
_OF_A_MODULE = ("config", "generation_config", "peft_config", "_hparams")


@dataclass
class ProgramSettings:
    """What a program holds now.

    settings: of objects that are made for it, by the names of their classes: "GRPOConfig.temperature",
        "LoraConfig.lora_alpha".
    variables: plain variables of the main script, "script.lr", its dictionaries, "options.lr", and plain
        attributes of the objects whose methods run, "PPO.gamma", and of modules beside the models, as a loss
        and averaged weights are: "AveragedModel.decay". That they are settings is a guess.
    """

    settings: Parameters = field(default_factory=dict)
    variables: Parameters = field(default_factory=dict)


def of_program(models: Iterable[Any] = ()) -> ProgramSettings:
    """Looks at the functions that run, up to the main script, with the objects whose methods they are; at the
    variables of the main script; at `models` and their parts. What cannot be read is left out.
    """
    models = list(models)
    found = _Found({id(part) for model in models for part in modules(model)})
    main = sys.modules.get("__main__")
    names = vars(main) if main is not None else {}
    frames = list(frames_of_program())
    for name, value in list(names.items()):
        found.variable(name, value)
    for frame in reversed(frames):  # the outermost first
        _look_at_frame(found, frame, is_of_main=frame.f_globals is names)
    for model in models:
        found.module(model)
    found.shared_by_accelerate()
    return found.result


def _look_at_frame(found: _Found, frame: FrameType, *, is_of_main: bool) -> None:
    code = frame.f_code
    if not code.co_flags & _HAS_FAST_LOCALS:
        return  # of a module or a class; that of the main script was read
    with variables_of(frame) as values:
        if code.co_argcount and code.co_varnames[0] == "self" and "self" in values:
            found.owner(values["self"])
        for name, value in values.items():
            if is_of_main:
                found.variable(name, value)
            else:
                found.settings(value)


class _Found:
    """Collects settings; an object counts once."""

    def __init__(self, parts_of_models: set[int]) -> None:
        self._parts_of_models = parts_of_models
        self.result = ProgramSettings()
        self._seen: dict[int, Any] = {}  # kept, so that no other object has the id
        self._of_title: dict[str, list[Parameters]] = {}

    def variable(self, name: str, value: Any) -> None:
        """A variable of the main script: what it holds, or its own value."""
        if name.startswith("_"):
            return
        if _is_module(value):
            self.module(value)
        elif _is_variable(name, value):
            self._guess("script", {name: value})
        elif not self.settings(value) and type(value) is dict:
            self._guess(name, value)

    def owner(self, owner: Any) -> None:
        """An object whose method runs, as a trainer."""
        if _is_module(owner):
            self.module(owner)
            return
        if self._is_seen(owner) or self.settings(owner):
            return
        self._guess_attributes(owner)
        for value in list(attributes_of(owner).values()):
            if _is_module(value):
                self.module(value)
            else:
                self.settings(value)

    def module(self, module: Any) -> None:
        parts = list(modules(module))
        if self._parts_of_models and self._parts_of_models.isdisjoint(map(id, parts)):
            self._guess_attributes(module)
        for part in parts:
            self.settings(part)
            attributes = attributes_of(part)
            for name in _OF_A_MODULE:
                if attributes.get(name) is not None:
                    self._of_module(attributes[name])

    def settings(self, value: Any) -> bool:
        """Whether `value` is an object for settings, by its type."""
        reader = _reader(value)
        if reader is None:
            return False
        if not self._is_seen(value):
            self._read(reader, value)
        return True

    def shared_by_accelerate(self) -> None:
        """What all objects of accelerate have in common: precision, plugins, accumulation."""
        state = sys.modules.get("accelerate.state")
        for name in ("AcceleratorState", "GradientState"):
            shared = getattr(getattr(state, name, None), "_shared_state", None)
            if isinstance(shared, dict):
                kept = (key for key in shared if "precision" in key or "plugin" in key)
                self._add(name, {key.lstrip("_"): shared[key] for key in kept})

    def _of_module(self, value: Any) -> None:
        if self.settings(value) or self._is_seen(value):
            return
        if not isinstance(value, Mapping):
            self._add("config", attributes_of(value))
        elif any(_reader(one) for one in value.values()):
            for name, one in value.items():  # of adapters, by their names
                reader = _reader(one)
                if reader is not None and not self._is_seen(one):
                    self._read(reader, one, "" if name == "default" else f".{name}")
        else:
            self._add("config", value)

    def _is_seen(self, value: Any) -> bool:
        known = id(value) in self._seen
        self._seen[id(value)] = value
        return known

    def _read(self, reader: Reader, value: Any, suffix: str = "") -> None:
        try:
            title, tree = reader(value)
            self._add(title + suffix, tree)
        except Exception as error:  # of the program's objects, which are asked
            log.debug("settings of %s are left out: %s", type(value).__name__, error)

    def _add(self, title: str, tree: Any) -> None:
        """Without a title beside those that a command line has. Of objects with one title those that are
        equal are one, and the others are numbered.
        """
        plain = _plain(tree, 0)
        if not isinstance(plain, dict):
            return
        parameters = flattened(plain)
        earlier = self._of_title.setdefault(title, [])
        if parameters in earlier:
            return
        earlier.append(parameters)
        number = f".{len(earlier)}" if title and len(earlier) > 1 else ""
        prefix = f"{title}{number}." if title else ""
        merge(self.result.settings, {prefix + name: value for name, value in parameters.items()})

    def _guess_attributes(self, value: Any) -> None:
        plain = {name: one for name, one in attributes_of(value).items() if _is_variable(name, one)}
        plain.pop("training", None)  # of a module: how far it is
        self._guess(type(value).__name__, plain)

    def _guess(self, title: str, tree: dict[str, Any]) -> None:
        found = flattened(_plain(tree, 0) or {})
        merge(self.result.variables, {f"{title}.{name}": value for name, value in found.items()})


# ---- types of settings


def _reader(value: Any) -> Reader | None:
    kind = type(value)
    if issubclass(kind, argparse.Namespace):
        return lambda one: ("", vars(one))
    for one in kind.__mro__:
        reader = _READERS.get((one.__module__.partition(".")[0], one.__name__))
        if reader is not None:
            return reader
    # Some libraries return results as dataclasses that are mappings, too.
    if not is_dataclass(kind) or issubclass(kind, Mapping) or _OF_PROGRESS.search(kind.__name__):
        return None
    return _of_dataclass


def _of_dataclass(value: Any) -> tuple[str, Any]:
    attributes = attributes_of(value)
    names = (one.name for one in fields(value))
    return type(value).__name__, {name: attributes[name] for name in names if name in attributes}


def _of_attributes(value: Any) -> tuple[str, Any]:
    return type(value).__name__, attributes_of(value)


def _of_omegaconf(value: Any) -> tuple[str, Any]:
    return "", sys.modules["omegaconf"].OmegaConf.to_container(value, resolve=False)


def _of_deepspeed(engine: Any) -> tuple[str, Any]:
    return "DeepSpeed", getattr(attributes_of(engine).get("_config"), "_param_dict", None)


def _of_diffusers(value: Any) -> tuple[str, Any]:
    return type(value).__name__, attributes_of(value).get("_internal_dict")


def _of_schedule(schedule: Any) -> tuple[str, Any]:
    attributes = attributes_of(schedule)
    kept = {name: one for name, one in attributes.items() if name not in _PROGRESS_OF_A_SCHEDULE}
    for function in attributes.get("lr_lambdas") or ():
        kept.update(_bound(function))
    return type(schedule).__name__, {name: one for name, one in kept.items() if not name.startswith("_")}


def _bound(function: Any) -> dict[str, Any]:
    """What a function was made with: arguments that are given already, variables around it."""
    if type(function) is functools.partial:
        return {**_bound(function.func), **function.keywords}
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


# By the package and the name of a class; those derived from it count, too.
_READERS: dict[tuple[str, str], Reader] = {
    ("transformers", "TrainingArguments"): _of_dataclass,
    ("transformers", "PretrainedConfig"): _of_attributes,
    ("transformers", "PreTrainedConfig"): _of_attributes,
    ("transformers", "GenerationConfig"): _of_attributes,
    ("peft", "PeftConfigMixin"): _of_dataclass,
    ("omegaconf", "Container"): _of_omegaconf,
    ("deepspeed", DEEPSPEED): _of_deepspeed,
    ("diffusers", "ConfigMixin"): _of_diffusers,
    ("torch", "LRScheduler"): _of_schedule,
}


# ---- what is plain


def _is_module(value: Any) -> bool:
    import torch

    return issubclass(type(value), torch.nn.Module)


def _is_value(value: Any) -> bool:
    """Whether it is a single value, the same in every run."""
    kind = type(value)
    return issubclass(kind, (type(None), numbers.Number, str, os.PathLike, enum.Enum)) or (
        kind.__module__ == "torch" and kind.__name__ in ("dtype", "device")
    )


def _is_variable(name: str, value: Any) -> bool:
    if value is None or not _is_value(value) or (isinstance(value, str) and os.sep in value):
        return False
    return not name.startswith("_") and not _OF_ONE_RUN.search(name)


_FUNCTIONS = ("function", "builtin_function_or_method")


def _plain(tree: Any, depth: int) -> Any:
    """What is plain of a tree; None where nothing is."""
    kind = type(tree)
    if _is_value(tree) or issubclass(kind, type) or kind.__name__ in _FUNCTIONS:
        return tree
    if depth > _DEEPEST:
        return None
    if issubclass(kind, (list, tuple, set, frozenset)):
        return tree if len(tree) <= _MOST_ITEMS and all(map(_is_value, tree)) else None
    if not issubclass(kind, Mapping):
        reader = _reader(tree)
        tree = None if reader is None else reader(tree)[1]
        if not isinstance(tree, Mapping):
            return None
    if len(tree) > _MOST_KEYS:
        return None
    kept = {}
    for key, value in tree.items():
        if isinstance(key, str) and not _OF_ONE_OBJECT.search(key):
            plain = _plain(value, depth + 1)
            if plain is not None or value is None:
                kept[key] = plain
    return kept or None
