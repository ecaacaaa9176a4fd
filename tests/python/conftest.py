# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of several features share."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WriteConfig = Callable[..., Path]

# Started in the background, without job control: programs that tests start would ignore Ctrl-C, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def level_of_the_log() -> Iterator[None]:
    """What a test shows of the log does not depend on those before it."""
    log = logging.getLogger("msprobe")
    level = log.level
    yield
    log.setLevel(level)


@pytest.fixture
def write_config(tmp_path: Path) -> WriteConfig:
    """Writes a config.json for the gradient probe into tmp_path/probe; arguments replace top-level keys."""

    def write(section: Any = None, **keys: Any) -> Path:
        content: dict[str, Any] = {"task": "grad_probe", "dump_path": str(tmp_path / "probe"), **keys}
        if section is not None:
            content["grad_probe"] = section
        path = tmp_path / "config.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str, str]]:
    """command_line(*words) -> exit code, standard output and error of `msprobe WORDS`, in this process."""

    def run(*words: object) -> tuple[Any, str, str]:
        from msprobe.cli import main

        capsys.readouterr()
        try:
            code: Any = main([str(word) for word in words])
        except SystemExit as end:  # argparse
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def fresh_debugger() -> Iterator[None]:
    """The one debugger of the process is gone before and after the test."""
    from msprobe import PrecisionDebugger

    PrecisionDebugger._reset()
    yield
    PrecisionDebugger._reset()


@pytest.fixture(scope="session")
def reference() -> Path:
    """The command of mindstudio-probe, in the environment that MSPROBE_TEST_REFERENCE names."""
    folder = os.environ.get("MSPROBE_TEST_REFERENCE")
    if not folder:
        pytest.skip("MSPROBE_TEST_REFERENCE names no folder")
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "reference_env.py"
    made = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=True)
    return Path(made.stdout.split()[-1]).with_name("msprobe")
