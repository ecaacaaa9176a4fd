# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Check of the hyper-parameters, of which two scripts may have different spellings."""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING, Any

from msprobe.config_check.checks.check_result import (
    ERROR,
    WARNING,
    CheckResult,
    Difference,
    sheet_cell,
    shown,
)
from msprobe.config_check.packs import pack

if TYPE_CHECKING:
    from msprobe.config_check.packs.pack_reader import Pack

COLUMNS = ("file_name", "bench_para", "cmp_para", "bench_value", "cmp_value", "matched_with", "level")
ONLY_REFERENCE = "Only in benchmark"
ONLY_TARGET = "Only in comparison"

_PURE = "pure name"
_MAPPING = "mapping"

# The same thing by other names, as mindstudio-probe has them; - counts as _.
_SYNONYMS = (
    ("learning_rate", "lr", "learningrate"),
    ("batch_size", "batch", "bs", "batch_size_per_gpu"),
    ("epochs", "num_epochs", "max_epochs", "epoch"),
    ("weight_decay", "wd", "weightdecay"),
    ("dropout_rate", "dropout", "drop_rate"),
)
_LEAST_SIMILARITY = 0.8
# Comparing each name with each other takes the square of their number.
_MOST_UNMATCHED = 2000

_File = dict[str, Any]


def check_hyperparameters(reference: Pack, target: Pack) -> CheckResult | None:
    """None when a side has none."""
    names = (pack.STATIC, pack.DYNAMIC)
    pairs = [(name, name) for name in names if reference.has(name) and target.has(name)]
    if not pairs:  # scripts on one side, a running program on the other
        pairs = [(one, two) for one in names for two in names if reference.has(one) and target.has(two)]
    has_variables = reference.has(pack.VARIABLES) and target.has(pack.VARIABLES)
    if not pairs and not has_variables:
        return None
    result = CheckResult("hyperparameters", COLUMNS)
    for one, two in pairs:
        reference_file, target_file = reference.json(one), target.json(two)
        if reference_file is None or target_file is None:
            result.passed = False  # a problem of the pack is noted
            continue
        label = one.rpartition("/")[2]
        if one != two:
            label += f" / {two.rpartition('/')[2]}"
            result.notes.append(f"hyperparameters: only {one} and {two} are there: compared with each other")
        _compare(result, label, reference_file, target_file)
    if has_variables:
        _compare_variables(result, reference.json(pack.VARIABLES), target.json(pack.VARIABLES))
    return result


def _compare_variables(result: CheckResult, reference: _File | None, target: _File | None) -> None:
    """No check fails because of a variable, which may be no setting: of those that both have."""
    if reference is None or target is None:
        result.passed = False  # a problem of the pack is noted
        return
    label = pack.VARIABLES.rpartition("/")[2]
    for name in sorted(reference.keys() & target.keys()):
        if not same_value(reference[name], target[name]):
            ours, theirs = reference[name], target[name]
            row = [label, name, name, ours, theirs, _PURE, WARNING]
            result.rows.append([sheet_cell(cell) for cell in row])
            result.differences.append(
                Difference("hyperparameters", name, shown(ours), shown(theirs), WARNING)
            )


def _compare(result: CheckResult, label: str, reference: _File, target: _File) -> None:
    matches, alone = _matches(list(reference), list(target))
    rows: list[list[Any]] = []
    for name, (other, how) in matches.items():
        if other is None:
            rows.append([label, name, ONLY_REFERENCE, reference[name], None, None, WARNING])
        elif not same_value(reference[name], target[other]):
            rows.append([label, name, other, reference[name], target[other], how, ERROR])
    rows += [[label, ONLY_TARGET, name, None, target[name], None, WARNING] for name in alone]
    for row in sorted(rows, key=lambda row: row[:3]):
        result.rows.append([sheet_cell(cell) for cell in row])
        _, name, other, reference_value, target_value, _, level = row
        if name == ONLY_TARGET:
            name = other
        elif other not in (ONLY_REFERENCE, name):
            name = f"{name} / {other}"
        difference = Difference("hyperparameters", name, shown(reference_value), shown(target_value), level)
        if level == ERROR:
            result.fail(difference)
        else:
            result.differences.append(difference)


def _matches(reference: list[str], target: list[str]) -> tuple[dict[str, tuple[str | None, str]], list[str]]:
    """For each name of the reference that of the target and how it was found, and what is left of the target.
    A name is used once; exact names go first.
    """
    left = dict.fromkeys(target)
    found: dict[str, tuple[str | None, str]] = dict.fromkeys(reference, (None, ""))
    for find in (_by_name, _by_synonym):
        by_plain = {_plain(name): name for name in reversed(left)}
        for name in reference:
            if found[name][0] is None:
                match = find(name, left, by_plain)
                if match[0] is not None:
                    found[name] = match
                    del left[match[0]]
                    by_plain.pop(_plain(match[0]), None)
    unmatched = [name for name in reference if found[name][0] is None]
    if len(unmatched) * len(left) <= _MOST_UNMATCHED**2:
        for name in unmatched:
            match = _by_similarity(name, left)
            if match[0] is not None:
                found[name] = match
                del left[match[0]]
    return found, list(left)


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _by_name(name: str, left: dict[str, None], by_plain: dict[str, str]) -> tuple[str | None, str]:
    return (name if name in left else by_plain.get(_plain(name))), _PURE


def _by_synonym(name: str, left: dict[str, None], by_plain: dict[str, str]) -> tuple[str | None, str]:
    """Also where the names are parts of dotted ones: train.lr and train.learning_rate."""
    section, dot, last = _plain(name).rpartition(".")
    for synonyms in _SYNONYMS:
        if last in synonyms:
            candidates = (by_plain.get(section + dot + other) for other in synonyms)
            return next((one for one in candidates if one in left), None), _MAPPING
    return None, ""


def _by_similarity(name: str, left: dict[str, None]) -> tuple[str | None, str]:
    matcher = difflib.SequenceMatcher(None)
    best, most = None, _LEAST_SIMILARITY
    # The matcher prepares its second text; the ratio depends a little on which one that is.
    for other in left:
        if 2 * min(len(name), len(other)) <= most * (len(name) + len(other)):
            continue  # no ratio of these lengths is above
        matcher.set_seqs(name.lower(), other.lower())
        if matcher.quick_ratio() > most and matcher.ratio() > most:
            best, most = other, matcher.ratio()
    return best, f"similarity:{most!r}"


def same_value(left: object, right: object) -> bool:
    """Whether two values set the same: a script has 0.001 as text, a running program as a number."""
    if left == right and isinstance(left, bool) == isinstance(right, bool):
        return True
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same_value, left, right))
    if isinstance(left, (list, dict)) or isinstance(right, (list, dict)):
        return False
    texts = [_text(left), _text(right)]
    if texts[0] == texts[1]:
        return True
    numbers = [_number(text) for text in texts]
    return numbers[0] is not None and numbers[0] == numbers[1]


def _text(value: object) -> str:
    if value is None:
        return "none"
    text = str(value).strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":  # mindstudio-probe keeps quotes
        text = text[1:-1]
    return text.lower() if text.lower() in ("true", "false", "none", "null") else text


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
