# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What can be tried of what a diagnosis says: a setting with the reference's value, or values put in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.experiment.digests import schedules_of
from msprobe.experiment.plan import Change

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.diagnose.cause import Cause
    from msprobe.experiment.digests import Parting

_SETTINGS = {"module attribute ": "", "optimizer setting ": "", "settings: torch.": "torch."}
"""How the name of a cause begins, and what a change is called."""

_MOST_MODULES = 3
_CLIPPING = re.compile(r"(max_norm|norm_type|clip_value)\b")

_FED_OF_STAGE = {"data": "inputs", "initial weights": "weights"}
_FED = {
    "initial weights": ("weights",),
    "inputs": ("inputs", "random", "loss"),
    "loss": ("random", "weights", "inputs", "loss"),
    "gradients": ("loss", "gradients"),
    "optimizer": ("optimizer", "gradients"),
    "weights": ("update",),
    "buffers": ("update",),
}
"""By the kind of what parts first: what comes before it is equal to the bit and needs no trial."""
_COMPUTED = ("loss", "gradients", "buffers")
"""Kinds that modules make."""


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
        """In the reference, from the step on at which the runs diverge."""
        return Change(self.name, self.target, self.step)


def settings_of(causes: Sequence[Cause], step: int, runs: Sequence[Path] = ()) -> list[Setting]:
    """In the order of the causes. step: at which the runs diverge, where a cause has none. runs: the
    reference and the target; where a scheduler sets the learning rate, what it begins with is the setting.
    """
    schedules = [schedules_of(run) for run in runs]
    found: dict[str, Setting] = {}
    for cause in causes:
        name = _name_of_setting(cause)
        target, reference = cause.values
        if name is None or not target or not reference or "absent" in cause.values:
            continue
        at = step if cause.step is None else cause.step
        if name.endswith(".lr"):
            place = name.removeprefix("optimizer.").removesuffix(".lr")
            begins = [some.get(place, "") for some in schedules]
            if all(begins) and len({*begins}) == 2:
                name, (reference, target) = f"optimizer.{place}.initial_lr", begins
        found.setdefault(name, Setting(name, target, reference, at, cause.said))
    return list(found.values())


def _name_of_setting(cause: Cause) -> str | None:
    start = next((one for one in _SETTINGS if cause.name.startswith(one)), None)
    if start is not None:
        name = _SETTINGS[start] + cause.name[len(start) :]
        return name if "." in name else f"model.{name}"
    clipping = _CLIPPING.search(cause.name) if "clip" in cause.name else None
    return None if clipping is None else f"clip.{clipping[1]}"


def values_of(causes: Sequence[Cause], parting: Parting, *, drawn: bool) -> list[str]:
    """Names of changes that put values in, the likeliest first. drawn: the random states differ at the
    beginning of the step.
    """
    first = [f"feed.{_FED_OF_STAGE[cause.stage]}" for cause in causes if cause.stage in _FED_OF_STAGE]
    is_random = any(cause.name.startswith(("randomness", "random:", "seeding:")) for cause in causes)
    first += ["feed.random"] if is_random else []
    allowed = [f"feed.{name}" for name in _FED.get(parting.kind, ())]
    modules = modules_of(causes) if parting.kind in _COMPUTED else []
    transplants = [f"transplant.{module}" for module in modules]
    last = ["feed.random"] if drawn and allowed else []
    likely = [one for one in first if one in (*allowed, *last)]
    return list(dict.fromkeys([*likely, *transplants, *allowed, *last]))


def modules_of(causes: Sequence[Cause]) -> list[str]:
    """Those in which the causes lie, none inside of another one."""
    found: list[str] = []
    for module in (cause.module for cause in causes):
        around = any(
            f"{module}.".startswith(f"{one}.") or f"{one}.".startswith(f"{module}.") for one in found
        )
        if module and not around and len(found) < _MOST_MODULES:
            found.append(module)
    return found
