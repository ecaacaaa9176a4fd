# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the recorded calls of a dump again, on a device and on the CPU: does one of them alone overflow?"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.replay.arguments import ArgumentBuilder
from msprobe.replay.execution import Execution, Precision, function_of, inputs_of
from msprobe.replay.functions import NEVER_RUN, parts_of
from msprobe.replay.loop import each_call, guarded
from msprobe.replay.memory import require_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msprobe.replay.dump_file import Dump, RecordedCall

_NOT_RUN = (*NEVER_RUN, "NPU")
_COPIES = 2  # of the tensors of a call


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


def calls_of(dump: Dump) -> list[str]:
    """Names of the calls that are run again."""
    return [name for name in dump.names if name.partition(".")[0] not in _NOT_RUN]


def check(dump: Dump, device: str) -> Iterator[Verdict]:
    """A verdict for each call, in the order of the file. On "cpu", half precision is checked against
    float32.
    """

    def judge(name: str) -> Verdict:
        return guarded(
            lambda: _check_one(dump.call(name), device),
            lambda reason: Verdict(name, Outcome.SKIPPED, reason),
        )

    return each_call(calls_of(dump), judge, device)


def _check_one(call: RecordedCall, device: str) -> Verdict:
    import torch

    if parts_of(call.name) == ("", ""):
        return Verdict(call.name, Outcome.SKIPPED, "this function is not run again")
    function_of(call)
    require_memory(call, _COPIES)
    inputs = inputs_of(call, ArgumentBuilder(call.folder, device, "range", seed=call.name), random=True)
    result = Execution(call, inputs, device, with_gradients=False)
    if _is_bool(result):
        return Verdict(call.name, Outcome.BOOL)
    raised = {torch.float16: torch.float32, torch.bfloat16: torch.float32} if device == "cpu" else {}
    expected = Execution(call, inputs, "cpu", Precision(raised), with_gradients=False)
    same = _overflows(result) == _overflows(expected)
    return Verdict(call.name, Outcome.NORMAL if same else Outcome.ABNORMAL)


def _is_bool(result: Execution) -> bool:
    import torch

    return any(tensor.dtype is torch.bool for tensor in result.outputs[:1])


def _overflows(result: Execution) -> bool:
    import torch

    numbers = (t for t in result.outputs if t.dtype.is_floating_point or t.dtype.is_complex)
    return any(not torch.isfinite(_comparable(tensor)).all().item() for tensor in numbers)


def _comparable(tensor: Any) -> Any:
    """isfinite() is not there for 8-bit floats."""
    return tensor.float() if tensor.dtype.itemsize == 1 else tensor
