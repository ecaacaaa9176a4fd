# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where a viewer keeps things of its user, and how it starts a process of msprobe."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def state_folder() -> Path:
    """What a user would miss: `$XDG_STATE_HOME/msprobe/view`, usually `~/.local/state/msprobe/view`."""
    return _folder("XDG_STATE_HOME", ".local/state")


def cache_folder() -> Path:
    """What can be made again: `$XDG_CACHE_HOME/msprobe/view`, usually `~/.cache/msprobe/view`."""
    return _folder("XDG_CACHE_HOME", ".cache")


def environment_of_a_child() -> dict[str, str]:
    """In which `python -m msprobe` finds the msprobe of this process, however that was found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _folder(variable: str, below_home: str) -> Path:
    # The XDG base directory specification: a path that is not absolute is to be ignored.
    base = os.environ.get(variable, "")
    root = Path(base) if Path(base).is_absolute() else Path(os.path.expanduser("~"), below_home)
    return root / "msprobe" / "view"
