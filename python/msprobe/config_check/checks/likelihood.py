# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How likely is it that a difference explains a numeric difference? The table is likelihood.json."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.files.page import file_beside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msprobe.config_check.checks.check_result import Difference

# "cause": explains a numeric difference by itself. Numbers would say more than anybody has measured.
LEVELS = ("cause", "possible", "unlikely")
_CONFIDENCE = {"cause": 0.95, "possible": 0.55, "unlikely": 0.2}


@dataclass(frozen=True)
class Rule:
    """A row of the table; `level` is empty where the check has levels of its own. `acts` is "update" where
    nothing follows from it before the optimizer has stepped.
    """

    check: str
    name: re.Pattern[str]
    likelihood: str
    reason: str
    level: str
    acts: str


@dataclass(frozen=True)
class Ranked:
    """A difference, and whether it explains a numeric one: a word of LEVELS."""

    difference: Difference
    likelihood: str
    reason: str
    acts: str = ""

    @property
    def confidence(self) -> float:
        """For those who order it among findings of other kinds."""
        return _CONFIDENCE[self.likelihood]


class Likelihood:
    def __init__(self, rules: list[Rule]) -> None:
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.check, []).append(rule)

    def rule(self, check: str, name: str) -> Rule | None:
        """The first that fits."""
        plain = name.lower().replace("-", "_")
        return next((rule for rule in self._rules.get(check, []) if rule.name.search(plain)), None)

    def level(self, check: str, name: str) -> str | None:
        rule = self.rule(check, name)
        return None if rule is None else rule.level

    def ranked(self, differences: Iterable[Difference]) -> list[Ranked]:
        """The most likely first; failed checks before warnings of the same likelihood."""
        result = []
        for difference in differences:
            rule = self.rule(difference.check, difference.name)
            result.append(
                Ranked(difference, rule.likelihood, rule.reason, rule.acts)
                if rule
                else Ranked(difference, "unlikely", "it differs")
            )
        return sorted(
            result,
            key=lambda one: (LEVELS.index(one.likelihood), one.difference.level, -one.difference.count),
        )


@functools.lru_cache(maxsize=1)
def table() -> Likelihood:
    text = file_beside(__file__, "likelihood.json")
    return Likelihood(
        [
            Rule(
                rule["check"],
                re.compile(rule["name"]),
                rule["likelihood"],
                rule["reason"],
                rule.get("level", ""),
                rule.get("acts", ""),
            )
            for rule in json.loads(text)["rules"]
        ]
    )
