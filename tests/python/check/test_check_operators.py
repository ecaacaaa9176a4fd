# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Planted faults of operators are named, healthy ones are not: a part always, everything of tests/operators
with MSPROBE_TEST_SLOW=operators (about ten minutes).
"""

from __future__ import annotations

import os
from pathlib import Path

import check_support  # noqa: F401
import operator_faults as planted
import operator_score as score
import pytest
from msprobe.check.run import check

EVERYTHING = "operators" in os.environ.get("MSPROBE_TEST_SLOW", "")

# One of each kind.
ALWAYS = (
    "softmax in half precision",
    "matmul with a reduced accumulator",
    "layer_norm with a wrong gamma",
    "gelu: gradient off by a factor",
    "index_add in any order",
)
FAULTS = [fault for fault in planted.FAULTS if EVERYTHING or fault.name in ALWAYS]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_named(fault: planted.Fault, steps: dict[str, Path]) -> None:
    for named in score.planted_faults(steps, (fault,)):
        assert named.is_right, (named.dtype, named.result.sentence)


@pytest.mark.parametrize("judged", ["recorded", "rerun"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_healthy_step_is_not_accused(dtype: str, judged: str, steps: dict[str, Path]) -> None:
    result = check(steps[dtype], results=judged)
    assert result.culprits == []
    assert result.exit_code == 0
    assert len(result.calls) - len(result.skipped) > 40


@pytest.mark.skipif(not EVERYTHING, reason="MSPROBE_TEST_SLOW=operators runs it")
def test_no_healthy_operator_of_the_list_is_accused(tmp_path: Path) -> None:
    pytest.importorskip("expecttest", reason="torch's samples of operators need it")
    score.record_healthy(tmp_path)
    for one in score.healthy_operators(tmp_path):
        assert one.accused == [], (one.dtype, one.judged)
        assert len(one.operators) > 300
