# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from archives import unpack

_SAMPLES = Path(__file__).resolve().parents[2] / "data/checkpoint"


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the samples."""
    folder = tmp_path_factory.mktemp("checkpoint_samples")
    for name in ("samples", "optimizers"):
        unpack(_SAMPLES / f"{name}.tar.xz", folder)
    return folder
