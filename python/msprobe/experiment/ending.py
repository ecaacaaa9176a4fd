# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The end of a process whose run would be another experiment than the one that was asked for."""

from __future__ import annotations

from typing import NoReturn

from msprobe.native import log


def end_process(text: str) -> NoReturn:
    """With one sentence; no `except Exception` of the script holds it."""
    log.error("%s", text)
    raise SystemExit(f"msprobe: {text}")
