# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two packs: all checks in the order of the summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msprobe.config_check.checks.check_environment import check_environment, check_packages, check_variables
from msprobe.config_check.checks.check_hyperparameters import check_hyperparameters
from msprobe.config_check.checks.check_random import check_random, check_seeds
from msprobe.config_check.checks.check_settings import check_settings
from msprobe.config_check.checks.check_tensors import check_dataset, check_weights
from msprobe.config_check.checks.likelihood import Ranked, table
from msprobe.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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

    @property
    def agree(self) -> bool:
        """Whether every check passed and nothing was left out because it could not be read."""
        return all(check.passed for check in self.checks) and not self.problems

    @property
    def sentence(self) -> str:
        made = ", ".join(check.name for check in self.checks)
        if self.agree:
            return f"The two runs are set up alike: {made} agree" if made else "There is nothing to compare"
        failed = [check.name for check in self.checks if not check.passed]
        if not failed:
            return "No difference was found, but a part of a pack could not be read"
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
    left_out = () if begin_alike else _AT_THE_BEGINNING
    result = ConfigComparison(reference.path, target.path)
    result.checks = [check for name, check in made.items() if check is not None and name not in left_out]
    result.ranked = likelihood.ranked([one for check in result.checks for one in check.differences])
    result.notes = [note for check in result.checks for note in check.notes]
    absent = [words for name, words in _WORDS.items() if made[name] is None]
    if absent:
        result.notes.append(f"not compared, because a pack has none: {', '.join(absent)}")
    if left_out:
        result.notes.append(f"not compared, because the runs begin at other steps: {', '.join(left_out)}")
    result.problems = [*reference.problems, *target.problems]
    return result
