# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One call of a dump: run on the device in its own precision and on the CPU in a raised one, forward and
backward, and its results compared, by the rules of mindstudio-probe.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msprobe.compat.accuracy.details import (
    NONE,
    SKIP,
    Detail,
    Status,
    compare,
    compare_dropout,
    skipped,
    worst,
)
from msprobe.compat.operator_standards import Standard, standard_of
from msprobe.native import Error, UnsupportedError
from msprobe.replay.arguments import ArgumentBuilder, tensors_in
from msprobe.replay.execution import (
    Execution,
    Inputs,
    Precision,
    dtype_of_output,
    function_of,
    inputs_of,
    without_random_numbers,
)
from msprobe.replay.functions import NEVER_RUN, parts_of
from msprobe.replay.loop import guarded, reason_of
from msprobe.replay.memory import require_memory
from msprobe.replay.rounded_operands import rounding_of, with_rounded_operands

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from msprobe.replay.arguments import Drawing
    from msprobe.replay.dump_file import RecordedCall
    from msprobe.tensors.float32_products import Kind, Rounding

# What is skipped whatever the lists say.
ALWAYS_SKIPPED = frozenset(
    ("to", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_with_format")
)
_SEVERAL_OUTPUTS = {"topk": 0, "npu_fusion_attention": 0}  # the output that has a gradient
_HF32 = ("conv1d", "conv2d")  # in float32: computed with a shortened mantissa there, and not raised here
_NOT_RAISED = ("type_as",)
_CAUSAL_MASK = 2048  # rows and columns

# Of an online check: judged without a benchmark of raised precision.
_TWO_PARTIES = (Standard.ABSOLUTE_THRESHOLD, Standard.BINARY, Standard.THOUSANDTH)

_COPIES = 3  # of the tensors of a call, in memory at the same time

_NO_BACKWARD = "This API does not have backward input data, skip backward."
_WITHOUT_BACKWARD = "This API does not support backward ut, skip backward."
_WITH_OUT = "function with out=... arguments don't support automatic differentiation, skip backward."
_SEVERAL = "Multiple backward is not supported."


@dataclass
class CallResult:
    """What the two files say of one call."""

    name: str
    forward: Status
    backward: Status
    forward_details: list[Detail] = field(default_factory=list)
    backward_details: list[Detail] = field(default_factory=list)
    data: ErrorData | None = None

    @property
    def message(self) -> str | None:
        """Why it was skipped; None: it was not."""
        for status, details in (
            (self.forward, self.forward_details),
            (self.backward, self.backward_details),
        ):
            if status == SKIP:
                return details[0].message if details else ""
        return None

    @property
    def passed(self) -> bool:
        return self.forward == "pass" and self.backward in ("pass", NONE)


@dataclass(frozen=True)
class ErrorData:
    """What -save_error_data keeps of a call that does not pass."""

    inputs: Inputs
    reference_outputs: Any
    device_outputs: Any
    backward_input: Any
    reference_gradients: list[torch.Tensor | None] | None
    device_gradients: list[torch.Tensor | None] | None


@dataclass(frozen=True)
class ReceivedResult:
    """What is said of a call whose results another device has computed."""

    result: CallResult
    """Those results next to the benchmark."""
    local: CallResult | None = None
    """Results of the device here next to the same benchmark; None: the device here is the benchmark."""


@dataclass(frozen=True)
class Checker:
    """Checks calls of one dump on one device."""

    device: str
    white_list: tuple[str, ...] = ()
    black_list: tuple[str, ...] = ()
    threads: int = 1
    roundings: Mapping[Kind, Rounding] = field(default_factory=dict)
    """Of the float32 operands of products on the device, as they were asked for."""

    def skipped(self, name: str) -> CallResult | None:
        """The result of a call that is not even looked at; None: it is to be checked."""
        prefix, function = parts_of(name)
        if prefix in NEVER_RUN or not function:
            return _skipped(name, f"API {name} not support for run ut. SKIP.")
        listed = function in ALWAYS_SKIPPED or function in self.black_list
        if listed or (self.white_list and function not in self.white_list):
            return _skipped(name, f"API {function} in black list or not in white list. SKIP.")
        return None

    def check(self, call: RecordedCall) -> CallResult:
        """Whatever goes wrong with one call is its result: the others go on."""
        return guarded(lambda: _Check(self, call).run(), lambda reason: _skipped(call.name, reason))

    def check_received(self, call: RecordedCall) -> ReceivedResult:
        """Of the results in the record, and not of a new run on the device."""
        return guarded(
            lambda: _Check(self, call).run_received(),
            lambda reason: ReceivedResult(_skipped(call.name, reason)),
        )


def _skipped(name: str, message: str) -> CallResult:
    return CallResult(name, SKIP, SKIP, [skipped(message)])


class _Check:
    def __init__(self, checker: Checker, call: RecordedCall) -> None:
        self._checker = checker
        self._call = _adapted(call)
        self._function = call.function.rpartition(".")[2]
        self._threads = checker.threads

    def run(self) -> CallResult:
        inputs = self._inputs("range")
        reference_precision, device_precision = _precisions(
            self._function, inputs, dtype_of_output(self._call)
        )
        wants = self._wants_gradients()

        def compared(given: Inputs) -> CallResult:
            reference = Execution(self._call, given, "cpu", reference_precision, with_gradients=wants)
            device = Execution(
                self._call, inputs, self._checker.device, device_precision, with_gradients=wants
            )
            return self._compared(given, reference, device)

        result = compared(inputs)
        rounding = rounding_of(self._call, inputs, self._checker.roundings)
        if result.passed or rounding is None:
            return result
        # It may be as exact as it was asked to be: as a benchmark whose operands are rounded as well.
        rounded = compared(with_rounded_operands(self._call, inputs, rounding))
        if rounded.passed:
            for detail in rounded.forward_details + rounded.backward_details:
                detail.message = f"{detail.message} {rounding.sentence}.".strip()
        return rounded if rounded.passed else result

    def run_received(self) -> ReceivedResult:
        """Functions whose results are to be equal, or nearly so, are run here in their own precision; others
        in a raised one, too.
        """
        inputs = self._inputs("statistics", random=True)
        raised, own = _precisions(self._function, inputs, dtype_of_output(self._call))
        wants = self._wants_gradients()
        received = _Received(self._call, inputs)

        def run_here() -> Execution:
            return Execution(self._call, inputs, self._checker.device, own, with_gradients=wants)

        local = run_here() if "dropout" in self._call.name else without_random_numbers(run_here)
        if standard_of(self._function) in _TWO_PARTIES:
            return ReceivedResult(self._compared(inputs, local, received))
        reference = Execution(self._call, inputs, "cpu", raised, with_gradients=wants)
        result = self._compared(inputs, reference, received)
        reference = Execution(self._call, inputs, "cpu", raised, with_gradients=wants)  # its graph is used up
        return ReceivedResult(result, self._compared(inputs, reference, local))

    def _inputs(self, drawing: Drawing, *, random: bool = False) -> Inputs:
        function_of(self._call)
        require_memory(self._call, _COPIES)
        builder = ArgumentBuilder(self._call.folder, "cpu", drawing, seed=self._call.name)
        return _converted(self._function, inputs_of(self._call, builder, random=random))

    def _wants_gradients(self) -> bool:
        return self._call.backward is not None and not self._why_no_backward()

    def _compared(self, inputs: Inputs, reference: Execution, device: Execution | _Received) -> CallResult:
        message = self._why_no_backward()
        result = self._forward(reference, device)
        gradients: tuple[list[Any], list[Any]] | None = None
        if self._wants_gradients():
            message = self._why_no_gradient(reference)
            if not message:
                try:
                    gradients = self._gradients(inputs, reference, device)
                except (Error, RuntimeError) as error:
                    message = reason_of(error)
        self._backward(result, gradients, message)
        result.data = ErrorData(
            inputs,
            _detached(reference.value),
            _detached(device.value),
            reference.converted(inputs.gradients[0])
            if gradients and inputs.gradients[0] is not None
            else None,
            gradients[0] if gradients else None,
            gradients[1] if gradients else None,
        )
        return result

    # ---- forward

    def _forward(self, reference: Execution, device: Execution | _Received) -> CallResult:
        if "dropout" in self._call.name:
            first_reference, first_device = reference.outputs[0], device.outputs[0].cpu()
            return CallResult(self._call.name, compare_dropout(first_reference, first_device), NONE)
        details = self._compare_all(_list_of(reference.value), _list_of(device.value))
        return CallResult(self._call.name, worst([d.status for d in details]), NONE, details)

    def _compare_all(self, reference: list[Any], device: list[Any]) -> list[Detail]:
        if len(reference) > len(device):
            return [Detail(status="error", message="the device gave fewer results than the benchmark")]
        return [
            compare(self._function, _on_cpu(b), _on_cpu(d), self._threads) for b, d in zip(reference, device)
        ]

    # ---- backward

    def _why_no_backward(self) -> str:
        if "out" in self._call.kwargs:
            return _WITH_OUT
        if self._function == "repeat_interleave":
            return _NO_BACKWARD
        return _WITHOUT_BACKWARD if self._function == "masked_select" else ""

    def _why_no_gradient(self, reference: Execution) -> str:
        several = isinstance(reference.value, (list, tuple)) and self._function not in _SEVERAL_OUTPUTS
        return _SEVERAL if several else ""

    def _gradients(
        self, inputs: Inputs, reference: Execution, device: Execution | _Received
    ) -> tuple[list[Any], list[Any]] | None:
        count = sum(1 for _ in tensors_in(inputs.args))
        recorded = inputs.gradients[:1]
        if not recorded or recorded[0] is None:
            raise UnsupportedError("the gradient of the output was not recorded, skip backward.")
        reference_gradients = reference.gradients(recorded)[:count]
        device_gradients = device.gradients(recorded)[:count]
        return reference_gradients, device_gradients

    def _backward(
        self, result: CallResult, gradients: tuple[list[Any], list[Any]] | None, message: str
    ) -> None:
        if message:
            result.backward, result.backward_details = SKIP, [skipped(message)]
        elif gradients is not None and gradients[0]:
            reference, device = gradients
            if "dropout" in self._call.name:
                if reference[0] is not None and device[0] is not None:
                    result.backward = compare_dropout(reference[0], device[0].cpu())
                return
            result.backward_details = self._compare_all(reference, device)
            result.backward = worst([detail.status for detail in result.backward_details])


class _Received:
    """The results in a record, in the place of those of a run."""

    def __init__(self, call: RecordedCall, inputs: Inputs) -> None:
        self._call = call
        self._inputs = inputs
        if call.folder is None or not call.outputs:
            raise UnsupportedError("its results were not sent")
        self._builder = ArgumentBuilder(call.folder, "cpu")
        self.value: Any = [self._builder.build(value) for value in call.outputs]

    @property
    def outputs(self) -> list[torch.Tensor]:
        return [tensor.detach() for tensor in tensors_in(self.value)]

    def gradients(self, given: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """One for each tensor among the arguments. `given` is what was recorded, too."""
        backward = self._call.backward
        recorded = backward.get("output", []) if backward is not None else []
        found = [self._builder.build(entry) for entry in recorded] if isinstance(recorded, list) else []
        tensors = list(tensors_in([self._inputs.args, self._inputs.kwargs]))
        places = [i for i, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]
        if not self._call.has_own_gradients or len(found) != len(places):
            raise UnsupportedError("the gradients that it gave were not sent, skip backward.")
        result: list[torch.Tensor | None] = [None] * len(tensors)
        for place, gradient in zip(places, found):
            result[place] = gradient
        return result


def _list_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _detached(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        return [_detached(entry) for entry in value]
    return {k: _detached(v) for k, v in value.items()} if isinstance(value, dict) else value


def _on_cpu(value: Any) -> Any:
    import torch

    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


# ---- how arguments are changed before a call is run


def _adapted(call: RecordedCall) -> RecordedCall:
    """Records of which no valid arguments would be made."""
    args = call.args
    if not args or not isinstance(args[0], dict):
        return call
    if call.function == "cross_entropy" and len(args) > 1 and isinstance(args[1], dict):
        low = args[1].get("Min")  # a class, or -100 for none
        if isinstance(low, (int, float)) and low <= 0:
            args = [args[0], {**args[1], "Min": 0}, *args[2:]]
    elif call.function == "histc" and "int" in str(args[0].get("dtype")):
        args = [{**args[0], "dtype": "torch.float32"}, *args[1:]]
    return replace(call, forward={**call.forward, "input_args": args})


def _converted(function: str, inputs: Inputs) -> Inputs:
    import torch

    if function == "npu_fusion_attention":
        return _with_causal_mask(inputs)
    if function == "cross_entropy":
        return _each_tensor(inputs, lambda t: t.long() if t.dtype is torch.int32 else t)
    if function == "histc":
        return _each_tensor(inputs, lambda t: t.float() if t.dtype is torch.int64 else t)
    if function in _HF32:
        return _each_tensor(inputs, lambda t: _shortened(t) if t.dtype is torch.float32 else t)
    return inputs


def _with_causal_mask(inputs: Inputs) -> Inputs:
    """In these modes the operator takes a mask of one fixed form, and a drawn one would mean nothing."""
    import torch

    if inputs.kwargs.get("sparse_mode") not in (2, 3, 4) or "atten_mask" not in inputs.kwargs:
        return inputs
    mask = torch.ones(_CAUSAL_MASK, _CAUSAL_MASK, dtype=torch.bool).triu(1)
    return replace(inputs, kwargs={**inputs.kwargs, "atten_mask": mask})


def _each_tensor(inputs: Inputs, change: Any) -> Inputs:
    def changed(value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            new = change(value.detach())
            return new.requires_grad_() if value.requires_grad else new
        if isinstance(value, list):
            return [changed(entry) for entry in value]
        return {k: changed(v) for k, v in value.items()} if isinstance(value, dict) else value

    return replace(
        inputs,
        args=changed(inputs.args),
        kwargs=changed(inputs.kwargs),
        gradients=changed(inputs.gradients),
    )


def _shortened(tensor: torch.Tensor) -> torch.Tensor:
    """float32 without the last 12 bits of its mantissa, rounded: what some devices compute float32 with."""
    import torch

    bits = tensor.contiguous().view(torch.int32)
    return (((bits >> 11) + 1 >> 1) << 12).view(torch.float32)


def raised_precision(function: str, inputs: Inputs) -> Precision:
    """Of the benchmark."""
    return _precisions(function, inputs, None)[0]


def _precisions(function: str, inputs: Inputs, output: torch.dtype | None) -> tuple[Precision, Precision]:
    """Of the benchmark and of the device."""
    import torch

    raised = {
        torch.float16: torch.float32,
        torch.bfloat16: torch.float32,
        torch.float32: torch.float64,
    }
    found = {dtype for dtype in inputs.dtypes if dtype in raised}
    autocast: torch.dtype | None = None
    dtypes: dict[torch.dtype, torch.dtype] = {}
    if len(found) == 1:
        (own,) = found
        dtypes = {own: raised[own]}
        autocast = output if output is not None and output is not own else None
    elif len(found) > 1:
        halves = found - {torch.float32}
        dtypes = dict.fromkeys(halves, torch.float32)
        autocast = torch.bfloat16 if torch.bfloat16 in halves else torch.float16
    elif output is not None:
        autocast = output
    if function in _HF32:
        dtypes.pop(torch.float32, None)
    if function in _NOT_RAISED:
        dtypes = {}
    return (
        Precision(dtypes, tensors_only=True),
        Precision(autocast=autocast, tensors_only=True),
    )
