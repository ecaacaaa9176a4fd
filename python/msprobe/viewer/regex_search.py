# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Searches with regular expressions, which may take for ever: regex_process.py runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from msprobe.native import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SECONDS = 5  # of a processor, where the system counts them
_WAIT = 20  # seconds in all
_PROGRAM = Path(__file__).with_name("regex_process.py")


def regex_rows(
    database: Path, before: list[str], sql: str, values: list[Any], pattern: str, page: slice
) -> tuple[int, list[tuple[int, int]]]:
    """How many rows `sql`, which has REGEXP in it, finds after the statements `before`, and those of `page`.

    Raises InvalidArgument where the search takes too long or fails.
    """
    asked = {
        "database": quote(str(database)),
        "before": before,
        "sql": sql,
        "values": values,
        "pattern": pattern,
        "from": page.start,
        "to": page.stop,
        "seconds": _SECONDS,
    }
    try:
        answer = subprocess.run(
            [sys.executable, "-I", "-S", str(_PROGRAM)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=_WAIT,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        if isinstance(error, subprocess.TimeoutExpired) or error.returncode < 0:
            raise InvalidArgument(f"this regular expression takes more than {_SECONDS} s") from error
        raise InvalidArgument("the search with this regular expression failed") from error
    total, shown = json.loads(answer.stdout)
    return total, shown
