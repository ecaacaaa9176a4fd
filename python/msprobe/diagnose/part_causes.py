# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The causes that the parts of a comparison give: of what each of them found, what an answer says of it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msprobe.compare.culprit import parse_frame
from msprobe.config_check import wording
from msprobe.diagnose.cause import Cause
from msprobe.diagnose.figures import rounded
from msprobe.diagnose.step_data import names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msprobe.checkpoint.result import CheckpointResult
    from msprobe.compare.culprit import Culprit
    from msprobe.compare.result import CompareResult
    from msprobe.config_check.checks.check_result import Difference
    from msprobe.config_check.checks.likelihood import Ranked
    from msprobe.config_check.comparison import ConfigComparison
    from msprobe.diagnose.cause import Stage
    from msprobe.files.left_out import LeftOut
    from msprobe.grad_probe.verdict import Finding

_MOST_FRAMES = 5

_STAGE_OF_CHECK: dict[str, Stage] = {"dataset": "data", "weights": "initial weights"}
_STAGE_OF_KIND: dict[str, Stage] = {
    "input_data": "data",
    "randomness": "data",
    "weight": "initial weights",
    "buffer": "initial weights",
    "gradient": "gradients",
    "reduction": "gradients",
    "clipping": "gradients",
    "optimizer_setting": "optimizer",
    "optimizer_state": "optimizer",
    "update": "optimizer",
}

_PLACE = re.compile(r"at step ([0-9]{1,9}), rank ([0-9]{1,9})")


# ---- the set-up


def equal_stages(result: ConfigComparison) -> Iterator[Stage]:
    """Data and weights of the first step; later weights are those of a training that differs."""
    for check in result.checks:
        stage = _STAGE_OF_CHECK.get(check.name)
        later = all(one.name == "weights after the first step" for one in check.differences)
        if stage is not None and (check.passed or (check.differences and later)):
            yield stage


def is_setting(difference: Difference) -> bool:
    """One of the program, that both runs have."""
    return difference.check == "hyperparameters" and bool(difference.reference and difference.target)


def of_setting(one: Ranked) -> Cause:
    difference = one.difference
    return Cause(
        stage="configuration",
        part="config",
        name=f"{difference.check}: {difference.name}",
        reason=one.reason,
        confidence=one.confidence,
        plain=f"{difference.name} = {difference.target} (reference: {difference.reference})",
        values=(difference.target, difference.reference),
        acts=one.acts,
    )


def of_set_up(one: Ranked) -> Cause:
    step, rank = _place(one.difference)
    return Cause(
        stage=_STAGE_OF_CHECK.get(one.difference.check, "configuration"),
        part="config",
        name=f"{one.difference.check}: {one.difference.name}",
        reason=f"{wording.line(one)}: {one.reason}",
        confidence=one.confidence,
        step=step,
        rank=rank,
        plain=wording.line(one),
    )


def _place(difference: Any) -> tuple[int | None, int | None]:
    """Step and rank, where the text of a difference of tensors names them."""
    found = _PLACE.search(difference.detail) if difference.check in _STAGE_OF_CHECK else None
    return (None, None) if found is None else (int(found[1]), int(found[2]))


# ---- weights, gradients and dumps


def of_checkpoint(result: CheckpointResult) -> Iterator[Cause]:
    """Of weights with which the trainings start; later ones are those of a training that differs."""
    if result.same or {result.reference.iteration, result.target.iteration} != {0}:
        return
    worst = result.differing[0].name if result.differing else (result.reference_only + result.target_only)[0]
    yield Cause(
        "initial weights",
        "checkpoint",
        worst,
        "the runs start from other weights",
        0.95,
        0,
        plain=f"the runs start from other weights: {worst}",
    )


def of_gradient(first: Finding, suspicious: Sequence[Finding], missing: Sequence[LeftOut]) -> Cause:
    """missing: what was not compared, in which the true cause may lie."""
    name = f"gradient of {first.parameter}"
    return Cause(
        "gradients",
        "gradients",
        name,
        rounded(first.reason),
        0.5 if any(one.may_hold(first.step) for one in missing) else 0.6,
        first.step,
        first.rank,
        tuple(sorted(_ranks_of(first, suspicious))),
        plain=f"the {name} differs",
    )


def _ranks_of(first: Finding, findings: Sequence[Finding]) -> set[int]:
    """In which a gradient differs at the same step."""
    place = first.step, first.parameter
    return {one.rank for one in findings if one.rank is not None and (one.step, one.parameter) == place}


def of_culprit(culprit: Culprit, culprits: Sequence[Culprit], result: CompareResult) -> Cause:
    """culprits: all of the dumps. result: of their comparison."""
    own, other = _stacks(culprit, culprits, result)
    if culprit.reference_record:
        own, other = other, own
    pair = result.pair_of(culprit.step, culprit.rank)
    data, others = ("", []) if pair is None else names_of(culprit, pair)
    return Cause(
        stage="data" if data else _STAGE_OF_KIND.get(culprit.kind, "operators"),
        part="dump",
        name=f"{culprit.kind.replace('_', ' ')} {culprit.name}",
        reason=culprit.reason + (f"; other data that differ: {', '.join(others)}" if others else ""),
        confidence=culprit.confidence,
        step=culprit.step,
        rank=culprit.rank,
        ranks=culprit.ranks,
        module=culprit.module,
        record=culprit.record or culprit.reference_record,
        stack=own,
        reference_stack=other,
        plain=f"data differ: {data} ({culprit.plain})" if data else culprit.plain,
        is_of_reference=bool(culprit.reference_record),
        values=(str(culprit.metrics.get("target", "")), str(culprit.metrics.get("reference", ""))),
    )


def _stacks(
    culprit: Culprit, culprits: Sequence[Culprit], result: CompareResult
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the run that has the culprit, and those of the other. What is no call, as an attribute
    of a module, has the lines of a call in this module that is a culprit, too.
    """
    called = culprit
    if not culprit.stack and culprit.module:
        place = culprit.step, culprit.rank, culprit.module
        here = (one for one in culprits if (one.step, one.rank, one.module) == place and one.stack)
        called = next(here, culprit)
    own = tuple(frame.text for frame in called.top_frames(_MOST_FRAMES))
    if called.kind in ("missing_call", "extra_call"):
        return own, ()
    record, of_reference = called.record or called.reference_record, not called.reference_record
    texts = result.frames_of(called.step, called.rank, record, of_reference=of_reference)
    other = replace(called, stack=[parse_frame(text) for text in texts])
    return own, tuple(frame.text for frame in other.top_frames(_MOST_FRAMES))
