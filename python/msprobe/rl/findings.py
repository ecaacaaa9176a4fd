# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which of what was found is a difference, and which comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.rl.result import Finding, where

if TYPE_CHECKING:
    from msprobe.rl.result import KeyResult, LogProbResult, RlResult


def findings_of(result: RlResult) -> list[Finding]:
    """In the order in which to look at them: weights, which everything is made of; then by step, and in a
    step by the order in which it comes to the keys; then what could not be compared.
    """
    found = []
    if result.weights is not None and not result.weights.agree:
        found.append(Finding("weights", "", None, result.weights.sentence))
    differences = [finding for key in result.keys for finding in _differences(key, result)]
    differences += _rollouts(result)
    found += sorted(differences, key=lambda one: -1 if one.step is None else one.step)  # keeps their order
    found += [finding for key in result.keys for finding in _gaps(key)]
    found += [
        Finding("unreadable", one.reference, None, f"{one.reference} next to {one.target}: {problem}")
        for one in result.within
        for problem in one.problems
    ]
    return found


def _differences(key: KeyResult, result: RlResult) -> list[Finding]:
    findings = []
    if key.reshaped:
        place, reference, target = key.reshaped[0]
        text = f"{key.name}: the shapes differ: {reference} and {target} ({place.words})"
        findings.append(Finding("shape", key.name, place.step, text))
    if key.kind == "log_probs" and key.log_probs is not None:
        if key.log_probs.exceeds(result.rule):
            findings.append(_log_prob_finding("log_probs", key.name, key.log_probs, result))
    elif key.first is not None:
        first = key.first
        values = f"{shown(first.reference)} and {shown(first.target)}"
        text = f"The records diverge in {key.name}, {first.words}: {values}"
        kind = "tokens" if key.kind == "exact" else "values"
        findings.append(Finding(kind, key.name, first.place.step, text))
    return findings


def _rollouts(result: RlResult) -> list[Finding]:
    """Rollout and training of one record. Of two records: a fault that the reference has as well is none
    of the target.
    """
    beyond = [one for one in result.within if one.exceeds(result.rule)]
    if len(result.within) == 2 and beyond and beyond[0] is result.within[0]:
        beyond = [] if len(beyond) == 2 and _is_automatic(result) else beyond
    return [_log_prob_finding("rollout", one.reference, one, result) for one in beyond]


def _is_automatic(result: RlResult) -> bool:
    one, other = result.within
    return (
        bool(result.target)
        and one.reference.endswith(result.reference)
        and other.reference.endswith(result.target)
    )


def _log_prob_finding(kind: str, key: str, found: LogProbResult, result: RlResult) -> Finding:
    first = found.first
    text = (
        f"{found.reference} and {found.target} are apart: {percent(found.share)} of {found.tokens} tokens by "
        f"more than {result.rule.log_prob_tolerance:g}"
    )
    if first is not None:
        text += f", first {first.words}: {shown(first.reference)} and {shown(first.target)}"
    return Finding(kind, key, None if first is None else first.place.step, text)


def _gaps(key: KeyResult) -> list[Finding]:
    findings = []
    for side, places in (("reference", key.reference_only), ("target", key.target_only)):
        if places:
            count = f"{len(places)} array{'s' if len(places) > 1 else ''}"
            text = f"{key.name}: only the {side} has {count}, first {places[0].words}"
            findings.append(Finding("missing", key.name, places[0].step, text))
    findings += [
        Finding("unreadable", key.name, place.step, f"{key.name}, {place.words}: {problem}")
        for place, problem in key.problems
    ]
    return findings


def shown(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def percent(share: float) -> str:
    """Never "0%" for something, nor "100%" for less than all."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    number = min(max(100 * share, 0.0001), 99.99)
    return f"{number:.4g}%" if number > 99.9 else f"{number:.3g}%"


__all__ = ["findings_of", "percent", "shown", "where"]
