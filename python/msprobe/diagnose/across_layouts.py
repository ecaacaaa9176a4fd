# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The comparison of two runs that are laid out over their ranks in other ways: each is read as one logical
run first (docs/layouts.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from msprobe.diagnose.answer import PartResult
from msprobe.diagnose.cause import Cause
from msprobe.diagnose.losses import compare_losses, read_ranks
from msprobe.diagnose.parts import Comparison
from msprobe.files.left_out import left_out
from msprobe.layout.job import MOST_RANKS, open_job
from msprobe.layout.joining import joined
from msprobe.layout.replicas import check_replicas
from msprobe.native import Error

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.diagnose.cause import Stage
    from msprobe.diagnose.parts import DiagnoseOptions
    from msprobe.diagnose.run_folder import RunFolder
    from msprobe.files.left_out import LeftOut
    from msprobe.layout.job import Job
    from msprobe.layout.joining import Joined
    from msprobe.layout.replicas import Mismatch

# A copy that is none is seen to the bit; that it is the cause is as sure as any answer is.
_SURE = 0.95
_STAGE: dict[str, Stage] = {
    "weight": "initial weights",
    "gradient": "gradients",
    "setting": "optimizer",
    "state": "optimizer",
}


def comparison_of(a: RunFolder, b: RunFolder, output: Path, options: DiagnoseOptions) -> Comparison:
    """Of ranks with each other, or of logical runs where the layouts differ."""
    if a.dump and b.dump:
        runs = joined(a.dump, b.dump, output, options.offset_of(a, b))
        if runs is not None:
            return AcrossLayouts(a, b, runs, output, options)
    return Comparison(a, b, output, options)


class AcrossLayouts(Comparison):
    """Dumps are those of the logical runs."""

    is_joined = True

    def __init__(
        self, a: RunFolder, b: RunFolder, runs: Joined, output: Path, options: DiagnoseOptions
    ) -> None:
        """a, b: with dumps, of which `runs` was made."""
        assert a.dump is not None
        assert b.dump is not None
        super().__init__(replace(a, dump=runs.reference), replace(b, dump=runs.target), output, options)
        self._joined = runs
        self._jobs = [("reference", open_job(a.dump)), ("target", open_job(b.dump))]

    @property
    def rank_count(self) -> int:
        return 1

    @property
    def left_out(self) -> list[LeftOut]:
        """A logical run is compared as a whole only where all of its ranks are there."""
        found = super().left_out
        for run, (side, job) in zip((self._a, self._b), self._jobs):
            found += [
                left_out(f"not recorded in the {side}, a run of {run.processes} processes", rank=rank)
                for rank in range(min(run.processes or 0, MOST_RANKS))
                if rank not in job.ranks
            ]
        return found

    def graph(self, cause: Cause) -> None:
        """The graphs of ranks are joined by `msprobe graph --merge`."""

    def _config(self) -> PartResult:
        """Data and weights of single ranks are parts of those of the runs."""
        part = super()._config()
        return replace(part, status="equal" if part.status == "incomplete" else part.status, not_compared=())

    def begin_alike(self) -> bool:
        return False

    def _dump(self) -> PartResult:
        part = super()._dump()
        named = {cause.name for cause in part.causes}
        found = [cause for name, job in self._jobs for cause in self._mismatches(name, job, named)]
        steps = [cause.step for cause in part.causes if cause.step is not None]
        first = [cause for cause in found if not steps or (cause.step or 0) <= min(steps)]
        reference, target = self._joined.layouts
        self.notes.append(
            f"the layouts differ: {reference} -> {target}; weights, gradients and states of the optimizer "
            "were put together and compared"
        )
        not_compared = (*part.not_compared, *self._joined.left_out)
        silent: tuple[Stage, ...] = () if self._joined.has_calls else ("operators",)
        part = replace(part, not_compared=not_compared, silent_stages=silent)
        if not first:
            return part
        step = min(cause.step or 0 for cause in first)
        return replace(
            part,
            status="differ",
            sentence=first[0].reason,
            causes=(*first, *part.causes),
            first_step=step,
            clear_step=step,
        )

    def _mismatches(self, name: str, job: Job, named: set[str]) -> list[Cause]:
        """named: what differs from the other run, too; that confirms what nothing but the values says."""
        try:
            result = check_replicas(job)
        except Error:  # of one process, or nothing says what must be equal
            return []
        self.notes += [f"in the {name}, {one}" for one in result.notes]
        if not result.mismatches:
            return []
        first = result.mismatches[0]
        is_sure = first.declared or f"{first.kind} {first.parameter}" in named
        return [_cause_of(name, first, _SURE if is_sure else 0.8)]

    def _losses(self) -> PartResult:
        """The mean over ranks is the loss of the batch where all ranks have as many samples; where they have
        not, nothing of it follows from the losses of the ranks alone.
        """
        a, b = (_mean(read_ranks(run.losses, shift)) for run, shift in ((self._a, 0), (self._b, self.offset)))
        result = compare_losses(a, b, self._evidence())
        if result.steps == 0:
            return PartResult("losses", "failed", "no step has a loss in both")
        if result.first is None:
            return PartResult(
                "losses", "equal", f"the losses of {result.steps} steps are equal", curves=result
            )
        if result.first_beyond is None:
            largest, step = result.largest
            return PartResult(
                "losses",
                "rounding",
                f"the losses of {result.steps} steps, as means over ranks, differ by {largest:.2g} of their "
                f"size at most (step {step}), which rounding explains",
                curves=result,
            )
        unlike = left_out(
            f"the means over ranks differ from step {result.first_beyond} on; they are the loss of the batch "
            "only where all ranks weigh the same",
            name="losses",
            is_difference=False,
        )
        return PartResult("losses", "absent", "the losses of ranks were not joined", not_compared=(unlike,))


def _mean(ranks: dict[int, dict[int, float]]) -> dict[int, float]:
    """Of the steps that all ranks have. Of a pipeline only those of the last stage have any."""
    ranks = {rank: losses for rank, losses in ranks.items() if losses}
    if not ranks:
        return {}
    steps = set.intersection(*(set(losses) for losses in ranks.values()))
    return {step: math.fsum(losses[step] for losses in ranks.values()) / len(ranks) for step in sorted(steps)}


def _cause_of(name: str, found: Mismatch, confidence: float) -> Cause:
    said = found.sentence.partition(": ")[2]
    return Cause(
        stage=_STAGE[found.kind],
        part="dump",
        name=f"replicas: {found.kind} {found.name}",
        reason=f"{said}: {found.why}; {found.should}",
        confidence=confidence,
        step=found.step,
        plain=f"in the {name} {said}",
        module=found.parameter.rpartition(".")[0],
    )
