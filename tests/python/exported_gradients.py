# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The gradients that `msprobe run` recorded, as csv and .npy files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.grad_probe.export_command import export

if TYPE_CHECKING:
    from pathlib import Path


def exported_gradients(run: Path) -> Path:
    """A folder with rank{R}/grad_summary_{S}.csv, beside the run."""
    folder = run.with_name(f"{run.name}_gradients")
    export(run, folder, "npy")
    return folder
