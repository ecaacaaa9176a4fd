# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The folders of runs, `{time}-rank{R}-{8 hex}`."""

from __future__ import annotations

import datetime
import os
import re
import uuid
from pathlib import Path

from msprobe.native import InvalidArgument

_VARIABLE = "MONITOR_OUTPUT_DIR"
_DEFAULT = "./monitor_output"
_NAME = re.compile(r"([\w-]{0,20})-rank(\d{1,5})-")
_TIME = "%b%d_%H-%M-%S"
_ZONE = datetime.timezone(datetime.timedelta(hours=8))  # the times are those of Shanghai


def base_folder() -> Path:
    """Where they lie."""
    return Path(os.environ.get(_VARIABLE) or _DEFAULT)


def new_folder(base: Path, rank: int) -> Path:
    """Its name; it is not made."""
    now = datetime.datetime.now(_ZONE).strftime(_TIME)
    return base / f"{now}-rank{rank}-{uuid.uuid4().hex[:8]}"


def time_of(text: str, what: str) -> datetime.datetime:
    """A time as the names have it, which say no year. Raises InvalidArgument."""
    try:
        # A leap year: without one Feb29 would be none.
        return datetime.datetime.strptime(f"2000 {text}", f"%Y {_TIME}")
    except ValueError:
        raise InvalidArgument(f'{what}: expected a time as "Dec03_21-34-40", found {text!r}') from None


def folders_between(base: Path, first: str | None, last: str | None) -> dict[int, Path]:
    """By rank the folder whose time lies in the closed range; the latest, where there are several. Raises
    InvalidArgument.
    """
    begin = None if first is None else time_of(first, "time_start")
    end = None if last is None else time_of(last, "time_end")
    if begin is not None and end is not None and begin > end:
        raise InvalidArgument(f"expected the earlier time first, found {first} before {last}")
    if not base.is_dir():
        raise InvalidArgument(f"{base}: expected a folder with records of the monitor")
    found: dict[int, tuple[datetime.datetime, Path]] = {}
    for path in sorted(base.iterdir()):
        match = _NAME.match(path.name)
        if match is None or not path.is_dir():
            continue
        try:
            time = time_of(match[1], path.name)
        except InvalidArgument:
            continue  # a folder that only looks like one
        if (begin is None or time >= begin) and (end is None or time <= end):
            rank = int(match[2])
            if rank not in found or time >= found[rank][0]:
                found[rank] = (time, path)
    return {rank: path for rank, (_, path) in found.items()}
