# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps of runs that are laid out over their ranks in other ways (docs/layouts.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.dump_folders import Form, form_of
from msprobe.files.run_folder import dump_of, offset_of
from msprobe.layout.joining import joined

if TYPE_CHECKING:
    from msprobe.compare.inputs import Paths
    from msprobe.files.left_out import LeftOut


def as_logical_runs(paths: Paths, output: Path) -> tuple[Paths, list[LeftOut]]:
    """Those of two logical runs, written below `output`, and what is not in them; where the layouts are the
    same, or not known, the paths as they are. Raises InvalidArgument and IoError.
    """
    reference, target = dump_of(paths.reference), dump_of(paths.target)
    if form_of(reference) is not Form.RUN or form_of(target) is not Form.RUN:
        return paths, []
    offset = offset_of(target, reference, paths.offset)
    runs = joined(reference, target, output, offset)
    if runs is None:
        return paths, []
    return replace(paths, reference=runs.reference, target=runs.target, offset=offset), runs.left_out
