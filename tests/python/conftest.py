# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of several features share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WriteConfig = Callable[..., Path]


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
def fresh_debugger() -> Iterator[None]:
    """The one debugger of the process is gone before and after the test."""
    from msprobe import PrecisionDebugger

    PrecisionDebugger._reset()
    yield
    PrecisionDebugger._reset()
