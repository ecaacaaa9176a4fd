# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from msprobe.core import SingleSave
from rl_records import Save


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records and tables of mindstudio-probe."""
    folder = tmp_path_factory.mktemp("rl_sample")
    unpack(Path(__file__).resolve().parents[2] / "data/rl/single_save.tar.xz", folder)
    return folder / "single_save"


@pytest.fixture(autouse=True)
def no_instance() -> Iterator[None]:
    """The one SingleSave of the process is gone before and after the test."""
    SingleSave._instance = None
    yield
    SingleSave._instance = None


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Makes a record of steps, each a dict of values."""

    def make(name: str, *steps: dict[str, Any], fmk: str = "pytorch") -> Path:
        SingleSave._instance = None
        SingleSave(tmp_path / name, fmk)
        for values in steps:
            SingleSave.save(values)
            SingleSave.step()
        SingleSave.flush()
        SingleSave._instance = None
        return tmp_path / name

    return make
