# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is done when a process ends."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def call_at_exit(close: Callable[[], None]) -> None:
    """Calls `close` when this process ends, while Python still works."""
    atexit.register(close)
    import multiprocessing.util

    if multiprocessing.parent_process() is not None:
        # A forked worker of multiprocessing leaves without atexit; this is what it runs instead.
        multiprocessing.util.Finalize(None, close, exitpriority=100)
