# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A name of mindstudio-probe: the first anomalies of all ranks, `python -m` with -d, -o, -k and -s."""

import sys

from msprobe.compat.trainer_mon.anomaly_ranking import main

if __name__ == "__main__":
    sys.exit(main())
