# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Of the difference between two runs at one call: how much the call itself introduces, and how much comes in
with its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msprobe.native import Error, UnsupportedError, core, torch_adapter
from msprobe.replay.arguments import ArgumentBuilder
from msprobe.replay.execution import inputs_of
from msprobe.replay.judgement import CallJudgement, Setting, judge
from msprobe.replay.runs import parts_of_complex, run_truth

if TYPE_CHECKING:
    import torch

    from msprobe.replay.dump_file import Dump, RecordedCall


@dataclass(frozen=True)
class Share:
    """Of one output or gradient, as 2-norms relative to that of the truth of the reference's arguments."""

    introduced: float
    """Error of the target's operator on the same arguments as the truth."""
    inherited: float
    """Difference of the truths of the target's and of the reference's arguments."""


@dataclass(frozen=True)
class Attribution:
    """What is known of one call of two runs."""

    judgement: CallJudgement
    """Of the target's operator on its own arguments; with an accelerator on those of the reference."""
    shares: dict[str, Share] = field(default_factory=dict)
    """By place: "output.0", "gradient.1"."""
    reason: str = ""
    """Why there are no shares."""

    @property
    def introduces(self) -> bool:
        """The call is wrong by itself, whatever it is given."""
        return self.judgement.status in ("wrong", "nondeterministic")


def attribute(
    target: Dump, reference: Dump, name: str, setting: Setting | None = None, *, reference_name: str = ""
) -> Attribution:
    """Tells introduced from inherited error at one call of two dumps of task tensor.

    name: of the call in the target, "Functional.linear.3"; reference_name: in the reference, if another.
    setting: without one, what the target's dump recorded is judged.

    Never raises for what is wrong with the call or its files: the judgement is "skipped" then. Raises
    InvalidArgument for a name that a dump does not have.
    """
    setting = setting or Setting(source="recorded")
    of_target, of_reference = target.call(name), reference.call(reference_name or name)
    on_reference = setting.source == "device"
    if on_reference:
        judgement = judge(_with_inputs_of(of_target, of_reference), setting)
    else:
        judgement = judge(of_target, setting)
    try:
        if target.folder is None or reference.folder is None:
            raise UnsupportedError("both dumps need tensors (task tensor)")
        shares = _shares(judgement, of_target, of_reference)
    except MemoryError:
        return Attribution(judgement, reason="there is not enough memory")
    except Exception as error:  # whatever torch makes of arguments from a file
        text = str(error).partition("\n")[0]
        return Attribution(
            judgement, reason=text if isinstance(error, Error) else f"{type(error).__name__}: {text}"
        )
    return Attribution(judgement, shares)


def _with_inputs_of(target: RecordedCall, reference: RecordedCall) -> RecordedCall:
    """The target's call, given what the reference's was given."""
    return replace(reference, name=target.name)


def _shares(judgement: CallJudgement, target: RecordedCall, reference: RecordedCall) -> dict[str, Share]:
    of_target, of_reference = (
        run_truth(call, inputs_of(call, ArgumentBuilder(call.folder, "cpu", seed=target.name)))[0]
        for call in (target, reference)
    )
    own = dict(of_target.places())
    errors = {output.place: output.relative for output in judgement.outputs}
    shares = {}
    for place, true in of_reference.places():
        mine = own.get(place)
        if mine is None or mine.shape != true.shape or place not in errors:
            continue
        shares[place] = Share(errors[place], _distance(mine, true))
    if not shares:
        raise UnsupportedError("the two calls have no result of the same shape")
    return shares


def _distance(left: torch.Tensor, right: torch.Tensor) -> float:
    found = torch_adapter().measure_result(
        parts_of_complex(left), parts_of_complex(right), core.ResultOptions()
    )
    if found.reference_squares == 0:
        return 0.0 if found.squared_error == 0 else float("inf")
    return float((found.squared_error / found.reference_squares) ** 0.5)
