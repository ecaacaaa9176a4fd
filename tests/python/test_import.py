# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Importing msprobe is light, and the names of mindstudio-probe are where its users look for them."""

from __future__ import annotations

import subprocess
import sys

import msprobe
import pytest

HEAVY = "{'torch', 'numpy', 'matplotlib', 'pandas', 'PIL'}"


@pytest.mark.parametrize(
    "statement",
    [
        "import msprobe",
        "from msprobe import *; GradComparator.compare; PrecisionDebugger.monitor; Error",
        "from msprobe import GradComparator",
        "from msprobe.pytorch import PrecisionDebugger",
        "from msprobe.core.grad_probe.grad_compare import GradComparator",
        "from msprobe.config import load_config",
    ],
)
def test_nothing_heavy_is_imported(statement):
    code = f"{statement}\nimport sys\nsys.exit(', '.join({HEAVY} & set(sys.modules)) or 0)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_import_alone_loads_no_native_code():
    code = "import msprobe, sys; sys.exit('msprobe._core' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_is_there():
    assert set(msprobe.__all__) <= set(dir(msprobe))
    for name in msprobe.__all__:
        assert getattr(msprobe, name) is not None
    with pytest.raises(AttributeError, match="module 'msprobe' has no attribute 'nothing'"):
        msprobe.nothing  # noqa: B018


def test_the_classes_of_errors():
    for name, builtin in (
        ("InvalidArgument", ValueError),
        ("FormatError", ValueError),
        ("IoError", OSError),
        ("UnsupportedError", NotImplementedError),
        ("InternalError", RuntimeError),
        ("NothingToCompare", RuntimeError),
    ):
        error = getattr(msprobe, name)
        assert issubclass(error, msprobe.Error)
        assert issubclass(error, builtin)
        assert error.__module__ == "msprobe"


def test_the_old_paths_lead_to_the_same_classes():
    from msprobe.core.grad_probe.grad_compare import GradComparator
    from msprobe.pytorch import PrecisionDebugger

    assert GradComparator is msprobe.GradComparator
    assert PrecisionDebugger is msprobe.PrecisionDebugger
