# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of RL key data share beside the fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Save = Callable[..., Path]
"""The fixture `save`."""
