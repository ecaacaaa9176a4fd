# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps of runs that are laid out over their ranks in other ways (docs/layouts.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.dump_folders import Form, form_of
from msprobe.files.run_folder import dump_of, offset_of
from msprobe.layout.job import open_job
from msprobe.layout.joining import differ_in_layout, write_joined
from msprobe.native import NothingToCompare

if TYPE_CHECKING:
    from msprobe.compare.inputs import Paths
    from msprobe.files.left_out import LeftOut

FOLDER = "joined"


def as_logical_runs(paths: Paths, output: Path) -> tuple[Paths, list[LeftOut]]:
    """Those of two logical runs, written below `output`, and what is not in them; where the layouts are the
    same, or not known, the paths as they are. Raises InvalidArgument and IoError.
    """
    reference, target = dump_of(paths.reference), dump_of(paths.target)
    if form_of(reference) is not Form.RUN or form_of(target) is not Form.RUN:
        return paths, []
    jobs = open_job(reference), open_job(target)
    if not differ_in_layout(*jobs):
        return paths, []
    offset = offset_of(target, reference, paths.offset)
    try:
        joined = write_joined(*jobs, output / FOLDER, offset)
    except NothingToCompare:
        return paths, []
    return replace(paths, reference=joined.reference, target=joined.target, offset=offset), joined.left_out
