# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""MSPROBE_CONFIG=config.yaml: records a training that cannot be started by `msprobe run`.

msprobe.pth, which lies beside the package, imports this module at the start of Python where the variable is
set, and only there. Nothing happens before the program imports torch, and nothing here stops a program.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "MSPROBE_CONFIG"

_armed = False


def arm() -> None:
    """Prepares this process as the variable says."""
    global _armed
    if _armed:  # Python may read a .pth file more than once
        return
    from msprobe.hooks.arming import when_torch_is_imported

    _armed = True
    when_torch_is_imported(_begin)


def disarm() -> None:
    """`msprobe run` has its own wishes."""
    global _armed
    _armed = False


def _begin() -> None:
    if not _armed:
        return
    try:
        import atexit

        from msprobe.native import Error, log
        from msprobe.recorders import RunRecording
        from msprobe.recording.settings import run_settings
    except ImportError as error:
        print(f"msprobe: {VARIABLE} has no effect: {error}", file=sys.stderr)
        return
    try:
        settings = run_settings(os.environ.get(VARIABLE))
    except Error as error:
        log.warning("%s has no effect: %s", VARIABLE, error)
        return
    recording = RunRecording(settings, sys.argv or [""])
    recording.begin()
    atexit.register(recording.end, "ended")
