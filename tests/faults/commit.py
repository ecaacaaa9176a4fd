# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The commit that a page was made at."""

from __future__ import annotations

import subprocess
from pathlib import Path


def this_commit() -> str:
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
