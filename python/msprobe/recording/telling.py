# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is recorded, and where: one line when it begins and one when it ends."""

from __future__ import annotations

import logging
import os
import sys

from msprobe.native import log
from msprobe.recording.run_file import rank_of_process


def tell(text: str) -> None:
    """A line on standard error, of one process of a training only; through `logging` where that shows it.
    MSPROBE_LOG_LEVEL of 2 or more leaves it out.
    """
    if rank_of_process() != 0 or os.environ.get("MSPROBE_LOG_LEVEL", "") in ("2", "3", "4"):
        return
    if log.isEnabledFor(logging.INFO) and log.hasHandlers():
        log.info("%s", text)
    else:
        print(f"msprobe: {text}", file=sys.stderr, flush=True)
