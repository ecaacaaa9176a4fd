# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The verdict: do two runs differ beyond rounding, and which place is to blame?

The findings of all steps and ranks are gone through in the order of execution. Without rounding noise
the first one whose origin is equal on both sides is the culprit. Where rounding makes everything differ a
little, a culprit has to stand out: its result is many times farther off than what went in.
docs/formats/verdict.md describes verdict.json.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msprobe.compare.finding import Finding, Phase
from msprobe.compare.pair_walk import PairWalk, all_findings

_CERTAIN = frozenset((Phase.CLIPPING, Phase.OPTIMIZER_SETTING))
_MADE_BY_OPTIMIZER = frozenset((Phase.PARAMETERS, Phase.OPTIMIZER_STATE, Phase.UPDATE))
_MOVING = frozenset(
    (
        *("unbind", "split", "chunk", "__getitem__", "narrow", "select", "cat", "stack", "expand"),
        *("view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "t"),
        *("contiguous", "clone", "to", "detach"),
    )
)
"""Operators that only move data: a part of a tensor may be farther off than the whole."""
_MOST_CULPRITS = 3


class Tolerance:
    """What counts as rounding, in units of Finding.distance. Fixed limits, which hold for the usual kernels
    and sizes.
    """

    jump = 30.0
    """A culprit among noise is farther off than what goes in by this factor at least, ..."""
    made = 50_000.0
    """... and what the optimizer has made by this: Adam divides by the size of the gradient, and so gives
    rounding the size of a step where the gradient is zero.
    """
    everywhere = False
    """Noise is known to be everywhere, from repeated runs."""

    def small(self, finding: Finding) -> float:
        """Below this another kernel or device may have made the difference, in one call."""
        return 64.0

    def size(self, finding: Finding) -> float:
        """A culprit among noise is off by this at least."""
        return 500.0

    def stands_out(self, finding: Finding) -> bool:
        """Whether rounding that is everywhere does not explain a finding."""
        least = self.made if _is_made_by_optimizer(finding) else self.size(finding)
        return finding.jump >= self.jump and finding.distance >= least


class DtypeTolerance(Tolerance):
    """Limits from the rounding of the dtype and the number of terms that are summed: n terms are off by
    about sqrt(n) roundings (N. Higham, T. Mary: A new approach to probabilistic rounding error analysis,
    SIAM J. Sci. Comput. 41, 2019), here 4 times that for the confidence.
    """

    def small(self, finding: Finding) -> float:
        return 4.0 + 4.0 * math.sqrt(finding.reduction)

    def size(self, finding: Finding) -> float:
        return 16.0 * self.small(finding)


class NoiseTolerance(Tolerance):
    """Limits from repeated or perturbed runs of the reference: what they show at a place is noise there."""

    _FACTOR = 3.0
    _LEAST_JUMP = 12.0  # walks tell of jumps from 4 on: three times that where the runs tell of none

    def __init__(self, runs: list[list[PairWalk]]) -> None:
        """`runs`: for each of them the walks over it and the reference."""
        self._seen: dict[tuple[int, int, Phase, str], tuple[float, float]] = {}
        for finding in (f for walks in runs for walk in walks for f in walk.findings):
            distance, jump = self._seen.get(_place(finding), (0.0, 0.0))
            self._seen[_place(finding)] = max(distance, finding.distance), max(jump, finding.jump)
        self.everywhere = any(phase != Phase.RANDOM_STATE for _, _, phase, _ in self._seen)

    def small(self, finding: Finding) -> float:
        return self._FACTOR * self._seen.get(_place(finding), (0.0, 0.0))[0]

    def size(self, finding: Finding) -> float:
        return max(self.small(finding), super().small(finding))

    def stands_out(self, finding: Finding) -> bool:
        if _is_made_by_optimizer(finding) and finding.distance < self.made:
            return False
        jump = self._seen.get(_place(finding), (0.0, 0.0))[1]
        least = max(self._FACTOR * jump, self._LEAST_JUMP)
        return finding.distance > self.size(finding) and finding.jump >= least


def _is_made_by_optimizer(finding: Finding) -> bool:
    return finding.phase in _MADE_BY_OPTIMIZER and not finding.is_same_value


def _place(finding: Finding) -> tuple[int, int, Phase, str]:
    return finding.step, finding.rank, finding.phase, finding.name


@dataclass
class Verdict:
    culprits: list[Finding] = field(default_factory=list)
    noisy: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def agree(self) -> bool:
        return not self.culprits


def conclude(walks: list[PairWalk], tolerance: Tolerance | None = None) -> Verdict:
    """The verdict over all steps and ranks."""
    judge = _Judge(walks, tolerance or Tolerance())
    culprits = judge.culprits()
    return Verdict(culprits=culprits[:_MOST_CULPRITS], noisy=judge.noisy)


class _Judge:
    """Goes through the findings in the order of execution. As long as everything is equal, whatever differs
    first is to blame. Once something differs by no more than rounding, a culprit has to stand out.
    """

    def __init__(self, walks: list[PairWalk], tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._findings = list(all_findings(walks))
        self._equal_steps = {
            (walk.step + 1, walk.rank) for walk in walks if walk.compared > 0 and walk.all_equal
        }
        self.noisy = tolerance.everywhere

    def culprits(self) -> list[Finding]:
        found = [f for i, f in enumerate(self._findings) if self._is_culprit(i, f)]
        return self._with_random_state(found)

    def _is_culprit(self, index: int, finding: Finding) -> bool:
        if finding.phase == Phase.RANDOM_STATE:
            return False
        if math.isinf(finding.distance) or finding.effect is not None:
            return math.isfinite(self._tolerance.small(finding)) and self._has_effect(index, finding)
        if self.noisy or not finding.exact_before:
            return self._stands_out(finding)
        if self._is_small(finding) and not self._other_kernel_is_excluded(finding):
            self.noisy = True
            return False
        return True

    def _is_small(self, finding: Finding) -> bool:
        return finding.distance < self._tolerance.small(finding)

    def _other_kernel_is_excluded(self, finding: Finding) -> bool:
        seen_to_agree = finding.equal_before or (finding.step, finding.rank) in self._equal_steps
        return seen_to_agree and finding.distance >= 1

    def _stands_out(self, finding: Finding) -> bool:
        is_moving = finding.kind == "operator" and finding.operator.rpartition(".")[2] in _MOVING
        return not is_moving and self._tolerance.stands_out(finding)

    def _has_effect(self, index: int, finding: Finding) -> bool:
        """Whether something comes of a setting, an argument or a call that only one run has."""
        if finding.phase in _CERTAIN:
            return finding.kind not in ("missing_call", "extra_call") or finding.name == "optimizer.step"
        if finding.phase == Phase.UPDATE and finding.kind in ("missing_call", "extra_call", "argument"):
            return False  # the optimizer's state shows what comes of it
        least = self._tolerance.size(finding) if self.noisy else self._tolerance.small(finding)
        if finding.kind == "module_attribute" and self._shows_in_a_buffer(finding):
            return True
        if finding.effect is not None:
            return finding.effect >= least and finding.effect >= self._tolerance.jump * finding.before
        if finding.kind not in ("module_attribute", "missing_call", "extra_call"):
            return True
        return any(
            other.step == finding.step
            and math.isfinite(other.distance)
            and (
                self._stands_out(other)
                or (other.exact_before and not self.noisy and not self._is_small(other))
            )
            for other in self._findings[index + 1 :]
        )

    def _shows_in_a_buffer(self, finding: Finding) -> bool:
        """As the momentum of a batch normalisation does, one step later."""
        return any(
            other.kind == "buffer" and other.module == finding.module and self._stands_out(other)
            for other in self._findings
            if other.place > finding.place
        )

    def _with_random_state(self, culprits: list[Finding]) -> list[Finding]:
        """A random operator that differs first is not to blame when its generator stood elsewhere."""
        if not culprits or culprits[0].kind != "randomness":
            return culprits
        states = [
            f
            for f in self._findings
            if f.phase == Phase.RANDOM_STATE and f.step == culprits[0].step and f.name.startswith("rng.torch")
        ]
        return [*states[:1], *culprits]
