# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs scripts of one call where msprobe cannot be imported."""

from __future__ import annotations

import contextlib
import io
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from unittest import mock


def run_script(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """In this process: importing torch takes longer than all scripts together."""
    out, error, code = io.StringIO(), io.StringIO(), 0
    with contextlib.ExitStack() as around:
        around.enter_context(mock.patch.dict(sys.modules, {"msprobe": None}))
        around.enter_context(mock.patch.object(sys, "argv", [str(path), *words]))
        around.enter_context(mock.patch("torch.cuda.is_available", return_value=False))
        around.enter_context(contextlib.redirect_stdout(out))
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception:
            code = 1
            traceback.print_exc(file=error)
    return subprocess.CompletedProcess([str(path)], code, out.getvalue(), error.getvalue())


def run_alone(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a user runs it."""
    blocked = "import runpy, sys; sys.modules['msprobe'] = None; sys.argv = sys.argv[1:]"
    return subprocess.run(
        [sys.executable, "-c", f"{blocked}; runpy.run_path(sys.argv[0], run_name='__main__')", path, *words],
        capture_output=True,
        text=True,
        check=False,
        env={"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
