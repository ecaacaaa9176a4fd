# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One operator that a program has run, next to the same operator on the CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.compat.online_dispatch.single_benchmark import Measures, measure
from msprobe.replay.arguments import ArgumentBuilder
from msprobe.replay.execution import Execution, Precision, inputs_of, output_tensors
from msprobe.replay.judgement import CallJudgement, Setting, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from msprobe.replay.comparison import OutputJudgement
    from msprobe.replay.dump_file import RecordedCall

DETAILS_HEADER = [
    "Npu Name", "Bench Dtype", "NPU Dtype", "Shape", "error_balance", "max_abs_diff", "max_abs_idx",
    "max_rel_diff", "max_rel_idx", "eb_thd", "error_thd", "Status", "Message",
    "Verdict", "Reason", "error", "ratio", "excess", "max_ulp", "ulp_99",
]  # fmt: skip
"""The last seven are the measures of `msprobe check` (docs/check.md)."""
RESULT_HEADER = ["API name", "Forward Test Success", "Backward Test Success", "Message"]

_DECIMALS = 14


@dataclass
class Judged:
    """What the files say of one operator."""

    name: str
    """ "mm_1_output"."""
    status: str
    """ "True", "False", or "SKIP" with a message."""
    message: str = ""
    details: list[list[str]] = field(default_factory=list)
    verdict: str = "skipped"
    """Of `msprobe check`: "good", "wrong", "skipped"."""
    reference: list[torch.Tensor] = field(default_factory=list)
    """Results on the CPU."""

    @property
    def fails(self) -> bool:
        return self.status == "False" or self.verdict == "wrong"

    @property
    def result_row(self) -> list[str]:
        return [self.name, self.status, "Nan", *([self.message] if self.message else [])]


def judge_operator(name: str, call: RecordedCall, raised: dict[torch.dtype, torch.dtype]) -> Judged:
    """raised: dtypes that the CPU computes in, in place of those of the arguments. Never raises for what is
    wrong with the operator; random generators are as they were afterwards.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        try:
            inputs = inputs_of(call, ArgumentBuilder(call.folder, "cpu"), random=True)
            reference = Execution(call, inputs, "cpu", Precision(raised), with_gradients=False).outputs
        except Exception as error:  # the CPU may lack the operator, or this dtype of it
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            return Judged(name, "SKIP", f"it does not run on the CPU: {reason}")
        judgement = judge(call, Setting(source="recorded"))
    device = list(output_tensors([ArgumentBuilder(call.folder, "cpu").build(v) for v in call.outputs]))
    if len(device) != len(reference):
        return Judged(name, "SKIP", f"the CPU gives {len(reference)} results, the device {len(device)}")
    try:
        found = [measure(d, b) for d, b in zip(device, reference)]
    except (RuntimeError, TypeError) as error:  # a dtype that torch does not calculate with
        return Judged(name, "SKIP", f"its results are not compared: {str(error).partition(chr(10))[0]}")
    details = [
        _row(f"{name}.forward.output.{i}", d, b, one, _of_output(judgement, i), judgement)
        for i, (d, b, one) in enumerate(zip(device, reference, found))
    ]
    return Judged(
        name,
        str(all(one.passes for one in found)),
        "",
        details,
        judgement.status,
        [b.cpu() for b in reference],
    )


def _of_output(judgement: CallJudgement, index: int) -> OutputJudgement | None:
    return next((o for o in judgement.outputs if o.place == f"output.{index}"), None)


def _row(
    name: str,
    device: torch.Tensor,
    reference: torch.Tensor,
    found: Measures,
    check: OutputJudgement | None,
    call: CallJudgement,
) -> list[str]:
    cells: list[Any] = [
        name,
        reference.dtype,
        device.dtype,
        (device.numel(),),
        found.balance,
        found.max_absolute,
        found.max_absolute_index,
        found.max_relative,
        found.max_relative_index,
        found.balance_limit,
        found.error_limit,
        found.passes,
        found.message,
    ]
    if check is None:
        cells += ["skipped", call.reason, "", "", "", "", ""]
    else:
        cells += [check.status, check.reason, check.error]
        cells += [check.ratio, check.excess, check.max_ulp, check.ulp_99]
    return [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.{_DECIMALS}f}" if isinstance(cell, float) else str(cell)


def operator_named(name: str) -> Any:
    """ "aten::mm.default" as torch.ops has it; None: it is not in this process."""
    import torch

    space, _, rest = name.partition("::")
    plain, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, space), plain), overload or "default")
    except (AttributeError, RuntimeError):
        return None


def name_of(operator: Any) -> str:
    return f"{operator._schema.name}.{operator._schema.overload_name or 'default'}"


def raised_dtypes(device: str) -> dict[torch.dtype, torch.dtype]:
    """16 bits become float32. Where the device is the CPU itself, float32 becomes float64: next to itself an
    operator is always right.
    """
    import torch

    raised = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
    return {**raised, torch.float32: torch.float64} if device == "cpu" else raised


def values_of(call: RecordedCall, kind: str) -> Iterator[tuple[str, Any]]:
    """The tensors and numbers of a snapshot by their place: "0", "1"; kind: "input", "output"."""
    part = "input_args" if kind == "input" else "output"
    for key, value in [
        *enumerate(call.forward[part]),
        *(call.kwargs.items() if kind == "input" else ()),
    ]:
        yield from _named(str(key), value, call.folder)


def _named(name: str, value: Any, tensors: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for i, entry in enumerate(value):
            yield from _named(f"{name}.{i}", entry, tensors)
    elif isinstance(value, dict) and "data_name" in value:
        yield name, tensors[value["data_name"]]
    elif isinstance(value, (bool, int, float)):
        yield name, value
