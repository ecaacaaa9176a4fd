# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Faults in the source of a library, and healthy differences, through `msprobe run` and `msprobe diagnose`.

Needs transformers. All of them with MSPROBE_TEST_FAULTS=1: the table of library/table.py, some minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")
if os.environ.get("MSPROBE_TEST_FAULTS") != "1" and os.environ.get("MSPROBE_TEST_LIBRARY") != "1":
    pytest.skip(
        "set MSPROBE_TEST_LIBRARY=1 for a part, MSPROBE_TEST_FAULTS=1 for all", allow_module_level=True
    )

TABLE = Path(__file__).parent / "library/table.py"
PART = (
    *("llama_sdpa", "llama_refactored", "llama_micro_batches", "llama_checkpointing", "bert_sdpa"),
    *("mixtral_again_low.noise", "llama_scaling", "bert_softmax_dim", "resnet_norm_eps", "llama_gate.noise"),
)


def test_library(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    words = [sys.executable, str(TABLE), str(tmp_path / "out"), "-o", str(results)]
    if os.environ.get("MSPROBE_TEST_FAULTS") != "1":
        words += [word for name in PART for word in ("--only", f" {name}$")]
    subprocess.run(words, check=True, timeout=3600)
    cells = json.loads(results.read_text())["cells"]
    faults = [cell for items in cells.values() for cell in items.values() if "counts" in cell]
    healthy = {name: cell for items in cells.values() for name, cell in items.items() if "counts" not in cell}
    assert [name for name, cell in healthy.items() if cell["outcome"] != "clear"] == []
    first = sum(cell["outcome"] == "first" for cell in faults)
    assert first >= 0.9 * len(faults), [cell for cell in faults if cell["outcome"] != "first"]
