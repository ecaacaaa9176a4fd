# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls as mindstudio-probe sends them, each a file of torch.save with its name, arguments, results, step and
rank. The pickle in it is read by msprobe's own reader: it makes tensors and plain values, and runs nothing.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.native import FormatError, core
from msprobe.transport.frames import TENSORS

if TYPE_CHECKING:
    from pathlib import Path

# ---- frames over TCP

HEAD = struct.Struct(">QQQQ")  # length of the body, sequence, rank, step
CHECKSUM_SIZE = 8
"""Of the checksum behind the head: CRC-32 of the body in hexadecimal digits."""
END = b"STOP_"
"""A body that says that there will be no more."""
OKAY, DAMAGED, OVER = b"OK___", b"ERROR", b"OVER_"
_ANSWER = struct.Struct(">5sQQQ")
_LARGEST = 1 << 40  # bytes of a body


def answer(code: bytes, sequence: int, rank: int, step: int) -> bytes:
    return _ANSWER.pack(code, sequence, rank, step)


def may_begin_frame(first: bytes) -> bool:
    """Whether the first 8 bytes of a connection can be the length of a body."""
    return len(END) <= int.from_bytes(first, "big") <= _LARGEST


# ---- one call


@dataclass(frozen=True)
class PickledCall:
    rank: int
    step: int


_FIELDS = 6  # name, args, kwargs, result, step, rank
_NAME = re.compile(r"[A-Za-z]+(\.[A-Za-z0-9_]+){1,2}\.[0-9]{1,9}")
_DEEPEST = 32


def write_as_step(message: Path, folder: Path) -> PickledCall:
    """Makes a step with this one call of it. Raises FormatError, IoError."""
    content = core.read_pt(message)
    if isinstance(content, core.PtObject):  # a named tuple
        content = content.arguments
    if not isinstance(content, (list, tuple)) or len(content) != _FIELDS:
        raise FormatError(f"{message}: expected a call with {_FIELDS} fields")
    name, args, kwargs, result, step, rank = content
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise FormatError(f"{message}: expected the name of a call, found {str(name)[:80]!r}")
    if not isinstance(args, (list, tuple)) or not isinstance(kwargs, dict):
        raise FormatError(f"{message}: expected arguments of {name}, found {str(args)[:80]!r}")
    make_directory(folder / TENSORS)
    writer = _Writer(folder / TENSORS, name)
    outputs = result if isinstance(result, (list, tuple)) else [result]
    record = {
        "input_args": [writer.record(value, "input") for value in args],
        "input_kwargs": {str(key): writer.record(value, "input") for key, value in kwargs.items()},
        "output": [writer.record(value, "output") for value in outputs],
    }
    dump = {
        "task": "tensor",
        "level": "L1",
        "framework": "pytorch",
        "dump_data_dir": TENSORS,
        "data": {f"{name}.forward": record},
    }
    write_text(folder / "dump.json", json.dumps(dump))
    return PickledCall(_number(rank, message), _number(step, message))


def _number(value: Any, message: Path) -> int:
    """None is what a training without ranks has."""
    number = 0 if value is None else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise FormatError(f"{message}: expected a step and a rank, found {str(value)[:80]!r}")
    return number


class _Writer:
    """Makes records of values, as dump.json has them (docs/formats/dump.md), and files of their tensors."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._count = 0

    def record(self, value: Any, kind: str, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise FormatError(f"{self._name}: expected at most {_DEEPEST} levels of lists and dicts")
        if isinstance(value, core.PtTensor):
            return self._tensor(value, kind)
        if isinstance(value, (list, tuple)):
            return [self.record(entry, kind, depth + 1) for entry in value]
        if isinstance(value, dict):
            return {str(key): self.record(entry, kind, depth + 1) for key, entry in value.items()}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"type": type(value).__name__, "value": value}
        if isinstance(value, core.PtName):
            return _named(value.name)
        if isinstance(value, core.PtObject):
            return _made(value)
        return {"type": type(value).__name__}

    def _tensor(self, tensor: core.PtTensor, kind: str) -> dict[str, Any]:
        file = f"{self._name}.forward.{kind}.{self._count}.pt"
        self._count += 1
        core.write_pt(self._folder / file, tensor, dtype=tensor.dtype)
        return {
            "type": "torch.Tensor",
            "dtype": f"torch.{tensor.dtype}",
            "shape": list(tensor.shape),
            "requires_grad": False,
            "data_name": file,
        }


def _named(name: str) -> dict[str, Any]:
    """Of what a pickle names and does not hold."""
    if name.endswith("Ellipsis"):
        return {"type": "ellipsis", "value": "..."}
    if name.startswith("torch.") and name.endswith(("_format", "_preserve")):
        return {"type": "torch.memory_format", "format": name}
    return {"type": "torch.dtype", "value": name} if name.startswith("torch.") else {"type": name}


def _made(made: core.PtObject) -> dict[str, Any]:
    """Of a plain value that a pickle makes by a call."""
    kind = made.class_name.removeprefix("builtins.").removeprefix("__builtin__.")
    arguments = made.arguments if isinstance(made.arguments, (list, tuple)) else ()
    numbers = [value for value in arguments if isinstance(value, (int, float))]
    if kind == "slice" and all(value is None or isinstance(value, int) for value in arguments):
        return {"type": "slice", "value": list(arguments)}
    if kind == "complex" and len(numbers) == len(arguments) == 2:
        return {"type": "complex", "value": str(complex(*numbers))}
    return {"type": kind}  # torch.device: the checker has its own
