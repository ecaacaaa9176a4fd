# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the recorded calls of a dump again, on a device and on the CPU: does one of them alone overflow?"""

from __future__ import annotations

import enum
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.native import Error, FormatError, InvalidArgument, IoError, import_torch
from msprobe.replay.arguments import ArgumentBuilder
from msprobe.replay.functions import function_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOT_RUN = ("Distributed", "MindSpeed", "NPU", "Module")


class Outcome(enum.Enum):
    NORMAL = "normal"  # both overflow, or neither does
    ABNORMAL = "abnormal"  # one of them alone overflows
    BOOL = "bool"  # the result is no number
    SKIPPED = "skipped"  # the call could not be run again


@dataclass(frozen=True)
class Verdict:
    api: str  # "Torch.exp.0"
    outcome: Outcome
    reason: str = ""  # of SKIPPED

    @property
    def sentence(self) -> str:
        if self.outcome is Outcome.BOOL:
            return (
                f"The output of {self.api} is bool type.This dtype not support overflow, "
                "so it will be skipped."
            )
        if self.outcome is Outcome.SKIPPED:
            return f"{self.api} is skipped: {self.reason}"
        article = "a" if self.outcome is Outcome.NORMAL else "an"
        return f"The {self.api} overflow is {article} {self.outcome.value} overflow."


@dataclass(frozen=True)
class Dump:
    records: dict[str, dict[str, Any]]  # of forward calls, by name without ".forward"
    folder: str | None  # of the saved tensors


def read_dump(path: str) -> Dump:
    """Raises IoError, FormatError."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        result = IoError(f"cannot read {path}: {os.strerror(error.errno or 0)}")
        result.errno, result.filename = error.errno, path
        raise result from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected a dump.json, found no JSON: {error}") from error
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        raise FormatError(f'{path}: "data": expected an object of records')
    ending = ".forward"
    records = {
        name.removesuffix(ending): record
        for name, record in data.items()
        if name.endswith(ending) and isinstance(record, dict) and name.partition(".")[0] not in _NOT_RUN
    }
    has_tensors = bool(content.get("dump_data_dir"))
    return Dump(records, os.path.join(os.path.dirname(path), "dump_tensor_data") if has_tensors else None)


def device_named(number: int, *, compile_operators: bool = False) -> str:
    """The device that is checked against the CPU: "npu:0", "cuda:0", or "cpu" when there is neither.
    `compile_operators` is for the NPU. Raises InvalidArgument for a number that is not there.
    """
    torch = import_torch()
    npu = getattr(torch, "npu", None)  # there when the program has imported torch_npu
    for kind, module in (("npu", npu), ("cuda", torch.cuda)):
        if module is None or not module.is_available():
            continue
        count = module.device_count()
        if number >= count:
            raise InvalidArgument(f"device {number}: expected a number below {count}, that of {kind} devices")
        if kind == "npu":
            module.set_compile_mode(jit_compile=compile_operators)
        return f"{kind}:{number}"
    return "cpu"


def check(dump: Dump, device: str) -> Iterator[Verdict]:
    """A verdict for each call, in the order of the file. On "cpu", half precision is checked against
    float32.
    """
    builder = ArgumentBuilder(dump.folder, device)
    reference = ArgumentBuilder(dump.folder, "cpu")
    for api, record in dump.records.items():
        try:
            yield _check_one(api, record, builder, reference)
        except MemoryError:
            yield Verdict(api, Outcome.SKIPPED, "there is not enough memory")
        except Error as error:
            yield Verdict(api, Outcome.SKIPPED, str(error))
        except Exception as error:  # whatever torch makes of arguments from a file: the others go on
            text = str(error).partition("\n")[0]
            yield Verdict(api, Outcome.SKIPPED, f"{type(error).__name__}: {text}")


def _check_one(
    api: str, record: dict[str, Any], builder: ArgumentBuilder, reference: ArgumentBuilder
) -> Verdict:
    parts = api.split(".")
    function = function_named(parts[0], parts[1]) if len(parts) == 3 else None
    if function is None:
        return Verdict(api, Outcome.SKIPPED, "this function is not run again")
    result = _run(function, record, builder, builder.device)
    if _is_bool(result):
        return Verdict(api, Outcome.BOOL)
    raised = builder.device == "cpu"
    expected = _run(function, record, reference, "cpu", raised=raised)
    same = _overflows(result) == _overflows(expected)
    return Verdict(api, Outcome.NORMAL if same else Outcome.ABNORMAL)


def _run(
    function: Callable[..., Any],
    record: dict[str, Any],
    builder: ArgumentBuilder,
    device: str,
    *,
    raised: bool = False,
) -> Any:
    import torch

    args = _moved(builder.build(record.get("input_args", [])), device, raised)
    kwargs = _moved(builder.build(record.get("input_kwargs", {})), device, raised)
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise FormatError('expected a list "input_args" and an object "input_kwargs"')
    kwargs.pop("out", None)  # its memory was another's
    with torch.no_grad():
        result = function(*args, **kwargs)
    # What a call like t[0] = x computes stands in its argument.
    return args[0] if result is None and args else result


def _moved(value: Any, device: str, raised: bool) -> Any:
    """`value` with its tensors on `device`; with `raised`, half precision becomes float32."""
    import torch

    halves = (torch.float16, torch.bfloat16)
    if isinstance(value, list):
        return [_moved(entry, device, raised) for entry in value]
    if isinstance(value, dict):
        return {key: _moved(entry, device, raised) for key, entry in value.items()}
    if isinstance(value, torch.Tensor):
        value = value.to(device)
        return value.float() if raised and value.dtype in halves else value
    return torch.float32 if raised and value in halves else value


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)


def _is_bool(result: Any) -> bool:
    import torch

    tensors = list(_tensors(result))
    return isinstance(result, bool) or any(tensor.dtype is torch.bool for tensor in tensors[:1])


def _overflows(result: Any) -> bool:
    import torch

    if isinstance(result, float):
        return not torch.isfinite(torch.tensor(result)).item()
    numbers = (t for t in _tensors(result) if t.dtype.is_floating_point or t.dtype.is_complex)
    return any(not torch.isfinite(_comparable(tensor)).all().item() for tensor in numbers)


def _comparable(tensor: Any) -> Any:
    """isfinite() is not there for 8-bit floats."""
    return tensor.float() if tensor.dtype.itemsize == 1 else tensor
