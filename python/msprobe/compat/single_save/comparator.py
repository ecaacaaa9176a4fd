# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""SingleComparator: the tables of mindstudio-probe, of two records of SingleSave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compat.single_save.saver import SingleSave
from msprobe.native import InvalidArgument
from msprobe.rl.comparison import CompareOptions, compare_records

if TYPE_CHECKING:
    import os

    from msprobe.rl.result import RlResult


class SingleComparator:
    """`msprobe rl_compare` does the same, with a verdict on top."""

    @classmethod
    def compare(
        cls,
        dir1: str | os.PathLike[str],
        dir2: str | os.PathLike[str],
        output_path: str | os.PathLike[str] = "./msprobe_compare_output",
        num_processes: int = 8,
    ) -> RlResult:
        """Writes {output_path}/{key}.xlsx for each key that both records have. `num_processes`: threads to
        use. Raises InvalidArgument when a path is no record, IoError.
        """
        if isinstance(num_processes, bool) or not isinstance(num_processes, int) or num_processes < 1:
            raise InvalidArgument(f"num_processes: expected a number of 1 or more, found {num_processes!r}")
        SingleSave.flush()  # this process may have saved into one of them
        options = CompareOptions(threads=num_processes, shows_progress=True)
        return compare_records(Path(dir1), Path(dir2), Path(output_path), options)
