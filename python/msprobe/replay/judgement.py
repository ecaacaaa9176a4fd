# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Is the result of a call right, as far as its dtype allows? Judged against the same call in float64, by
three measures (docs/check.md): the error of a trusted implementation, an a-priori bound, units in the last
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from msprobe.native import Error, UnsupportedError
from msprobe.replay import terms
from msprobe.replay.arguments import ArgumentBuilder, dtype_named, tensors_in
from msprobe.replay.bounds import Bounds
from msprobe.replay.comparison import Comparison, OutputJudgement, Source, Status
from msprobe.replay.execution import (
    Inputs,
    Precision,
    dtype_of_output,
    function_of,
    inputs_of,
    output_tensors,
    without_random_numbers,
)
from msprobe.replay.loop import guarded
from msprobe.replay.memory import require_memory
from msprobe.replay.rounded_operands import rounding_of, with_rounded_operands
from msprobe.replay.runs import TRUTH, Run, plain, run, run_trusted, run_truth

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from msprobe.replay.dump_file import RecordedCall
    from msprobe.tensors.float32_products import Kind, Rounding

_COPIES = 6  # of the tensors of a call in float64, in memory at the same time


@dataclass(frozen=True)
class Setting:
    """What is judged, and how."""

    device: str = "cpu"
    """Where calls are run again."""
    source: Literal["device", "recorded"] = "device"
    """Judge what the device gives now, or what the dump says that it gave."""
    dtype: str = ""
    """Run in this dtype in place of the recorded one ("bfloat16"); empty: as recorded."""
    repeat: int = 1
    """Run each call so often, and compare the results bit by bit."""
    operators: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Implementations to be judged in place of torch's, by the name in a record: "Functional.softmax"."""
    threads: int = 1
    roundings: Mapping[Kind, Rounding] = field(default_factory=dict)
    """Of the float32 operands of products, as they were asked for where the results come from."""


@dataclass(frozen=True)
class CallJudgement:
    name: str
    status: Status
    reason: str
    outputs: list[OutputJudgement] = field(default_factory=list)
    truth: str = TRUTH
    count: int = 1
    """Terms of one element, as the bound counts them."""

    @property
    def worst(self) -> OutputJudgement | None:
        """The output to be looked at first."""
        return max(self.outputs, key=_badness, default=None)


def _badness(output: OutputJudgement) -> tuple[bool, float, float]:
    return output.badness


def judge(call: RecordedCall, setting: Setting) -> CallJudgement:
    """Whatever goes wrong with a call makes it "skipped", with the reason: others go on.
    Arguments that were not saved are drawn with the recorded statistics.
    """

    def judged() -> CallJudgement:
        function_of(call)
        require_memory(call, _COPIES)
        builder = ArgumentBuilder(call.folder, "cpu", "statistics", seed=call.name)
        inputs = inputs_of(call, builder, random=setting.source == "recorded")
        return _Judge(call, inputs, setting).run()

    return guarded(judged, lambda reason: CallJudgement(call.name, "skipped", reason))


class _Judge:
    def __init__(self, call: RecordedCall, inputs: Inputs, setting: Setting) -> None:
        self._call = call
        self._inputs = inputs
        self._setting = setting
        self._precision = Precision()
        self._rounding: Rounding | None = None
        self._note = ""
        self._operator = setting.operators.get(f"{call.prefix}.{call.function}")

    def run(self) -> CallJudgement:
        self._choose_precision()
        self._refuse_nan()
        self._rounding = rounding_of(self._call, self._inputs, self._setting.roundings)
        truth, truth_name = self._truth()
        trusted = self._trusted()
        source, judged, reason = self._judged(trusted)
        bounds = Bounds(self._call, self._inputs, truth, self._rounding)
        outputs = []
        independent = source != "device" or self._setting.device != "cpu"
        trusted_at = dict(trusted.places())
        judged_at = dict(judged.places())
        for place, true in truth.places():
            if place in judged_at and place in trusted_at:
                comparison = Comparison(
                    place,
                    true,
                    trusted_at[place],
                    judged_at[place],
                    source,
                    independent,
                    bounds,
                    self._setting.threads,
                )
                outputs.append(comparison.judge(self._call, self._inputs))
        if not outputs:
            raise UnsupportedError("it gave no tensors that could be compared")
        found = _concluded(self._call, outputs, truth_name, bounds.count, reason, self._note)
        if self._rounding is None:
            return found
        said = f"{self._rounding.sentence}, and it is judged by that"
        return replace(found, reason=f"{found.reason}; {said}" if found.reason else said)

    def _truth(self) -> tuple[Run, str]:
        """With gradients, where what was recorded of them fits the call."""
        try:
            return run_truth(self._call, self._inputs)
        except (Error, RuntimeError, TypeError, ValueError) as error:
            if not self._inputs.gradients:
                raise
            self._inputs = replace(self._inputs, gradients=[])
            found = run_truth(self._call, self._inputs)  # raises where the forward alone fails
            self._note = f"gradients are not judged: {str(error).partition(chr(10))[0]}"
            return found

    def _choose_precision(self) -> None:
        """In another dtype on demand; and under autocast where the record shows that it was."""
        import torch

        inputs, setting = self._inputs, self._setting
        if setting.dtype:
            wanted = dtype_named(setting.dtype)
            dtypes = {dtype: wanted for dtype in inputs.dtypes}
            self._inputs = _in_dtypes(inputs, dtypes)
            return
        output = dtype_of_output(self._call)
        halves = (torch.float16, torch.bfloat16)
        converts = terms.plain_name(self._call.function) in ("half", "bfloat16", "to", "type", "type_as")
        names_dtype = any(isinstance(v, torch.dtype) for v in (*inputs.args, *inputs.kwargs.values()))
        if output in halves and torch.float32 in inputs.dtypes and not converts and not names_dtype:
            # What the function saw are the arguments rounded to that dtype.
            self._inputs = _in_dtypes(inputs, {torch.float32: output})

    def _refuse_nan(self) -> None:
        import torch

        for tensor in tensors_in([self._inputs.args, self._inputs.kwargs]):
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            first = tensor.reshape(-1)[0].float()
            if bool(torch.isnan(first)) and bool(torch.isnan(tensor.float()).all()):
                raise UnsupportedError("an argument is NaN as a whole: whatever is computed is NaN")

    def _trusted(self) -> Run:
        """Where operands are rounded, it is given rounded ones."""
        inputs = self._inputs
        if self._rounding is not None:
            inputs = with_rounded_operands(self._call, inputs, self._rounding)
        return without_random_numbers(lambda: run_trusted(self._call, inputs, self._precision))

    def _judged(self, trusted: Run) -> tuple[Source, Run, str]:
        """The results that are judged, and what repeated runs say of them."""
        setting = self._setting
        if setting.source == "recorded" and self._operator is None:
            return "recorded", self._recorded(trusted), ""
        device = setting.device
        source: Source = "device" if self._operator is None else "operator"
        if source == "device" and device == "cpu" and setting.repeat == 1 and self._rounding is None:
            return source, trusted, ""
        found = run(self._call, self._inputs, device, self._precision, self._operator)
        reason = ""
        for _ in range(setting.repeat - 1):
            again = run(self._call, self._inputs, device, self._precision, self._operator)
            reason = reason or _difference(found, again)
        return source, found, reason

    def _recorded(self, trusted: Run) -> Run:
        """The results that the dump holds, in the places of those of a run."""
        if self._call.folder is None:
            raise UnsupportedError("its results were not recorded: the dump has statistics alone")
        builder = ArgumentBuilder(self._call.folder, "cpu")
        outputs = list(output_tensors([builder.build(value) for value in self._call.outputs]))
        gradients: list[torch.Tensor | None] = []
        if self._call.backward is not None and self._call.has_own_gradients:
            recorded = self._call.backward.get("output", [])
            found = [builder.build(entry) for entry in recorded] if isinstance(recorded, list) else []
            gradients = _matched(
                [plain(g) if g is not None else None for g in found], trusted.gradients, self._inputs
            )
        if not outputs:
            raise UnsupportedError("its results were not recorded")
        return Run([plain(output) for output in outputs], gradients)


def _matched(
    recorded: list[torch.Tensor | None], computed: list[torch.Tensor | None], inputs: Inputs
) -> list[torch.Tensor | None]:
    """Recorded gradients, of which there is one for each tensor with fractions among the arguments, in the
    places of computed ones, of which there is one for each tensor.
    """
    tensors = list(tensors_in([inputs.args, inputs.kwargs]))
    places = [i for i, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]
    result: list[torch.Tensor | None] = [None] * len(computed)
    if len(recorded) != len(places):
        return result
    for place, one in zip(places, recorded):
        other = computed[place] if place < len(computed) else None
        if one is not None and other is not None and one.shape == other.shape:
            result[place] = one
    return result


def _in_dtypes(inputs: Inputs, dtypes: dict[torch.dtype, torch.dtype]) -> Inputs:
    def changed(value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            new = value.detach().to(dtypes.get(value.dtype, value.dtype))
            return new.requires_grad_() if value.requires_grad and new.is_floating_point() else new
        if isinstance(value, list):
            return [changed(entry) for entry in value]
        if isinstance(value, torch.dtype):
            return dtypes.get(value, value)
        return {k: changed(v) for k, v in value.items()} if isinstance(value, dict) else value

    return replace(
        inputs,
        args=changed(inputs.args),
        kwargs=changed(inputs.kwargs),
        gradients=changed(inputs.gradients),
    )


def _difference(first: Run, again: Run) -> str:
    """Where two runs differ, bit by bit; empty: nowhere."""
    second = dict(again.places())
    for place, tensor in first.places():
        other = second.get(place)
        if other is None or other.shape != tensor.shape or not _same_bits(tensor, other):
            return f"{place} differs between two runs with the same arguments"
    return ""


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    import torch

    if left.numel() == 0:
        return True
    raw = (left.contiguous().reshape(-1).view(torch.uint8), right.contiguous().reshape(-1).view(torch.uint8))
    return torch.equal(*raw)


def _concluded(
    call: RecordedCall, outputs: list[OutputJudgement], truth: str, count: int, repeats: str, note: str
) -> CallJudgement:
    bad = [output for output in outputs if output.status == "wrong"]
    if bad:
        first = max(bad, key=_badness)
        return CallJudgement(call.name, "wrong", f"{first.place}: {first.reason}", outputs, truth, count)
    if repeats:
        return CallJudgement(call.name, "nondeterministic", repeats, outputs, truth, count)
    notes = [f"{output.place}: {output.reason}" for output in outputs if output.reason] + [note] * bool(note)
    return CallJudgement(call.name, "good", notes[0] if notes else "", outputs, truth, count)
