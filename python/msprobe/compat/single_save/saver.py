# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""SingleSave: key data of a training run, saved under keys. Format: docs/formats/rl.md."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compat.single_save.tensors import FRAMEWORKS, is_tensor, memory_of, rank_of_process
from msprobe.files.atomic_file import write_text
from msprobe.native import Error, InvalidArgument, core, log

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Named = tuple[str, "Buffer", "str | None"]


class SingleSave:
    """Saves values under keys, step by step: one for each process.

    SingleSave(dump_path) once, then SingleSave.save({"response": tensor}) wherever there is something to
    save, and SingleSave.step() at the end of each step. Values are tensors (or NumPy arrays), lists, tuples
    or dicts of tensors. What was saved stays, however the process ends; what cannot be written is logged, and
    the training goes on.

    Raises InvalidArgument for a wrong framework, IoError for a folder that cannot be made.
    """

    _instance: SingleSave | None = None

    _dump_path: Path
    _framework: str
    _writer: core.RlWriter
    _rank: int | None
    _step: int
    _micro_steps: dict[str, int]
    _lock: threading.Lock

    def __new__(cls, dump_path: str | os.PathLike[str], fmk: str = "pytorch") -> SingleSave:
        path = Path(dump_path)
        there = cls._instance
        if there is not None:
            if there._dump_path.absolute() != path.absolute():
                log.warning(
                    "SingleSave(%s): this process saves into %s already, and goes on there", path,
                    there._dump_path,
                )  # fmt: skip
            return there
        if fmk not in FRAMEWORKS:
            raise InvalidArgument(f"SingleSave: fmk: expected {' or '.join(FRAMEWORKS)}, found {fmk!r}")
        self = super().__new__(cls)
        self._dump_path, self._framework = path, fmk
        self._writer = core.RlWriter(path)
        self._rank = None
        self._step, self._micro_steps = 0, defaultdict(int)
        self._lock = threading.Lock()
        cls._instance = self
        return self

    @classmethod
    def save(cls, data: dict[str, Any]) -> None:
        """Saves each entry; entries of the same key in one step get micro-steps 0, 1, ..."""
        self = cls._existing()
        for key, value in self._entries(data):
            with self._lock:
                micro_step = self._micro_steps[key]
                self._micro_steps[key] += 1
            self._save(key, value, micro_step)

    @classmethod
    def save_ex(cls, data: dict[str, Any], micro_batch: int | None = None) -> None:
        """Saves each entry as micro-step `micro_batch`; None: beside the micro-steps, in the folder of the
        rank.
        """
        self = cls._existing()
        for key, value in self._entries(data):
            self._save(key, value, micro_batch)

    @classmethod
    def save_config(cls, data: object) -> None:
        """Writes configurations.json. What JSON has no form for becomes its text."""
        self = cls._existing()
        try:
            text = json.dumps(data, indent=4, ensure_ascii=True, default=str)
            write_text(self._dump_path / "configurations.json", text)
        except (Error, ValueError, TypeError, RecursionError) as error:
            log.error("SingleSave: configurations.json is not written: %s", error)

    @classmethod
    def step(cls) -> None:
        """Ends the step: the next one has the next number, and micro-steps begin at 0."""
        self = cls._existing()
        with self._lock:
            self._step += 1
            self._micro_steps.clear()

    @classmethod
    def flush(cls) -> None:
        """Nothing: a value is with the system when save() returns."""

    @classmethod
    def _existing(cls) -> SingleSave:
        if cls._instance is None:
            raise InvalidArgument("SingleSave: expected SingleSave(dump_path) before the first value")
        return cls._instance

    def _entries(self, data: object) -> list[tuple[str, Any]]:
        """Those that can be saved. Raises TypeError for a list or dict with something else than tensors."""
        if not isinstance(data, Mapping):
            log.warning("SingleSave: expected a dict of values, found %s: nothing is saved", _kind(data))
            return []
        return [(key, value) for key, value in data.items() if self._is_entry(key, value)]

    def _is_entry(self, key: object, value: object) -> bool:
        if not isinstance(key, str):
            log.warning("SingleSave: expected keys that are text, found %r: it is not saved", key)
            return False
        if is_tensor(value, self._framework):
            return True
        if not isinstance(value, (list, tuple, Mapping)):
            log.warning(
                "SingleSave: %r: expected a tensor, or a list or dict of tensors, found %s: it is not saved",
                key, _kind(value),
            )  # fmt: skip
            return False
        for name, part in _parts(value):
            if not is_tensor(part, self._framework):
                raise TypeError(f"SingleSave: {key!r}: {name}: expected a tensor, found {_kind(part)}")
        return True

    def _save(self, key: str, value: Any, micro_step: int | None) -> None:
        try:
            form = "dict" if isinstance(value, Mapping) else "list"
            form = "tensor" if is_tensor(value, self._framework) else form
            parts = [("", value)] if form == "tensor" else _parts(value)
            tensors = self._without_duplicates(key, parts)
            self._writer.save(key, self._step, self._own_rank(), micro_step, form, tensors)
        except Exception as error:  # a fault of ours must not end the training
            log.error("SingleSave: %r is not saved: %s", key, error)

    def _own_rank(self) -> int:
        """Asked for at the first value: a process group may be made after this object."""
        if self._rank is None:
            self._rank = rank_of_process(self._framework)
            if any((self._dump_path / "data").glob(f"*/step*/rank{self._rank}")):
                log.warning(
                    "SingleSave: %s holds an earlier record of rank %d: steps of the same number are "
                    "replaced, other files stay", self._dump_path, self._rank,
                )  # fmt: skip
        return self._rank

    def _without_duplicates(self, key: str, parts: list[tuple[str, Any]]) -> list[_Named]:
        """Two keys of a dict may have the same text."""
        found: dict[str, _Named] = {}
        for name, tensor in parts:
            if name in found:
                log.warning("SingleSave: %r: two entries are called %r: only the first is saved", key, name)
            else:
                found[name] = (name, *memory_of(tensor, self._framework))
        return list(found.values())


def _parts(value: Any) -> list[tuple[str, Any]]:
    entries = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [(str(name), part) for name, part in entries]


def _kind(value: object) -> str:
    return type(value).__name__
