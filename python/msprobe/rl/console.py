# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msprobe.native import core
from msprobe.rl.findings import percent
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.rl.result import KeyResult, LogProbResult, RlResult

_MOST_FINDINGS = 8
_MOST_KEYS = 20
_MOST_WEIGHTS = 5
_BAR = 30


def console_text(result: RlResult, files: Sequence[Path], paint: Paint = PLAIN) -> str:
    lines = [paint.answer(printable(result.sentence), good=result.same)]
    lines += [f"  note: {printable(note)}" for note in result.notes]
    others = [finding for finding in result.findings if finding is not result.first]
    lines += [f"  {printable(finding.sentence)}" for finding in others[:_MOST_FINDINGS]]
    if len(others) > _MOST_FINDINGS:
        lines.append(f"  and {len(others) - _MOST_FINDINGS} more in verdict.json")
    if result.keys:
        lines += ["", *_keys(result.keys)]
    for found in [*(key.log_probs for key in result.keys), *result.within]:
        if found is not None and found.max_absolute > 0:
            lines += ["", *_log_probs(found, result.rule.log_prob_tolerance, paint)]
    if result.weights is not None:
        if result.weights.sentence != result.sentence:
            lines += ["", result.weights.sentence]
        lines += [
            f"  {printable(one.name)}: {one.reason}" for one in result.weights.differing[1:_MOST_WEIGHTS]
        ]
    lines += ["", *(f"  {printable(str(path))}" for path in files)]
    return "\n".join(lines) + "\n"


def _keys(keys: list[KeyResult]) -> list[str]:
    shown = keys[:_MOST_KEYS]
    width = min(max([3, *(len(key.name) for key in shown)]), 40)
    head = f"{'arrays':>7} {'differ':>7} {'equal':>8} {'beyond':>8} {'max abs':>10} {'max rel':>10}"
    lines = [f"  {'key':{width}}  {head}"]
    for key in shown:
        elements = max(key.elements, 1)
        numbers = f"{key.arrays:>7} {key.differing_arrays:>7} {percent(key.same / elements):>8}"
        numbers += f" {percent(key.beyond / elements):>8} {key.max_absolute:>10.4g} {key.max_relative:>10.4g}"
        lines.append(f"  {printable(key.name)[:width]:{width}}  {numbers}")
    return lines + ([f"  and {len(keys) - len(shown)} more keys"] if len(keys) > len(shown) else [])


def _log_probs(found: LogProbResult, tolerance: float, paint: Paint) -> list[str]:
    lines = [
        paint.strong(printable(f"{found.reference} next to {found.target}")),
        f"  tokens {found.tokens}"
        + (f", {found.masked} left out by {printable(found.mask)}" if found.masked else ""),
        f"  beyond {tolerance:g}: {percent(found.share)}; difference: mean {found.mean_absolute:.4g}, "
        f"largest {found.max_absolute:.4g}",
        f"  KL {found.k3:.4g} (k1 {found.k1:.4g}), effective sample share {found.effective_share:.4g}",
        f"  probabilities: mean difference {found.mean_probability_difference:.4g}, largest "
        f"{found.max_probability_difference:.4g}, correlation {_correlation(found.correlation)}",
    ]
    if found.first is not None:
        lines.append(
            printable(
                f"  first: {found.first.words}: {found.first.reference:.6g} and {found.first.target:.6g}"
            )
        )
    return lines + ratio_lines(found.ratio_counts)


def ratio_lines(counts: list[int]) -> list[str]:
    """The histogram of ratios, target / reference."""
    total, most = max(sum(counts), 1), max([*counts, 1])
    lines = []
    for label, count in zip(ratio_labels(), counts):
        if count == 0:
            continue
        bar = "#" * math.ceil(_BAR * count / most)
        lines.append(f"  ratio {label:>12}  {percent(count / total):>8}  {bar}".rstrip())
    return lines


def ratio_labels() -> list[str]:
    bounds = core.RL_RATIO_BOUNDS
    inner = [f"{low:g} - {high:g}" for low, high in zip(bounds, bounds[1:])]
    return [f"<= {bounds[0]:g}", *inner, f"> {bounds[-1]:g}"]


def _correlation(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
