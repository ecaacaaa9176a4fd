# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The calls of functions in a dump, one at a time: a dump may be larger than memory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msprobe.files.dump_folders import dump_file
from msprobe.files.regular_file import is_there, read_bytes
from msprobe.native import FormatError, UnsupportedError, core
from msprobe.replay.functions import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msprobe.replay.arguments import Tensors

_FORWARD, _BACKWARD = ".forward", ".backward"
_TENSORS = "dump_tensor_data"
_LARGEST_STATE = 256 << 20  # bytes


@dataclass(frozen=True)
class RecordedCall:
    """What dump.json says of one call (docs/formats/dump.md)."""

    name: str
    """ "Functional.linear.0"."""
    forward: dict[str, Any]
    backward: dict[str, Any] | None
    folder: Tensors | None = None
    """Holds its tensors; None: they were not saved."""
    has_own_gradients: bool = False
    """The gradients that its backward gave are those of its arguments, as our dump records them, and not
    those of one node of autograd inside, as mindstudio-probe does.
    """
    operator: Callable[..., Any] | None = None
    """What was called, where this process has seen it; None: what the name says."""

    @property
    def prefix(self) -> str:
        return parts_of(self.name)[0]

    @property
    def function(self) -> str:
        """ "linear"; "linalg.inv" where the name has a module in it."""
        return parts_of(self.name)[1]

    @property
    def args(self) -> list[Any]:
        args: list[Any] = self._half("input_args", list)
        return args

    @property
    def kwargs(self) -> dict[str, Any]:
        kwargs: dict[str, Any] = self._half("input_kwargs", dict)
        return kwargs

    @property
    def outputs(self) -> list[Any]:
        """Empty: they were not recorded."""
        found = self.forward.get("output", [])
        return found if isinstance(found, list) else [found]

    def _half(self, key: str, kind: type) -> Any:
        half = self.forward.get(key, kind())
        if not isinstance(half, kind):
            raise FormatError(f'{self.name}.forward: "{key}": expected a {kind.__name__}')
        return half


class Dump:
    """A dump.json. Its records are looked up in the file when they are asked for."""

    framework: ClassVar[str] = "pytorch"

    def __init__(self, path: str, step: int | None = None, rank: int | None = None) -> None:
        """path: the file, or a folder with it: of a rank, a step, a dump path or `msprobe run`; of several
        dumps that of this step and rank, else the first. Raises InvalidArgument, IoError, FormatError,
        UnsupportedError.
        """
        if os.path.isdir(path):
            path = str(dump_file(Path(path), step, rank))
        self.path = path
        self._trace = core.read_trace(path)
        is_of_mindspore = self._trace.framework in ("mindspore", "mindtorch")
        if is_of_mindspore != (self.framework == "mindspore"):
            found = "MindSpore, whose calls msprobe run_ut and op_generate run again"
            raise UnsupportedError(
                f"{path}: expected a dump of MindSpore, found one of PyTorch"
                if self.framework == "mindspore"
                else f"{path}: expected a dump of PyTorch, found one of {found}"
            )
        names = self._trace.names()
        calls = [(call, name) for name in names if (call := core.call_of(name))]
        self._backward = {call for call, name in calls if name == call + _BACKWARD}
        self.names = [call for call, name in calls if name == call + _FORWARD]
        """Of the calls, in the order of the file: "Functional.linear.0"."""
        # mindstudio-probe writes no such file.
        self._is_ours = is_there(os.path.join(os.path.dirname(path), "summary.json"))

    @property
    def folder(self) -> str | None:
        """Where its tensors are; None: it has none."""
        has_tensors = self._trace.dump_data_dir is not None
        return os.path.join(os.path.dirname(self.path), _TENSORS) if has_tensors else None

    @property
    def task(self) -> str:
        return self._trace.task

    @property
    def level(self) -> str:
        return self._trace.level

    def training_state(self) -> dict[str, Any]:
        """What surrounds the calls: diagnosis.json. Empty: it was not recorded, or cannot be read."""
        path = Path(self.path).with_name("diagnosis.json")
        try:
            found = json.loads(read_bytes(path, _LARGEST_STATE))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def call(self, name: str) -> RecordedCall:
        """The call of that name, out of `names`. Raises IoError and FormatError where the file was changed,
        or the record is no object.
        """
        forward = self._record(name + _FORWARD)
        backward = self._record(name + _BACKWARD) if name in self._backward else None
        return RecordedCall(name, forward, backward, self.folder, self._is_ours)

    def calls(self) -> Iterator[RecordedCall]:
        for name in self.names:
            yield self.call(name)

    def require_calls(self) -> None:
        """Raises FormatError for a dump without any call of a function, which says why there is none."""
        if self.names:
            return
        reason = "it is empty"
        if self.task == "structure":
            reason = "task structure records no values; record with task tensor or statistics"
        elif self.level in ("L0", "L2", "debug"):
            reason = f"level {self.level} records no calls of functions; record at level L1 or mix"
        raise FormatError(f"{self.path}: there is no call of a function that could be run again: {reason}")

    def _record(self, name: str) -> dict[str, Any]:
        text = self._trace.record(name)
        try:
            record = json.loads(text)
        except ValueError as error:  # changed meanwhile, or a number of thousands of digits
            raise FormatError(f"{self.path}: record {name!r} cannot be read: {error}") from error
        if not isinstance(record, dict):
            raise FormatError(f"{self.path}: record {name!r}: expected an object")
        return record
