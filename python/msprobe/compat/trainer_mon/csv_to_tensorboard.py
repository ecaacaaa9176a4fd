# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The csv files of TrainerMon as event files of tensorboard: a scalar for each series."""

from __future__ import annotations

import datetime
import os
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compat.trainer_mon.run_folders import folders_between
from msprobe.monitoring.sinks import summary_writer
from msprobe.native import InvalidArgument, core, log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATA_TYPES = (
    "actv", "actv_grad", "exp_avg", "exp_avg_sq", "grad_unreduced", "grad_reduced", "param_origin",
    "param_updated",
)  # fmt: skip

_MOST_PROCESSES = 128
_NOT_NUMBERS = ("vpp_stage", "name", "step", "micro_step", "shape", "dtype")


def csv2tensorboard_by_step(
    monitor_path: str | os.PathLike[str],
    time_start: str | None = None,
    time_end: str | None = None,
    process_num: int = 1,
    data_type_list: Sequence[str] | None = None,
    output_dirpath: str | os.PathLike[str] | None = None,
) -> None:
    """Converts the records below `monitor_path` into `{output}/rank{R}/{type}`.

    time_start, time_end: only folders whose time lies between them, as "Dec03_21-34-40". process_num: 1 to
        128.
    data_type_list: some of DATA_TYPES; None: all. output_dirpath: without it a folder below `monitor_path`.
    Raises InvalidArgument.
    """
    if (
        isinstance(process_num, bool)
        or not isinstance(process_num, int)
        or not 0 < process_num <= _MOST_PROCESSES
    ):
        raise InvalidArgument(
            f"process_num: expected an integer from 1 to {_MOST_PROCESSES}, found {process_num!r}"
        )
    types = list(DATA_TYPES if data_type_list is None else data_type_list)
    for one in types:
        if one not in DATA_TYPES:
            raise InvalidArgument(f"data_type_list: expected some of {', '.join(DATA_TYPES)}, found {one!r}")
    base = Path(monitor_path)
    folders = folders_between(base, time_start, time_end)
    if not folders:
        raise InvalidArgument(
            f"{base}: expected folders {{time}}-rank{{R}}-{{id}} in the given time, found none"
        )
    if output_dirpath is None:
        now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
        output = base / f"{now}-csv2tensorboard_by_step"
    else:
        output = Path(output_dirpath)
    jobs = [
        (folder, one, output / f"rank{rank}" / one)
        for rank, folder in sorted(folders.items())
        for one in types
        if _files_of(folder, one)
    ]
    if process_num == 1 or len(jobs) <= 1:
        for job in jobs:
            _convert(*job)
    else:
        with ProcessPoolExecutor(min(process_num, len(jobs))) as pool:
            list(pool.map(_convert, *zip(*jobs)))
    log.info("monitor: %d kinds of data of %d ranks are in %s", len(jobs), len(folders), output)


def _files_of(folder: Path, data_type: str) -> list[Path]:
    """In the order of their steps."""
    name = re.compile(rf"{data_type}_(\d+)-(\d+)\.csv")
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := name.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def _convert(folder: Path, data_type: str, output: Path) -> None:
    writer = summary_writer(output)
    try:
        for path in _files_of(folder, data_type):
            for tag, value, step in _scalars(path):
                writer.add_scalar(tag, value, step)
    finally:
        writer.close()


def _scalars(path: Path) -> Iterator[tuple[str, float, int]]:
    """`vp{v}:{name}[:micro{m}]/{op}`; what became NaN has a point, as the others."""
    header, rows = core.read_csv(path)
    columns = [(index, op) for index, op in enumerate(header) if op not in _NOT_NUMBERS]
    place = {name: index for index, name in enumerate(header)}
    for needed in ("vpp_stage", "name", "step"):
        if needed not in place:
            raise InvalidArgument(f"{path}: expected a column {needed}, found {', '.join(header)}")
    for row in rows:
        micro = f":micro{row[place['micro_step']]}" if "micro_step" in place else ""
        name = f"vp{row[place['vpp_stage']]}:{row[place['name']]}{micro}"
        for index, op in columns:
            yield f"{name}/{op}", float(row[index] or "nan"), int(row[place["step"]])
