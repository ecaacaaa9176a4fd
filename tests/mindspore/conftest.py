# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What all tests with MindSpore need: dynamic graphs on the CPU, a folder and a debugger of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mindspore as ms
import pytest
from msprobe.mindspore import PrecisionDebugger


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # ms.jit leaves files where it runs
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_device("CPU")
    PrecisionDebugger._reset()
    yield
    PrecisionDebugger._reset()
