# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The step of tests/operators, recorded once."""

from __future__ import annotations

import warnings
from pathlib import Path

import check_support  # noqa: F401
import operator_score as score
import pytest


@pytest.fixture(autouse=True)
def on_the_processor(no_accelerator: None) -> None:
    """All that is checked here."""


@pytest.fixture(scope="session")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By dtype, a dump of task tensor of a healthy step."""
    folder = tmp_path_factory.mktemp("steps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {dtype: score.record_step(folder, dtype) for dtype in score.STEP_DTYPES}
