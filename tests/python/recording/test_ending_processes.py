# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training whose script keeps its last loss alive ends as it does without us, whatever records it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_whatever_records_a_process_that_keeps_its_last_graph_ends_with_0(tmp_path: Path) -> None:
    script = Path(__file__).with_name("ending_processes.py")
    run = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stderr
    codes = json.loads(run.stdout.splitlines()[-1])
    assert len(codes) > 20
    assert {case: code for case, code in codes.items() if code} == {}
