# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison of two packs says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from config_check_packs import Entries, write_pack
from msprobe.config_check.comparison import ConfigComparison, compare_packs
from msprobe.config_check.packs.pack_reader import read_pack


@pytest.fixture
def compared(tmp_path: Path) -> Callable[[Entries, Entries], ConfigComparison]:
    """The comparison of two packs with these entries."""

    def compare(bench: Entries, cmp: Entries) -> ConfigComparison:
        paths = [write_pack(tmp_path / f"{name}.zip", side) for name, side in (("a", bench), ("b", cmp))]
        with read_pack(paths[0]) as left, read_pack(paths[1]) as right:
            return compare_packs(left, right)

    return compare
