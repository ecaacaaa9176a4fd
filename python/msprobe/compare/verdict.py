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
    parameter_jump: float = 30


@dataclass
class Verdict:
    culprits: list[Finding] = field(default_factory=list)
    noisy: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def agree(self) -> bool:
        return not self.culprits


def conclude(walks: list[PairWalk], tolerance: Tolerance | None = None) -> Verdict:
    tolerance = tolerance or Tolerance()
    findings = list(all_findings(walks))
    noisy = rounding_everywhere(walks)
    judge = _Noisy(findings, tolerance) if noisy else _Exact(findings, walks)
    culprits = judge.culprits()
    return Verdict(culprits=culprits[:_MOST_CULPRITS], noisy=noisy)


def rounding_everywhere(walks: list[PairWalk]) -> bool:
    """Whether the first computing calls differ already, by rounding alone: another device or other kernels."""
    for walk in sorted(walks, key=lambda walk: (walk.step, walk.rank)):
        numeric = [f for f in walk.findings if f.kind in ("operator", "randomness") and f.phase == Phase.CALLS]
        if not numeric:
            continue
        first = numeric[0]
        return first.exact_before and first.distance < SMALL and walk.equal_at_first <= 2
    return False


def _is_small(finding: Finding) -> bool:
    return finding.distance < SMALL


class _Exact:
    """Everything is equal up to the culprit."""

    def __init__(self, findings: list[Finding], walks: list[PairWalk]) -> None:
        self._findings = findings
        self._equal_ranks = {
            (walk.step + 1, walk.rank) for walk in walks if walk.compared > 0 and walk.all_equal
        }

    def culprits(self) -> list[Finding]:
        found = [f for i, f in enumerate(self._findings) if self._qualifies(i, f)]
        return _with_random_state(found, self._findings)

    def _qualifies(self, index: int, finding: Finding) -> bool:
        if finding.phase == Phase.RANDOM_STATE:
            return False
        if not finding.exact_before:
            return False
        if finding.phase in _CERTAIN:
            return True
        if math.isinf(finding.distance):
            return self._has_effect(index, finding)
        return not _is_small(finding) or (finding.step, finding.rank) in self._equal_ranks

    def _has_effect(self, index: int, finding: Finding) -> bool:
        """Whether a number that differs beyond rounding follows."""
        numbers = ("operator", "randomness", "gradient", "reduction", "weight", "argument", "input_data", "buffer")
        if finding.kind in numbers and finding.phase != Phase.CALLS:
            return True
        if finding.kind in ("operator", "randomness", "reduction", "gradient"):
            return True
        for other in self._findings[index + 1 :]:
            if other.kind in ("missing_call", "extra_call", "module_attribute"):
                continue
            if not _is_small(other) and other.distance > 0:
                return True
        return False


class _Noisy:
    """Everything differs a little."""

    def __init__(self, findings: list[Finding], tolerance: Tolerance) -> None:
        self._findings = findings
        self._tolerance = tolerance

    def culprits(self) -> list[Finding]:
        found = [f for i, f in enumerate(self._findings) if self._qualifies(i, f)]
        return _with_random_state(found, self._findings)

    def _qualifies(self, index: int, finding: Finding) -> bool:
        if finding.phase == Phase.RANDOM_STATE:
            return False
        if finding.phase in _CERTAIN and math.isinf(finding.distance):
            return True
        if math.isinf(finding.distance):
            return self._has_effect(index, finding)
        return self._stands_out(finding)

    def _stands_out(self, finding: Finding) -> bool:
        return finding.jump >= self._tolerance.jump and finding.distance >= self._tolerance.size

    def _has_effect(self, index: int, finding: Finding) -> bool:
        if finding.kind in ("input_data", "buffer", "weight", "optimizer_state"):
            return True
        for other in self._findings[index + 1 :]:
            if other.kind in ("missing_call", "extra_call", "module_attribute") or math.isinf(other.distance):
                continue
            if self._stands_out(other):
                return True
        return False


def _with_random_state(culprits: list[Finding], findings: list[Finding]) -> list[Finding]:
    """A random operator that differs first is not to blame when its generator stood elsewhere."""
    if not culprits or culprits[0].kind != "randomness":
        return culprits
    states = [f for f in findings if f.phase == Phase.RANDOM_STATE and f.step <= culprits[0].step]
    if not states:
        return culprits
    return [states[0], *culprits]
