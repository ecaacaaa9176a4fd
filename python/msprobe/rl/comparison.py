# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two records of SingleSave, or the rollout with the training of one."""

from __future__ import annotations

import math
import os
import time
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import make_directory
from msprobe.native import InvalidArgument, core, log
from msprobe.rl.findings import findings_of
from msprobe.rl.keys import in_order, is_exact, is_log_probs, mask_of, rollout_and_training
from msprobe.rl.result import KeyResult, LogProbResult, Mismatch, Place, RlResult, Rule, log_prob_result
from msprobe.terminal.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msprobe.rl.result import WeightResult

_MOST_PLACES = 100  # of a list of what is special


@dataclass(frozen=True)
class CompareOptions:
    rule: Rule = field(default_factory=Rule)
    log_probs: Sequence[tuple[str, str]] = ()
    """Pairs of keys: of the reference, and of the target (the same, where there is one only)."""
    mask: str | None = None
    """The key that says which tokens count; None: the first known one that the record has; "": all count."""
    threads: int = 0
    shows_progress: bool = False
    table: str = "xlsx"


def compare_records(
    reference: Path | None,
    target: Path | None,
    output: Path | None = None,
    options: CompareOptions | None = None,
    weights: WeightResult | None = None,
) -> RlResult:
    """Compares two records key by key, and in each the rollout with the training; of one record only the
    latter. With `output` a table of each key is written there. `weights` become part of the answer.

    Raises InvalidArgument when a path is no record, or there is nothing to compare; IoError.
    """
    begin = time.monotonic()
    options = options or CompareOptions()
    if output is not None:
        make_directory(output)
    notes: list[str] = []
    with Progress("rl_compare", shown=options.shows_progress) as progress:
        keys = (
            []
            if target is None or reference is None
            else _keys(reference, target, output, options, progress, notes)
        )
        within = [] if reference is None else _within(reference, target, options, progress)
    if reference is not None and target is None and not within:
        keys_there = ", ".join(core.rl_keys(reference)) or "none"
        raise InvalidArgument(
            f"{reference}: expected the log probabilities of rollout and training, or a second record to "
            f"compare with; found the keys {keys_there}; log_probs names two (--log-probs KEY=KEY)"
        )
    result = RlResult(
        reference="" if reference is None else str(reference),
        target="" if target is None else str(target),
        rule=options.rule,
        keys=keys,
        within=within,
        weights=weights,
        findings=[],
        notes=notes,
    )
    return replace(result, findings=findings_of(result), seconds=time.monotonic() - begin)


# ---- two records


def _keys(
    reference: Path, target: Path, output: Path | None, options: CompareOptions, progress: Progress,
    notes: list[str],
) -> list[KeyResult]:  # fmt: skip
    ours, theirs = core.rl_keys(reference), core.rl_keys(target)
    if not set(ours) & set(theirs):
        raise InvalidArgument(
            f"{reference} and {target} have no key in common: {', '.join(ours) or 'none'} and "
            f"{', '.join(theirs) or 'none'}"
        )
    for path, names, others in ((reference, ours, theirs), (target, theirs, ours)):
        only = sorted(set(names) - set(others))
        if only:
            notes.append(f"only {path} has the key{'s' if len(only) > 1 else ''} {', '.join(only)}")
    results = [
        _key(key, reference, target, output, options, progress)
        for key in in_order(sorted({*ours} & {*theirs}))
    ]
    notes += _notes_of(results)
    return results


def _notes_of(keys: list[KeyResult]) -> list[str]:
    """One note for all keys that lack the same."""
    lacking: dict[str, list[str]] = {}
    for key in keys:
        if key.left_out:
            lacking.setdefault(key.left_out, []).append(key.name)
    return [
        f"not compared: {what}" + ("" if len(names) == len(keys) else f" of {', '.join(names)}")
        for what, names in lacking.items()
    ]


def _key(
    key: str, reference: Path, target: Path, output: Path | None, options: CompareOptions, progress: Progress
) -> KeyResult:
    rule = options.rule
    kind = "log_probs" if is_log_probs(key) else "exact" if is_exact(key) else "values"
    relative, absolute = {
        "exact": (0.0, 0.0),
        "log_probs": (0.0, rule.log_prob_tolerance),
        "values": (rule.tolerance, rule.absolute),
    }[kind]
    found = core.compare_rl_key(
        reference,
        target,
        key,
        relative_tolerance=relative,
        absolute_tolerance=absolute,
        threads=options.threads,
        progress=progress,
    )
    table = None
    if output is not None:
        table = output / table_name(key, options)
        found.write_table(table)
    result = _key_result(key, kind, found, table)
    if kind != "log_probs":
        return result
    tokens = _log_probs(
        reference, target, key, key, options, progress, f"{key} of {reference}", f"{key} of {target}"
    )
    return replace(result, log_probs=tokens)


def _key_result(key: str, kind: str, found: core.RlKeyComparison, table: Path | None) -> KeyResult:
    rows = found.rows
    if rows and all(_is_integer(row.reference_dtype) and _is_integer(row.target_dtype) for row in rows):
        kind = "exact"
    compared = [row for row in rows if not row.problem]
    for row in rows:
        if row.problem:
            log.error("%s: %s", key, row.problem)
    differing = [
        row for row in compared if row.first_beyond is not None or row.reference_shape != row.target_shape
    ]
    beyond = next((row for row in compared if row.first_beyond is not None), None)
    reference_only, target_only, left_out = _only_on_one_side(found)
    return KeyResult(
        name=key,
        kind=kind,
        arrays=len(compared),
        elements=sum(row.count for row in compared),
        same=sum(row.same for row in compared),
        beyond=sum(row.count - row.within_tolerance for row in compared),
        differing_arrays=len(differing),
        max_absolute=_largest(row.max_absolute for row in compared),
        max_relative=_largest(row.max_relative for row in compared),
        first=None if beyond is None else _mismatch(beyond),
        reshaped=[
            (Place(*row.place), list(row.reference_shape), list(row.target_shape))
            for row in compared
            if row.reference_shape != row.target_shape
        ][:_MOST_PLACES],
        reference_only=reference_only,
        target_only=target_only,
        left_out=left_out,
        problems=[(Place(*row.place), row.problem) for row in rows if row.problem][:_MOST_PLACES],
        by_step=_by_step(compared),
        table=table,
    )


def table_name(key: str, options: CompareOptions) -> str:
    """A file name has at most 255 bytes."""
    encoded = os.fsencode(key)
    if len(encoded) >= 245:
        key = f"{encoded[:200].decode('utf-8', 'ignore')}%{zlib.crc32(encoded):08x}"
    return f"{key}.{options.table}"


def table_names(reference: Path, target: Path, options: CompareOptions) -> list[str]:
    """The tables that compare_records() writes. Raises IoError."""
    both = {*core.rl_keys(reference)} & {*core.rl_keys(target)}
    return [table_name(key, options) for key in sorted(both)]


def _only_on_one_side(found: core.RlKeyComparison) -> tuple[list[Place], list[Place], str]:
    """What should have a counterpart; and, in words, steps and ranks that only one record has at all."""
    both = [Place(*row.place) for row in found.rows]
    only = [[Place(*place) for place in places] for places in (found.reference_only, found.target_only)]
    words = []
    for side, (name, places) in enumerate(zip(("reference", "target"), only)):
        others = [*both, *only[1 - side]]
        steps, ranks = {place.step for place in others}, {place.rank for place in others}
        whole = [place for place in places if place.step not in steps or place.rank not in ranks]
        only[side] = [place for place in places if place.step in steps and place.rank in ranks]
        parts = [
            *_numbers("step", {place.step for place in whole} - steps),
            *_numbers("rank", {place.rank for place in whole} - ranks),
        ]
        words += [f"{' and '.join(parts)} (only in the {name})"] if parts else []
    return only[0], only[1], ", ".join(words)


def _numbers(noun: str, numbers: set[int]) -> list[str]:
    if not numbers:
        return []
    listed = [str(number) for number in sorted(numbers)]
    shown = listed if len(listed) <= 6 else [*listed[:5], "...", listed[-1]]
    return [f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(shown)}"]


def _mismatch(row: core.RlRow) -> Mismatch:
    flat = row.first_beyond or 0
    index: list[int] = []
    for extent in reversed(row.compared):
        flat, rest = divmod(flat, extent)
        index.append(rest)
    return Mismatch(Place(*row.place), tuple(reversed(index)), row.reference_value, row.target_value)


def _by_step(rows: list[core.RlRow]) -> list[tuple[int, int, float]]:
    found: dict[int, tuple[int, float]] = {}
    for row in rows:
        beyond, most = found.get(row.place[0], (0, 0.0))
        largest = _largest((most, row.max_absolute))
        found[row.place[0]] = (beyond + row.count - row.within_tolerance, largest)
    return [(step, beyond, most) for step, (beyond, most) in found.items()]


def _largest(values: Iterator[float] | Sequence[float]) -> float:
    """NaN when one is."""
    most = 0.0
    for value in values:
        if math.isnan(value):
            return value
        most = max(most, value)
    return most


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint", "bool"))


# ---- rollout and training


def _within(
    reference: Path, target: Path | None, options: CompareOptions, progress: Progress
) -> list[LogProbResult]:
    """What was asked for; else, in each record, rollout and training where it has both."""
    if options.log_probs:
        other = target or reference
        return [
            _asked(reference, other, reference_key, target_key, options, progress)
            for reference_key, target_key in options.log_probs
        ]
    results = []
    for record in (reference,) if target is None else (reference, target):
        pair = rollout_and_training(core.rl_keys(record))
        if pair is not None:
            names = (f"{pair[0]} of {record}", f"{pair[1]} of {record}")
            results.append(_log_probs(record, record, *pair, options, progress, *names))
    return results


def _asked(
    reference: Path,
    target: Path,
    reference_key: str,
    target_key: str,
    options: CompareOptions,
    progress: Progress,
) -> LogProbResult:
    for record, key in ((reference, reference_key), (target, target_key)):
        known = core.rl_keys(record)
        if key not in known:
            raise InvalidArgument(f"{record}: there is no key {key}, expected one of {', '.join(known)}")
    names = (f"{reference_key} of {reference}", f"{target_key} of {target}")
    return _log_probs(reference, target, reference_key, target_key, options, progress, *names)


def _log_probs(
    reference: Path, target: Path, reference_key: str, target_key: str,
    options: CompareOptions, progress: Progress, reference_name: str, target_name: str,
) -> LogProbResult:  # fmt: skip
    mask = mask_of(core.rl_keys(reference)) if options.mask is None else options.mask
    found = core.compare_log_probs(
        reference,
        target,
        reference_key,
        target_key,
        tolerance=options.rule.log_prob_tolerance,
        mask_key=mask,
        threads=options.threads,
        progress=progress,
    )
    return log_prob_result(found, reference_name, target_name, mask)
