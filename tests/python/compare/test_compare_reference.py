# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""mindstudio-probe and we compare the same dumps, ours, and say the same. (Its dumps:
test_compare_golden.py.) Runs when MSPROBE_TEST_REFERENCE names a folder for its environment, which is set up
there when it is missing (about 2 GiB).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from golden_tables import check_tables
from msprobe.cli import main

REPOSITORY = Path(__file__).resolve().parents[3]
SAMPLES = REPOSITORY / "tests/data/dump/make_samples.py"


def our_dump(folder: Path, name: str) -> Path:
    subprocess.run([sys.executable, SAMPLES, folder, "--only", name], check=True, capture_output=True)
    return folder / name / "dump/step0/rank/dump.json"


@pytest.mark.parametrize("sample", ["statistics_mix", "tensor_mix", "md5_mix"])
def test_both_tools_say_the_same_of_our_dumps(tmp_path: Path, reference: Path, sample: str) -> None:
    target, golden = our_dump(tmp_path, f"{sample}_perturbed"), our_dump(tmp_path, sample)
    file = tmp_path / "compare.json"
    paths = {"npu_path": str(target), "bench_path": str(golden), "is_print_compare_log": False}
    file.write_text(json.dumps(paths))
    file.chmod(0o640)
    words = ["-f", "pytorch", "compare", "-i", str(file), "-o"]
    done = subprocess.run(
        [reference, *words, tmp_path / "theirs"],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert main([*words, str(tmp_path / "ours"), "--quiet"]) == 1
    theirs, ours = (next((tmp_path / side).glob("compare_result_*.xlsx")) for side in ("theirs", "ours"))
    check_tables(theirs, ours, sample=sample)
    advice = [next((tmp_path / side).glob("advisor_*.txt")).read_text() for side in ("theirs", "ours")]
    assert advice[0] == advice[1]
