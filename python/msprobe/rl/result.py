# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison of two records found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.result import Cell


@dataclass(frozen=True)
class Rule:
    """From when on something counts as different. Integers, Booleans and tokens must be equal."""

    tolerance: float = 0.01
    """Of values: |a - b| <= absolute + tolerance * max(|a|, |b|)."""
    absolute: float = 1e-6
    log_prob_tolerance: float = 0.1
    """Of log probabilities: |a - b|, which is the logarithm of the ratio of the probabilities."""
    share: float = 0.01
    """Of the tokens, how many may have log probabilities beyond their tolerance."""


@dataclass(frozen=True)
class Place:
    """Where something was saved. `entry`: number in a list or key in a dict; empty: a tensor alone."""

    step: int
    rank: int
    micro_step: int
    entry: str

    @property
    def words(self) -> str:
        entry = f", entry {self.entry}" if self.entry else ""
        return f"step {self.step}, rank {self.rank}, micro-step {self.micro_step}{entry}"


@dataclass(frozen=True)
class Mismatch:
    """An element that differs. `index` is in the part that both have."""

    place: Place
    index: tuple[int, ...]
    reference: float
    target: float

    @property
    def words(self) -> str:
        return f"{self.place.words}: {where(self.index)}"


def where(index: tuple[int, ...]) -> str:
    """An element of an array: of two dimensions are samples and tokens."""
    if len(index) == 2:
        return f"sample {index[0]}, token {index[1]}"
    if len(index) == 1:
        return f"element {index[0]}"
    return f"element {list(index)}" if index else "the value"


@dataclass(frozen=True)
class KeyResult:
    """One key of both records."""

    name: str
    kind: str
    """exact: every difference counts; log_probs: by `log_probs` below; values: by the tolerance."""
    arrays: int
    elements: int
    same: int
    """Elements that are equal."""
    beyond: int
    """Elements beyond the tolerance; of exact keys: that differ."""
    differing_arrays: int
    """With an element beyond the tolerance, or of another shape."""
    max_absolute: float
    max_relative: float
    first: Mismatch | None
    reshaped: list[tuple[Place, list[int], list[int]]]
    """Arrays of other shapes, at most 100; the part that both have is compared."""
    reference_only: list[Place]
    target_only: list[Place]
    """Arrays without a counterpart, though the other record has their step and rank."""
    left_out: str
    """Steps and ranks that only one record has, in words; empty: none."""
    problems: list[tuple[Place, str]]
    by_step: list[tuple[int, int, float]]
    """Step, elements beyond the tolerance, largest absolute error."""
    table: Path | None
    log_probs: LogProbResult | None = None


@dataclass(frozen=True)
class Token:
    place: Place
    sample: int
    token: int
    reference: float
    target: float

    @property
    def words(self) -> str:
        return f"{self.place.words}: sample {self.sample}, token {self.token}"


@dataclass(frozen=True)
class LogProbResult:
    """Log probabilities that two policies give to the same tokens, which the reference sampled."""

    reference: str
    target: str
    """What was compared, for a person: "rollout_log_probs of run_a"."""
    mask: str
    tokens: int
    beyond: int
    not_finite: int
    masked: int
    mean_absolute: float
    max_absolute: float
    k1: float
    """Estimates of KL(reference || target): the mean of reference - target,"""
    k3: float
    """and of exp(d) - 1 - d, d = target - reference (J. Schulman, "Approximating KL Divergence", 2020)."""
    mean_ratio: float
    effective_share: float
    """(sum of ratios)^2 / (tokens * sum of squared ratios): 1 when all are equal."""
    mean_probability_difference: float
    max_probability_difference: float
    correlation: float
    """Of the probabilities, after Pearson; NaN where one side is constant."""
    ratio_counts: list[int]
    first: Token | None
    worst: Token | None
    arrays: int
    problems: list[str]
    unpaired: int

    @property
    def share(self) -> float:
        return self.beyond / self.tokens if self.tokens else 0.0

    def exceeds(self, rule: Rule) -> bool:
        return self.share > rule.share


@dataclass(frozen=True)
class WeightDifference:
    name: str
    reason: str


@dataclass(frozen=True)
class WeightResult:
    """Weights after a sync, next to those that were sent."""

    sent: str
    received: str
    parameters: int
    equal: int
    rounded: int
    """Equal but for the rounding to the narrower dtype."""
    differing: list[WeightDifference]
    notes: list[str]

    @property
    def agree(self) -> bool:
        return not self.differing

    @property
    def sentence(self) -> str:
        if self.agree:
            rounded = f", {self.rounded} of them but for rounding" if self.rounded else ""
            return f"The weights received are those sent: {self.parameters} parameters{rounded}"
        first = self.differing[0]
        return (
            f"The weights received are not those sent: {len(self.differing)} of {self.parameters} parameters "
            f"differ, first {first.name}: {first.reason}"
        )


@dataclass(frozen=True)
class Finding:
    """Something that differs, or could not be compared."""

    kind: str
    """weights, tokens, values, log_probs, rollout, shape, missing, unreadable"""
    key: str
    step: int | None
    sentence: str

    @property
    def is_difference(self) -> bool:
        return self.kind not in ("missing", "unreadable")


@dataclass(frozen=True, repr=False)
class RlResult(Result):
    reference: str
    target: str
    rule: Rule
    keys: list[KeyResult]
    within: list[LogProbResult]
    """Rollout next to training, inside of each record, or as asked for."""
    weights: WeightResult | None
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        if any(finding.is_difference for finding in self.findings):
            return "differs"
        return "incomplete" if self.findings else "same"

    @property
    def same(self) -> bool:
        return not self.findings

    @property
    def first(self) -> Finding | None:
        return next((one for one in self.findings if one.is_difference), next(iter(self.findings), None))

    @property
    def sentence(self) -> str:
        first = self.first
        if first is None:
            return f"The records agree: {self._compared()}"
        if first.is_difference:
            return first.sentence
        return f"No difference was seen, but: {first.sentence}"

    def table(self) -> Sequence[dict[str, Cell]]:
        """What differs, or could not be compared, the first first."""
        return [
            {"kind": one.kind, "key": one.key, "step": one.step, "reason": one.sentence}
            for one in self.findings
        ]

    def _compared(self) -> str:
        parts = []
        if self.keys:
            arrays = sum(key.arrays for key in self.keys)
            parts.append(f"{arrays} arrays of {len(self.keys)} keys")
        tokens = sum(one.tokens for one in self.within)
        if self.within:
            parts.append(f"{tokens} tokens of rollout and training")
        if self.weights is not None:
            parts.append(f"{self.weights.parameters} weights")
        return ", ".join(parts) or "nothing was compared"


def log_prob_result(found: dict[str, Any], reference: str, target: str, mask: str) -> LogProbResult:
    """Of what the native comparison says."""
    n = found["tokens"] - found["not_finite"]
    mean = (lambda key: found[key] / n) if n else (lambda key: 0.0)
    squares = n * found["sum_squared_ratio"]
    return LogProbResult(
        reference=reference,
        target=target,
        mask=mask,
        tokens=found["tokens"],
        beyond=found["beyond"],
        not_finite=found["not_finite"],
        masked=found["masked"],
        mean_absolute=mean("sum_absolute"),
        max_absolute=found["max_absolute"],
        k1=mean("sum_k1"),
        k3=mean("sum_k3"),
        mean_ratio=mean("sum_ratio"),
        effective_share=found["sum_ratio"] ** 2 / squares if squares else 1.0,
        mean_probability_difference=mean("sum_probability_difference"),
        max_probability_difference=found["max_probability_difference"],
        correlation=_correlation(found, n),
        ratio_counts=list(found["ratio_counts"]),
        first=_token(found["first"]),
        worst=_token(found["worst"]),
        arrays=found["arrays"],
        problems=list(found["problems"]),
        unpaired=found["reference_only"] + found["target_only"],
    )


def _correlation(found: dict[str, Any], n: int) -> float:
    if not n:
        return math.nan
    reference, target = found["sum_reference"] / n, found["sum_target"] / n
    covariance = found["sum_reference_target"] / n - reference * target
    spread = (found["sum_reference_squared"] / n - reference**2) * (
        found["sum_target_squared"] / n - target**2
    )
    return max(-1.0, min(1.0, covariance / math.sqrt(spread))) if spread > 0 else math.nan


def _token(found: dict[str, Any] | None) -> Token | None:
    if found is None:
        return None
    return Token(Place(*found["place"]), found["sample"], found["token"], found["reference"], found["target"])
