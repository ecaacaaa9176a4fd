# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m msprobe`` is the command ``msprobe``."""

import sys

from msprobe.cli import main

sys.exit(main())
