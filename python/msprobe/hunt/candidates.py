# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What can be tried of what a diagnosis says: a setting with the reference's value, or values fed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.experiment.changes import room_of
from msprobe.experiment.plan import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.diagnose.cause import Cause

_SETTINGS = {"module attribute ": "", "optimizer setting ": "", "settings: torch.": "torch."}
"""How the name of a cause begins, and what a change is called."""

FED = ("random", "weights", "inputs")
"""What a step begins with, and is given: that it is enough proves that the cause is outside of the model."""

_FED_OF_STAGE = {"data": "inputs", "initial weights": "weights"}


@dataclass(frozen=True)
class Setting:
    """A setting that differs: it is set in one run to the value of the other."""

    name: str
    target: str
    reference: str
    step: int
    said: str

    def mended(self) -> Change:
        """In the target."""
        return Change(self.name, self.reference)

    def broken(self) -> Change:
        """In the reference, from the step on at which the runs part."""
        return Change(self.name, self.target, self.step)


def settings_of(causes: Sequence[Cause], step: int) -> list[Setting]:
    """In the order of the causes. step: at which the runs part, where a cause has none."""
    found: dict[str, Setting] = {}
    for cause in causes:
        start = next((one for one in _SETTINGS if cause.name.startswith(one)), None)
        target, reference = cause.values
        if start is None or not target or not reference or "absent" in cause.values:
            continue
        name = _SETTINGS[start] + cause.name[len(start) :]
        at = step if cause.step is None else cause.step
        if room_of(name) != "module" or "." in name:
            found.setdefault(name, Setting(name, target, reference, at, cause.said))
    return list(found.values())


def fed_of(causes: Sequence[Cause]) -> list[str]:
    """Which values are tried, the likeliest first: as the stages of the causes say, then all."""
    first = [_FED_OF_STAGE[cause.stage] for cause in causes if cause.stage in _FED_OF_STAGE]
    first += ["random" for cause in causes if cause.name.startswith(("randomness", "random:", "seeding:"))]
    return list(dict.fromkeys([*first, *FED]))
