# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Check of what only packs of msprobe have: switches of torch, versions, machine, code, processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.config_check.checks.check_result import ERROR, WARNING, CheckResult, Difference, shown
from msprobe.config_check.checks.devices import (
    OF_ANOTHER_DEVICE,
    SAID_BY_COUNTERPARTS,
    counterparts,
    devices_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msprobe.config_check.checks.likelihood import Likelihood
    from msprobe.config_check.packs.pack_reader import Pack

COLUMNS = ("setting", "rank", "bench_value", "cmp_value", "level")
ALL_RANKS = "all"

_HOW = "collected"  # by a training or by the command

_DEEPEST = 16


def check_settings(reference: Pack, target: Pack, likelihood: Likelihood) -> CheckResult | None:
    """None when a side has none. A setting that differs in the same way on every rank has one row. Of runs on
    two kinds of device the settings that mean the same are compared.
    """
    sides = reference.files("settings"), target.files("settings")
    ranks = sorted(rank for _, rank in sides[0].keys() & sides[1].keys())
    if not sides[0] or not sides[1]:
        return None
    result = CheckResult("settings", COLUMNS)
    found: dict[str, dict[tuple[str, str], list[int]]] = {}
    kinds: set[str] = set()
    devices = devices_of(reference, target)
    for rank in ranks:
        reference_settings, target_settings = (
            dict(flattened(side.json(files[0, rank]) or {}))
            for side, files in zip((reference, target), sides)
        )
        how = shown(reference_settings.pop(_HOW, None)), shown(target_settings.pop(_HOW, None))
        kinds.update(how)
        # Of what only a training knows the command can say nothing.
        names = (
            {*reference_settings, *target_settings}
            if how[0] == how[1]
            else reference_settings.keys() & target_settings.keys()
        )
        compared = [
            (
                name if devices.act(name) else OF_ANOTHER_DEVICE + name,
                reference_settings.get(name),
                target_settings.get(name),
            )
            for name in sorted(names)
        ]
        if devices.differ:
            compared = [row for row in compared if row[0] not in SAID_BY_COUNTERPARTS]
            compared += counterparts(devices, reference_settings, target_settings)
        for name, *both in compared:
            values = shown(both[0]), shown(both[1])
            if values[0] != values[1]:
                found.setdefault(name, {}).setdefault(values, []).append(rank)
    if len(kinds) > 1:
        result.notes.append(
            "settings: one pack was made without a training: only what both have was compared"
        )
    for name, by_values in found.items():
        for values, where in by_values.items():
            _add(result, name, values, where, len(where) == len(ranks), likelihood)
    return result


def _add(
    result: CheckResult,
    name: str,
    values: tuple[str, str],
    ranks: list[int],
    everywhere: bool,
    likelihood: Likelihood,
) -> None:
    level = likelihood.level("settings", name) or WARNING
    for rank in [ALL_RANKS] if everywhere else ranks:
        result.rows.append([name, rank, *values, level])
    detail = "" if everywhere else f"on rank {', '.join(map(str, ranks[:8]))}"
    difference = Difference("settings", name, *values, level, detail=detail)
    if level == ERROR:
        result.fail(difference)
    else:
        result.differences.append(difference)


def flattened(tree: dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every leaf by its keys, joined with dots."""
    for key, value in tree.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from flattened(value, f"{prefix}{key}.", depth + 1)
        else:
            yield f"{prefix}{key}", value
