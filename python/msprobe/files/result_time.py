# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The time in the names of results."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable


def unused_time(is_used: Callable[[str], bool]) -> str:
    """Now, as "20261121184205", or the first second after it whose result is not there yet: so no earlier
    result is replaced.
    """
    moment = time.time()
    while is_used(text := time.strftime("%Y%m%d%H%M%S", time.localtime(moment))):
        moment += 1
    return text
