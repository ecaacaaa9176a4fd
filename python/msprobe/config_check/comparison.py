# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two packs: all checks in the order of the summary."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msprobe.config_check.checks.check_environment import check_environment, check_packages, check_variables
from msprobe.config_check.checks.check_hyperparameters import check_hyperparameters
from msprobe.config_check.checks.check_random import check_random, check_seeds
from msprobe.config_check.checks.check_settings import check_settings
from msprobe.config_check.checks.check_tensors import check_dataset, check_weights
from msprobe.config_check.checks.likelihood import Ranked, table
from msprobe.config_check.checks.replicas import parted_replicas
from msprobe.config_check.packs import pack
from msprobe.files.left_out import LeftOut, lines, only_in
from msprobe.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal

    from msprobe.config_check.checks.check_result import CheckResult
    from msprobe.config_check.packs.pack_reader import Pack
    from msprobe.result import Cell

# What a check looks at, for the sentence about checks that were not made.
_WORDS = {
    "env": "environment variables",
    "pip": "packages",
    "dataset": "inputs",
    "weights": "weights",
    "hyperparameters": "hyper-parameters",
    "random": "random operations",
}


@dataclass(repr=False)
class ConfigComparison(Result):
    """The answer. `checks` are those that both packs have the data for; `problems` are parts that could not
    be read.
    """

    reference: Path
    target: Path
    checks: list[CheckResult] = field(default_factory=list)
    ranked: list[Ranked] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    parted_replicas: list[str] = field(default_factory=list)
    """Of each run, in a sentence: ranks that are no longer equal and must be. They are in `notes`, too."""

    @property
    def agree(self) -> bool:
        """Whether every check passed and nothing was left out that the runs should share."""
        return all(check.passed for check in self.checks) and not self.not_compared

    @property
    def status(self) -> Literal["agree", "differ", "incomplete"]:
        """incomplete: no check found a difference, but not all could be compared."""
        if not all(check.passed for check in self.checks):
            return "differ"
        return "incomplete" if self.not_compared else "agree"

    @property
    def not_compared(self) -> list[str]:
        """What keeps the runs from being alike without a difference, in sentences."""
        return [*self.problems, *lines(one for one in self.left_out if one.is_difference)]

    @property
    def sentence(self) -> str:
        made = ", ".join(check.name for check in self.checks)
        if self.agree:
            return f"The two runs are set up alike: {made} agree" if made else "There is nothing to compare"
        failed = [check.name for check in self.checks if not check.passed]
        if not failed:
            return f"No difference was found, but not all could be compared: {self.not_compared[0]}"
        return f"The two runs are not set up alike: {', '.join(failed)} differ"

    def table(self) -> Sequence[dict[str, Cell]]:
        """The differences, the likeliest explanation of a numeric difference first."""
        return [
            {
                "check": one.difference.check,
                "name": one.difference.name,
                "level": one.difference.level,
                "reference": one.difference.reference,
                "target": one.difference.target,
                "detail": one.difference.detail,
                "likelihood": one.likelihood,
                "reason": one.reason,
            }
            for one in self.ranked
        ]


# What two runs have in common only where both begin at the same step.
_AT_THE_BEGINNING = ("dataset", "weights", "random", "seeds")


def compare_packs(reference: Pack, target: Pack, *, begin_alike: bool = True) -> ConfigComparison:
    """Makes every check that both packs have the data for. begin_alike: false for a run that was resumed,
    whose first inputs and weights are others.
    """
    likelihood = table()
    made = {
        "env": check_environment(reference, target),
        "pip": check_packages(reference, target),
        "dataset": check_dataset(reference, target),
        "weights": check_weights(reference, target),
        "hyperparameters": check_hyperparameters(reference, target),
        "random": check_random(reference, target),
        # Beyond mindstudio-probe; last, so that its sheets come first.
        "variables": check_variables(reference, target, likelihood),
        "seeds": check_seeds(reference, target),
        "settings": check_settings(reference, target, likelihood),
    }
    skipped = () if begin_alike else _AT_THE_BEGINNING
    result = ConfigComparison(reference.path, target.path)
    result.checks = [check for name, check in made.items() if check is not None and name not in skipped]
    result.ranked = likelihood.ranked([one for check in result.checks for one in check.differences])
    result.notes = [note for check in result.checks for note in check.notes]
    absent = [words for name, words in _WORDS.items() if made[name] is None]
    if absent:
        result.notes.append(f"not compared, because a pack has none: {', '.join(absent)}")
    if skipped:
        result.notes.append(f"not compared, because the runs begin at other steps: {', '.join(skipped)}")
    result.parted_replicas = [
        said
        for name, side in (("reference", reference), ("target", target))
        if (said := parted_replicas(side, name)) is not None
    ]
    result.notes += result.parted_replicas
    for kind in pack.KINDS:
        if kind not in skipped:
            result.left_out += _of_one_side(kind, reference, target)
    result.problems = [*reference.problems, *target.problems]
    return result


def _of_one_side(kind: str, reference: Pack, target: Pack) -> list[LeftOut]:
    """The ranks and steps of a kind of entries that one pack has. A step that the other run did not reach,
    and what the other tool does not record, keep nothing from being alike.
    """
    sides = {"reference": reference.files(kind), "target": target.files(kind)}
    if not any(sides.values()):
        return []
    if not all(sides.values()):
        (side,) = (name for name, files in sides.items() if files)
        return [replace(only_in(side, name=kind), is_difference=False)]
    ranks = [{rank for _, rank in files} for files in sides.values()]
    found = []
    for (side, ours), theirs in zip(sides.items(), reversed(sides.values())):
        alone = [place for place in ours if place not in theirs]
        for step, rank in alone:
            if rank in ranks[0] & ranks[1]:
                found.append(replace(only_in(side, step, rank, kind), is_difference=False))
        found += [
            only_in(side, None, rank, kind) for rank in {rank for _, rank in alone} - (ranks[0] & ranks[1])
        ]
    return found
