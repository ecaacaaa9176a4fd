# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of the diagnosis share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from diagnosis_training import Read


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads the file of a step folder in tmp_path."""

    def read(name: str = "step0") -> dict[str, Any]:
        result: dict[str, Any] = json.loads((tmp_path / name / "diagnosis.json").read_text())
        return result

    return read
