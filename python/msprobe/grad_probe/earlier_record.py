# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a record, and what is said of one that is there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.files.run_folder import PACKED_GRADIENTS
from msprobe.native import log

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Literal

    from msprobe.config import GradProbeConfig


def layout_of(section: GradProbeConfig) -> Literal["npy", "packed"]:
    """That of mindstudio-probe, unless something else was asked for."""
    return "packed" if section.layout == "packed" else "npy"


def tell_earlier_record(directory: Path) -> None:
    """directory: of a rank."""
    if (directory / PACKED_GRADIENTS).exists() or any(directory.glob("grad_summary_*.csv")):
        log.warning(
            "%s holds an earlier record: its steps are replaced one by one, other files stay", directory
        )
