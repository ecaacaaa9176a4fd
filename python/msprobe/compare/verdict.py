# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The verdict: do two runs differ beyond rounding, and which place is to blame?

The findings of all steps and ranks are gone through in the order of execution. Without rounding noise the first one whose
origin is equal on both sides is the culprit. Where rounding makes everything differ a little, a culprit has to stand out: its
result is many times farther off than what went in. docs/formats/verdict.md describes verdict.json.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msprobe.compare.finding import Finding, Phase
from msprobe.compare.pair_walk import PairWalk, all_findings

SMALL = 64
"""Rounding errors: what another kernel or device may do to one result."""

_CERTAIN = frozenset((Phase.CLIPPING, Phase.OPTIMIZER_SETTING))
_MOST_CULPRITS = 3


@dataclass(frozen=True)
class Tolerance:
    """What counts as noise in a run whose results all differ by rounding."""

    jump: float = 30
    size: float = 500


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


def _is_small(finding: Finding) -> bool:
    return finding.distance < SMALL


class _Judge:
    """Goes through the findings in the order of execution. As long as everything is equal, whatever differs first is to
    blame. Once something differs by no more than rounding, a culprit has to stand out.
    """

    def __init__(self, walks: list[PairWalk], tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._findings = list(all_findings(walks))
        self._equal_steps = {
            (walk.step + 1, walk.rank) for walk in walks if walk.compared > 0 and walk.all_equal
        }
        self.noisy = False

    def culprits(self) -> list[Finding]:
        found = [f for i, f in enumerate(self._findings) if self._is_culprit(i, f)]
        return self._with_random_state(found)

    def _is_culprit(self, index: int, finding: Finding) -> bool:
        if finding.phase == Phase.RANDOM_STATE:
            return False
        if math.isinf(finding.distance) or finding.effect is not None:
            return self._has_effect(index, finding)
        if self.noisy or not finding.exact_before:
            return self._stands_out(finding)
        if _is_small(finding) and not self._other_kernel_is_excluded(finding):
            self.noisy = True
            return False
        return True

    def _other_kernel_is_excluded(self, finding: Finding) -> bool:
        return finding.equal_before or (finding.step, finding.rank) in self._equal_steps

    def _stands_out(self, finding: Finding) -> bool:
        return finding.jump >= self._tolerance.jump and finding.distance >= self._tolerance.size

    def _has_effect(self, index: int, finding: Finding) -> bool:
        """Whether something comes of a setting, an argument or a call that only one run has."""
        if finding.phase in _CERTAIN:
            return finding.kind not in ("missing_call", "extra_call") or finding.name == "optimizer.step"
        if finding.phase == Phase.UPDATE and finding.kind in ("missing_call", "extra_call", "argument"):
            return False  # the optimizer's state shows what comes of it
        least = self._tolerance.size if self.noisy else SMALL
        if finding.effect is not None:
            return finding.effect >= least and finding.effect >= self._tolerance.jump * finding.before
        if finding.kind not in ("module_attribute", "missing_call", "extra_call"):
            return True
        return any(
            other.step == finding.step
            and math.isfinite(other.distance)
            and (self._stands_out(other) or (other.exact_before and not self.noisy and not _is_small(other)))
            for other in self._findings[index + 1 :]
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
