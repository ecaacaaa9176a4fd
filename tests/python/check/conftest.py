# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The step of tests/operators, recorded once, and a machine without an accelerator."""

from __future__ import annotations

import warnings
from pathlib import Path

import check_support  # noqa: F401
import operator_score as score
import pytest
import torch


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="session")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By dtype, a dump of task tensor of a healthy step."""
    folder = tmp_path_factory.mktemp("steps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {dtype: score.record_step(folder, dtype) for dtype in score.STEP_DTYPES}
