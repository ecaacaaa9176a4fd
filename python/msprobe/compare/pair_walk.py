# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that two dumps of one step and rank say about where the runs part, in the order of execution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from msprobe.compare.finding import Finding, Phase

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator

    from msprobe._core import CompareEvent, CompareWalk, DumpPair
    from msprobe.compare.diagnosis_walk import DiagnosisWalk
    from msprobe.compare.finding import Kind

# Calls whose result depends on a random generator.
_RANDOM = ("dropout", "rand", "bernoulli", "multinomial", "normal_", "uniform_", "exponential_", "rrelu")


# Operators of optimizers, for records that do not tell who called.
_UPDATING = ("addcdiv_", "addcmul_", "lerp_", "_foreach_addcdiv_", "_foreach_addcmul_", "_foreach_lerp_")

_WITH_EFFECT = ("argument", "input", "extra", "missing")


@dataclass(frozen=True)
class PairWalk:
    """The findings of one pair, and what tells rounding from faults."""

    step: int
    rank: int
    findings: list[Finding]
    compared: int = 0
    """Records with tensors on both sides."""
    equal: int = 0
    """Of these, all results equal."""
    median: float = 0
    """Distance of results that differ, in rounding errors."""

    @property
    def all_equal(self) -> bool:
        return self.equal == self.compared and all(f.phase == Phase.RANDOM_STATE for f in self.findings)


def walk_pair(
    pair: DumpPair,
    step: int,
    rank: int,
    diagnosis: DiagnosisWalk | None,
    *,
    is_first: bool,
    threads: int = 1,
) -> PairWalk:
    """`diagnosis`: of the same step and rank, where both runs have one. `is_first`: no step of this rank
    has been walked over before. `threads`: for measuring the rows.
    """
    native: CompareWalk = pair.walk(threads=threads)
    calls = [_of_event(event, diagnosis is not None, is_first) for event in native.events]
    findings: list[Finding] = []
    if diagnosis is not None:
        findings += diagnosis.before_calls()
        calls = [call for call in calls if not _is_told_by_diagnosis(call)]
    findings += calls
    if diagnosis is not None:
        findings += diagnosis.after_calls(_explained(native))
        diagnosis.keep_updated(native.updated)
    findings.sort(key=lambda finding: (finding.phase, finding.order))
    of_modules = _differences_of_modules(native)
    placed = [
        replace(finding, step=step, rank=rank, effect=_effect(finding, of_modules)) for finding in findings
    ]
    return PairWalk(
        step=step,
        rank=rank,
        findings=placed,
        compared=native.compared,
        equal=native.equal,
        median=native.median,
    )


def _differences_of_modules(native: CompareWalk) -> dict[str, float]:
    """How far off the results of each module are at most, by its path."""
    result: dict[str, float] = {}
    for name, distance in native.modules:
        path = module_path(name)
        result[path] = max(result.get(path, 0.0), distance)
    return result


def _effect(finding: Finding, of_modules: dict[str, float]) -> float | None:
    """Of a module's setting: what its own calls show."""
    if finding.kind != "module_attribute" or not of_modules or not finding.module:
        return finding.effect
    return of_modules.get(finding.module, 0.0)


# ---- calls


def _of_event(event: CompareEvent, has_diagnosis: bool, is_first: bool) -> Finding:
    kind, reason = _told(event, has_diagnosis)
    is_missing = event.kind == "missing"
    return Finding(
        kind=kind,
        phase=_phase(event),
        name=_name(event),
        reason=reason,
        # A call that is missing stands before the one that comes next.
        order=event.order - 0.5 if is_missing else event.order,
        module=module_path(event.module),
        operator=operator_of(event.name),
        distance=math.inf if event.kind in ("missing", "extra") else event.ulps_out,
        before=event.ulps_in,
        exact_before=event.in_is_equal,
        effect=event.effect if event.kind in _WITH_EFFECT else None,
        equal_before=event.equal_before,
        reduction=event.reduction,
        is_same_value=is_first and kind == "weight",  # no optimizer has been at work
        metrics=_metrics(event),
        record="" if is_missing else event.name,
    )


def _phase(event: CompareEvent) -> Phase:
    is_update = not event.module and operator_of(event.name).rpartition(".")[2] in _UPDATING
    if event.module == "optimizer" or is_update:
        return Phase.UPDATE
    if event.module == "clip_grad":
        return Phase.CLIPPING
    return Phase.GRADIENTS if event.kind == "gradient" else Phase.CALLS


def _name(event: CompareEvent) -> str:
    if event.kind == "gradient":
        return event.item
    return event.item if event.kind in ("argument", "input") and event.item else event.name


def _told(event: CompareEvent, has_diagnosis: bool) -> tuple[Kind, str]:
    name = event.name
    if event.kind in ("extra", "missing"):
        side = "the run under test" if event.kind == "extra" else "the reference"
        kind: Kind = "extra_call" if event.kind == "extra" else "missing_call"
        return "reduction" if name.startswith("Distributed.") else kind, f"only {side} calls {name}"
    if event.kind == "argument":
        values = f"{event.left_text or 'nothing'}, in the reference {event.right_text or 'nothing'}"
        return "argument", f"{event.item} is {values}"
    if event.kind == "gradient":
        return "gradient", f"{event.item} differs, and what it is made of does not explain it"
    if event.kind == "input":
        return _told_of_input(event, has_diagnosis)
    reason = f"what goes into {name} agrees, {event.item} does not"
    if not event.in_is_equal:
        reason = (
            f"{event.item} differs {event.ulps_out / max(event.ulps_in, 1):.0f} times more than what goes in"
        )
    if name.startswith("Distributed."):
        return "reduction", reason
    if any(word in name for word in _RANDOM):
        return "randomness", reason + " (a random operator)"
    return "operator", reason


def _told_of_input(event: CompareEvent, has_diagnosis: bool) -> tuple[Kind, str]:
    if event.parameter:
        return "weight", f"parameter {event.parameter} of {event.module} differs"
    if event.is_backward:
        return "gradient", f"{event.item} differs, and no recorded call made the difference"
    if not has_diagnosis and event.order == 0:
        return "input_data", f"{event.item}, the first that goes into the model, differs"
    return "argument", f"{event.item} differs, and no recorded call made the difference"


def _metrics(event: CompareEvent) -> dict[str, object]:
    if event.kind == "argument":
        return {"target": event.left_text, "golden": event.right_text}
    if event.kind in ("missing", "extra"):
        return {}
    return {"rounding_errors_in": event.ulps_in, "rounding_errors_out": event.ulps_out}


def _is_told_by_diagnosis(finding: Finding) -> bool:
    """The diagnosis knows parameters, and what clipping and the optimizer get, by their names."""
    if finding.phase in (Phase.CLIPPING, Phase.UPDATE):
        return finding.kind == "argument" and math.isfinite(finding.distance)
    return finding.kind == "weight" and finding.phase == Phase.CALLS


def module_path(record: str) -> str:
    """ "blocks.0.attn" of "Module.blocks.0.attn.Attention.forward.0"; "" of anything else."""
    if not record.startswith("Module."):
        return ""
    for phase in (".forward", ".backward", ".parameters_grad"):
        if phase in record:
            return record[len("Module.") : record.rindex(phase)].rpartition(".")[0]
    return ""


def operator_of(record: str) -> str:
    """ "Functional.gelu" of "Functional.gelu.3.forward"; "" of modules."""
    if record.startswith("Module."):
        return ""
    return record.rpartition(".")[0].rpartition(".")[0]


def _explained(native: CompareWalk) -> dict[str, float]:
    """How far off the gradients of parameters may be: as far as anything that the calls did. Those that are
    off by more than their own module explains are findings of the walk over the calls.
    """
    gradients = [event.ulps_out for event in native.events if event.kind == "gradient"]
    return {"": max([native.largest, *gradients])}


def all_findings(walks: list[PairWalk]) -> Iterator[Finding]:
    """In the order of execution; of one place the lowest rank first."""
    yield from sorted(
        (finding for walk in walks for finding in walk.findings),
        key=lambda finding: (finding.place, finding.rank),
    )
