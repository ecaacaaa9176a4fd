# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a process of an experiment is to do: plan.json, whose path stands in the environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from msprobe.files.atomic_file import write_text
from msprobe.files.json_file import read_object
from msprobe.native import FormatError, InvalidArgument

VARIABLE = "MSPROBE_EXPERIMENT"
FILE = "plan.json"

_FORMAT = 1


@dataclass(frozen=True)
class Change:
    """One thing that is changed in a run (changes.py has the kinds)."""

    name: str
    """What: "layers.2.norm1.eps", "optimizer.lr", "env.OMP_NUM_THREADS", "seed.torch"."""
    value: str
    """What it becomes, as on the command line; of feed.X the folder of the run whose values are put in."""
    first: int = 0
    """The step from which on it holds; of a module, an optimizer and feed.X."""
    shift: int = 0
    """Of feed.X: step S of this run is step S + shift of the other one."""

    @property
    def said(self) -> str:
        return f"{self.name}={self.value}"


def parse_change(text: str) -> Change:
    """ "layers.2.norm1.eps=1e-5". Raises InvalidArgument."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidArgument(f"{text}: expected NAME=VALUE, as layers.2.norm1.eps=1e-5")
    return Change(name.strip(), value)


@dataclass(frozen=True)
class Plan:
    """What one run does. Every process of the command reads it."""

    folder: str
    """Where the processes write: the folder of the run, absolute."""
    changes: tuple[Change, ...] = ()
    stop: int | None = None
    """The step that is not begun any more: the process ends there. None: it ends as the script does."""
    steps: str = ""
    """Those that are recorded in full, as `msprobe run --steps` takes them; empty: none."""
    notes_sources: bool = False
    """Note what the script asks for that no two runs have alike (sources.py)."""
    keeps: tuple[int, int] | None = None
    """The steps of which something is kept, to be put into another run: the first, and the one behind the
    last.
    """
    keeps_values: tuple[str, ...] = ()
    """In these steps: values of these kinds (kept.KINDS)."""
    keeps_modules: tuple[str, ...] = ()
    """In these steps: what calls of these modules return, and their gradients."""
    keeps_given: bool = False
    """In the first of these steps also what these calls are given."""
    again: str = ""
    """The folder of a run that kept that: the modules are given it here, too, before the optimizer steps."""
    lists_modules: bool = False
    """Write the names of the modules that the first step calls."""


def write_plan(plan: Plan, path: Path) -> None:
    """Raises IoError."""
    write_text(path, json.dumps({"format": _FORMAT, **asdict(plan)}, indent=1) + "\n")


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Raises FormatError, IoError."""
    content = dict(read_object(os.fspath(path), "the plan of an experiment"))
    if content.pop("format", None) != _FORMAT:
        raise FormatError(f'{path}: "format": expected {_FORMAT}')
    try:
        changes = tuple(Change(**one) for one in content.pop("changes"))
        rest: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in content.items()
        }
        return Plan(changes=changes, **rest)
    except (TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"{path}: expected the plan of an experiment: {error}") from error
