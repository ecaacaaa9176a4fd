# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pairs that a verdict once got wrong (pairs.py): what it says of each of them today.

The commonest part runs always; all of them with MSPROBE_TEST_SLOW=faults.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from pairs import BY_PAIR, PAIRS, Pair, record
from run import CONTEXT

EVERYTHING = "faults" in os.environ.get("MSPROBE_TEST_SLOW", "")
TIMEOUT = 120

PART = """
    in_place_module where_hidden_by_relu silu_bfloat16 weight_float16 float_before_loss_eps one_nan
    nan_elsewhere float64 wide_softmax additive_mask mixed_with_noise loss_last_bit fused_kernel
    order_of_norms shared_module_missing shared_module_diagnosed step_of_SGD step_of_Muon epsilon_inside
    parameter_missing training_flag
""".split()  # noqa: SIM905


def _cases() -> list[Any]:
    found = []
    for pair in PAIRS:
        for way in pair.ways:
            if not EVERYTHING and (
                pair.name not in PART or (way in ("diagnosis", "tensor") and len(pair.ways) > 2)
            ):
                continue
            found.append(pytest.param(pair.name, way, id=f"{pair.name}-{way}"))
    return found


@pytest.mark.parametrize(("name", "way"), _cases())
def test_pair_is_judged_right(tmp_path: Path, name: str, way: str) -> None:
    pair = BY_PAIR[name]
    for side in ("golden", "target"):
        _record(name, way, tmp_path / side)
    status, culprit, text, code = _ask(tmp_path, way)
    assert status in pair.statuses, f"{status}: {culprit}"
    assert (code == 0) == (status in ("agree", "equal", "rounding"))
    assert re.search(pair.culprit, culprit), culprit
    assert re.search(pair.mentions, text)


def _record(name: str, way: str, folder: Path) -> None:
    receiver, sender = CONTEXT.Pipe(duplex=False)
    child = CONTEXT.Process(target=_work, args=(sender, name, way, folder))
    child.start()
    sender.close()
    fault = receiver.recv() if receiver.poll(TIMEOUT) else "no answer"
    child.join(10)
    if fault:  # no AssertionError: a pair that cannot be recorded is no expected failure
        raise RuntimeError(fault)


def _work(answers: Any, name: str, way: str, folder: Path) -> None:
    try:
        record(name, way, target=folder.name == "target", folder=folder)
        answers.send("")
    except BaseException:
        answers.send(traceback.format_exc())


def _ask(folder: Path, way: str) -> tuple[str, str, str, int]:
    """Status, first culprit, the file of the answer, exit code."""
    command, dump, file = (
        ("diagnose", "run", "diagnose.json") if way == "diagnose" else ("compare", "dump", "verdict.json")
    )
    words = [str(folder / side / dump) for side in ("golden", "target")]
    words += ["-o", str(folder / "answer"), "--quiet", "--force"]
    words += ["--no-graph"] if way == "diagnose" else ["--format", "csv", "-c"]
    done = subprocess.run(
        [sys.executable, "-m", "msprobe", command, *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    text = (folder / "answer" / file).read_text(encoding="utf-8")
    content = json.loads(text)
    if way == "diagnose":
        cause = content["cause"] or {}
        first = " ".join(str(cause.get(key) or "") for key in ("stage", "name", "module", "record"))
    else:
        keys = ("kind", "name", "module", "operator")
        first = (
            " ".join(str(content["culprits"][0].get(key) or "") for key in keys)
            if content["culprits"]
            else ""
        )
    return content["status"], first.strip(), text, done.returncode


def test_pairs_have_names_of_their_own() -> None:
    assert len(BY_PAIR) == len(PAIRS)
    assert all(isinstance(pair, Pair) for pair in PAIRS)
