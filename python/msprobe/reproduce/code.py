# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Python source that makes the arguments of a recorded call. What stands in the record comes from a file:
only literals, and names out of torch's tables, become source.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.native import FormatError, UnsupportedError
from msprobe.replay.arguments import TENSORS, dtype_named, shape_of
from msprobe.replay.functions import function_named

if TYPE_CHECKING:
    from msprobe.replay.dump_file import RecordedCall


@dataclass
class ArgumentCode:
    """Lines that make arguments, each one a variable: arg_0, arg_1_0, kwarg_dim."""

    tensor: Callable[[dict[str, Any]], str]
    """The expression that makes a tensor of its record."""
    lines: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any) -> str:
        """Appends the lines of one argument and returns the expression that stands for it."""
        if isinstance(value, list):
            entries = [self.add(f"{name}_{i}", entry) for i, entry in enumerate(value)]
            return f"[{', '.join(entries)}]"
        if isinstance(value, dict) and "type" not in value:
            if not value:
                raise UnsupportedError("a dtype or device that is given by its place is not in the record")
            entries = [
                f"{literal(key)}: {self.add(f'{name}_{i}', entry)}"
                for i, (key, entry) in enumerate(value.items())
            ]
            return f"{{{', '.join(entries)}}}"
        source = self.tensor(value) if _is_tensor(value) else _scalar(value)
        self.lines.append(f"{name} = {source}")
        return name


def _is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in TENSORS


def _scalar(value: Any) -> str:
    if not isinstance(value, dict):
        return literal(value)
    kind = str(value.get("type"))
    if kind == "torch.device":
        return 'torch.device("cpu")'
    if kind == "torch.memory_format":
        return f"torch.{identifier(str(value.get('format')).rpartition('.')[2])}"
    if "value" not in value:
        raise UnsupportedError(f"an argument of type {kind!r} cannot be made again")
    content = value["value"]
    if kind == "torch.dtype":
        return "None" if content is None else str(dtype_named(content))
    if kind == "torch.Size":
        return f"torch.Size({literal(content)})"
    if kind == "slice":
        if not isinstance(content, list) or len(content) != 3:
            raise FormatError(f"a slice: expected start, stop and step, found {content!r}")
        return f"slice({', '.join(map(literal, content))})"
    if kind == "ellipsis":
        return "..."
    return literal(content)


def literal(value: Any) -> str:
    """The source of a plain value. Raises UnsupportedError for anything else."""
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    raise UnsupportedError(f"a {type(value).__name__} cannot be written into a script")


def identifier(name: str) -> str:
    """Raises FormatError for what is none: it would become source."""
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        raise FormatError(f"expected a name, found {name!r}")
    return name


def shape_code(record: dict[str, Any]) -> str:
    """ "(3, 4)"."""
    shape = shape_of(record)
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# Where the functions of each prefix are found.
_HOMES = {"Functional": "torch.nn.functional", "Tensor": "torch.Tensor", "Torch": "torch"}


def function_code(call: RecordedCall) -> str:
    """ "torch.nn.functional.linear". Raises UnsupportedError for a function that is not run again."""
    home = _HOMES.get(call.prefix)
    if home is None:
        raise UnsupportedError(
            f"{call.name}: expected a call of {', '.join(_HOMES)}, found the type {call.prefix!r}"
        )
    function = function_named(call.prefix, call.function)
    if function is None:
        raise UnsupportedError(f"{call.name}: this function is not run again")
    import torch

    name = ".".join(map(identifier, call.function.split(".")))
    for place, module in ((home, None), *((f"torch.{m}", m) for m in ("linalg", "fft", "special"))):
        owner = {
            "torch.nn.functional": torch.nn.functional,
            "torch.Tensor": torch.Tensor,
            "torch": torch,
        }.get(place, getattr(torch, module) if module else None)
        if call.prefix != "Torch" and module:
            break
        if "." not in name and getattr(owner, name, None) is function:
            return f"{place}.{name}"
    return f"{home}.{name}"
