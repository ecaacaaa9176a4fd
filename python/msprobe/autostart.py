# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""MSPROBE_CONFIG=config.yaml: records a training that cannot be started by `msprobe run`.

msprobe.pth, which lies beside the package, imports this module at the start of Python where the variable is
set, and only there. Nothing happens before the program imports torch, and nothing here stops a program.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.recording.settings import RunSettings

VARIABLE = "MSPROBE_CONFIG"

_armed = False


def arm() -> None:
    """Prepares this process as the variable says."""
    global _armed
    if _armed:  # Python may read a .pth file more than once
        return
    from msprobe.hooks.arming import when_imported, when_torch_is_imported

    _armed = True
    when_torch_is_imported(_begin)
    when_imported("mindspore", _begin_with_mindspore)


def disarm() -> None:
    """`msprobe run` has its own wishes."""
    global _armed
    _armed = False


def _begin() -> None:
    settings = _settings()
    if settings is None:
        return
    from msprobe.recorders import RunRecording

    recording = RunRecording(settings, sys.argv or [""])
    recording.begin()
    atexit.register(recording.end, "ended")


def _begin_with_mindspore() -> None:
    settings = _settings()
    if settings is None:
        return
    from msprobe.port_recording import mindspore_recording

    recording = mindspore_recording(settings, sys.argv or [""])
    atexit.register(recording.end, "ended")


def _settings() -> RunSettings | None:
    """None: the variable has no effect, which is told."""
    if not _armed:
        return None
    try:
        from msprobe.native import Error, log
        from msprobe.recording.settings import run_settings
    except ImportError as error:
        print(f"msprobe: {VARIABLE} has no effect: {error}", file=sys.stderr)
        return None
    try:
        return run_settings(os.environ.get(VARIABLE))
    except Error as error:
        log.warning("%s has no effect: %s", VARIABLE, error)
        return None
