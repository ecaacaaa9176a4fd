# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The framework that -f names. Files say of which one they are: the word decides nothing, and where it is not
that of the files a warning says so.
"""

from __future__ import annotations

import re
from pathlib import Path

from msprobe.files.regular_file import open_to_read

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_FILE = re.compile(rb'"framework"\s*:\s*"(\w+)"')
_HEAD = 4096  # bytes of a dump.json in which it stands
_MOST_FOLDERS = 3  # from a dump path to a dump.json: step, rank
# "framework" of MSAdapter, whose dumps are of MindSpore.
_SAME = {"mindtorch": "mindspore"}

asked: str | None = None


def tell_of_other(paths: Iterable[Path | str | None]) -> None:
    """Warns where -f was given and none of the dumps is of that framework."""
    if asked is None:
        return
    found = {
        dump: name
        for path in paths
        if path is not None and (dump := _dump(Path(path))) and (name := _framework(dump))
    }
    if found and asked not in found.values():
        from msprobe.native import log

        dump, name = next(iter(found.items()))
        log.warning("-f %s: %s was recorded of %s; -f is not needed, the files tell", asked, dump, name)


def _dump(path: Path) -> Path | None:
    if path.is_file():
        return path
    for depth in range(_MOST_FOLDERS):
        dump = next(path.glob("*/" * depth + "dump.json"), None)
        if dump is not None:
            return dump
    return None


def _framework(dump: Path) -> str | None:
    try:
        with open_to_read(dump) as file:
            head = file.read(_HEAD)
    except OSError:
        return None  # who reads it whole says why
    known = _OF_FILE.search(head)
    return _SAME.get(known[1].decode(), known[1].decode()) if known else None
