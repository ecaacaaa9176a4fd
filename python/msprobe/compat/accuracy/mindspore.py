# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of a MindSpore dump: run by MindSpore on its device and, as the function of PyTorch that means the
same, by PyTorch on the CPU in a raised precision, and judged by the rule of mindstudio-probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.compat.accuracy.checker import CallResult, ErrorData, raised_precision
from msprobe.compat.accuracy.details import ERROR, NONE, PASS, SKIP, Detail, cell_text, worst
from msprobe.compat.accuracy.mindspore_runs import MindSporeRun
from msprobe.compat.mindspore_calls import PortedCall, ported
from msprobe.native import UnsupportedError
from msprobe.replay.arguments import ArgumentBuilder
from msprobe.replay.execution import Execution, Inputs, dtype_of_output, inputs_of
from msprobe.replay.functions import functions_named
from msprobe.replay.loop import guarded, reason_of
from msprobe.replay.memory import require_memory

if TYPE_CHECKING:
    import torch

    from msprobe.replay.dump_file import RecordedCall

RESULT_HEADER = ["API Name", "Forward Test Success", "Backward Test Success", "Message"]
DETAILS_HEADER = [
    "API Name", "Bench Dtype", "Tested Dtype", "Shape", "Cosine", "MaxAbsErr", "MaxRelativeErr", "Status",
    "Message",
]  # fmt: skip

# Of the document of mindstudio-probe; its program has 0.001 for the second.
_LEAST_COSINE = 0.99
_MOST_ABSOLUTE = 1e-4
_ZERO = 1e-10  # stands for 0 as a divisor

_COPIES = 3


@dataclass
class MindSporeDetail(Detail):
    """A row with fewer columns."""

    def cells(self, precision: int = 14) -> list[str]:
        kinds = (self.reference_dtype, self.device_dtype, self.shape)
        numbers = (self.cosine, self.max_absolute, self.max_relative)
        return [cell_text(cell, precision) for cell in (*kinds, *numbers, self.status, self.message)]


def check(call: RecordedCall) -> CallResult:
    """Whatever goes wrong with one call is its result: the others go on."""
    return guarded(lambda: _Check(ported(call)).run(), lambda reason: _skipped(call.name, reason))


def _skipped(name: str, reason: str) -> CallResult:
    return CallResult(name, SKIP, SKIP, [MindSporeDetail(message=reason)])


class _Check:
    def __init__(self, ported_call: PortedCall) -> None:
        self._ported = ported_call
        self._call = ported_call.call

    def run(self) -> CallResult:
        call, name = self._call, self._ported.name
        if not functions_named(call.prefix, call.function):
            raise UnsupportedError("PyTorch has no function of this meaning")
        require_memory(call, _COPIES)
        inputs = inputs_of(call, ArgumentBuilder(call.folder, "cpu", "range", seed=call.name))
        wants = call.backward is not None
        # In a raised precision numbers are told apart that the device cannot: what decides between them is
        # asked in its own.
        decides = dtype_of_output(call) is None
        precision = None if decides else raised_precision(call.function, inputs)
        reference = Execution(call, inputs, "cpu", precision, with_gradients=wants)
        tested = MindSporeRun(self._ported.callee, inputs.args, self._ported.own_keywords(inputs.kwargs))
        result = CallResult(name, PASS, NONE, _compared(reference.outputs, tested.outputs))
        result.forward = worst([detail.status for detail in result.forward_details])
        gradients: tuple[list[Any], list[Any]] | None = None
        if wants:
            gradients = self._backward(result, inputs, reference, tested)
        result.data = ErrorData(
            inputs,
            reference.outputs,
            tested.outputs,
            inputs.gradients,
            gradients[0] if gradients else None,
            gradients[1] if gradients else None,
        )
        return result

    def _backward(
        self, result: CallResult, inputs: Inputs, reference: Execution, tested: MindSporeRun
    ) -> tuple[list[Any], list[Any]] | None:
        try:
            gradients = reference.gradients(inputs.gradients), tested.gradients(inputs.gradients)
        except Exception as error:  # whatever the frameworks make of arguments from a file
            result.backward = SKIP
            result.backward_details = [MindSporeDetail(message=reason_of(error))]
            return None
        pairs = [(b, d) for b, d in zip(*gradients) if b is not None and d is not None]
        result.backward_details = _compared([b for b, _ in pairs], [d for _, d in pairs])
        result.backward = worst([detail.status for detail in result.backward_details])
        return gradients


def _compared(reference: list[torch.Tensor], tested: list[torch.Tensor]) -> list[Detail]:
    if len(reference) != len(tested):
        reason = f"MindSpore gave {len(tested)} results, PyTorch {len(reference)}"
        return [MindSporeDetail(status=ERROR, message=reason)]
    return [_detail(b, d) for b, d in zip(reference, tested)]


def _detail(reference: torch.Tensor, tested: torch.Tensor) -> Detail:
    detail = MindSporeDetail(_dtype(reference), _dtype(tested), tuple(reference.shape), status=ERROR)
    if reference.shape != tested.shape:
        detail.message = f"MindSpore gave shape {tuple(tested.shape)}"
        return detail
    # A right result is the benchmark, rounded to the dtype of the result.
    b, d = reference.to(tested.dtype).double().reshape(-1), tested.double().reshape(-1)
    distance = (b - d).abs()
    distance = distance.where(b != d, 0.0)  # of equal infinities, too
    cosine = (_ZERO + b.dot(d)) / (_ZERO + b.norm() * d.norm())
    relative = distance / b.abs().where(b != 0, _ZERO)
    detail.cosine = float(cosine)
    detail.max_absolute = float(distance.max()) if len(b) else 0.0
    detail.max_relative = float(relative.max()) if len(b) else 0.0
    reasons = []
    if not detail.cosine > _LEAST_COSINE:
        reasons.append(f"the cosine is not above {_LEAST_COSINE}")
    if not detail.max_absolute < _MOST_ABSOLUTE:
        reasons.append(f"the largest absolute error is not below {_MOST_ABSOLUTE}")
    detail.status, detail.message = (ERROR if reasons else PASS), "; ".join(reasons)
    return detail


def _dtype(tensor: torch.Tensor) -> str:
    """As MindSpore writes it: "BFloat16"."""
    name = str(tensor.dtype).removeprefix("torch.")
    for word in ("bfloat", "float", "uint", "int", "bool", "complex"):
        if name.startswith(word):
            own = {"bfloat": "BFloat", "uint": "UInt"}.get(word, word.capitalize())
            return own + name[len(word) :]
    return name
