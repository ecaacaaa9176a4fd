# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the verdict: one recorded value is changed by a random amount (mutation.py), and the answer has to
be what must be seen of it.

`must_be_seen` is what the model of rounding predicts. Until it is there, only what holds for every model is
asked: nothing that differs is `equal`, what cannot round is `differ`, and a change is never an error.

MSPROBE_TEST_MUTATIONS=0-999 makes the pairs of these seeds; MSPROBE_TEST_MUTATIONS=17 that one.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
from pathlib import Path

import pytest
from judging import DIFFER, INCOMPLETE, SAME, Answer
from mutation import KINDS, UNIT, Change, mutate, round_to
from run import Case, run

FIRST, _, LAST = os.environ.get("MSPROBE_TEST_MUTATIONS", "0-23").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)

SURE = 2.0**12
"""Unit roundoffs that no model explains by one call: 6 % of a bfloat16's range of precision is 16 of them."""


def must_be_named(change: Change) -> bool:
    """Whether rounding cannot explain it: it is a culprit, or is named as something that nothing comes of."""
    if change.kind == "statistic":
        return change.units >= SURE
    return change.kind in ("not_a_number", "shape", "dtype")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of three models and two precisions, with checksums."""
    out = tmp_path_factory.mktemp("mutation")
    found = []
    for model, precision in (("cnn", "float32"), ("moe", "bfloat16"), ("transformer", "float16")):
        folder = out / f"{model}.{precision}"
        run(Case("golden", "", model, "md5", 1, precision), folder)
        found.append(folder / "dump")
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_change_is_seen(dumps: list[Path], tmp_path: Path, seed: int, request: pytest.FixtureRequest) -> None:
    chance = random.Random(seed)
    golden = chance.choice(dumps)
    change = mutate(golden, tmp_path / "target", chance)
    answer = _ask(golden, tmp_path / "target", tmp_path / "answer")
    assert not answer.fault, f"{change}: {answer.fault}"  # a fault is none of the expected failures
    assert answer.status != "equal", f"{change}: something differs, and it is called equal"
    if must_be_named(change) and answer.status not in DIFFER:
        text = (tmp_path / "answer" / "verdict.json").read_text()
        assert change.record in text, f"{change}: is called {answer.status}, and not named"


def _ask(golden: Path, target: Path, out: Path) -> Answer:
    import subprocess

    words = [
        "compare",
        str(golden),
        str(target),
        "-o",
        str(out),
        "--quiet",
        "--format",
        "csv",
        "-c",
        "--force",
    ]
    command = [sys.executable, "-m", "msprobe", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in (0, 1):
        return Answer(fault=f"exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    status = json.loads((out / "verdict.json").read_text(encoding="utf-8"))["status"]
    if status not in (*SAME, *DIFFER, *INCOMPLETE) or (status in SAME) != (done.returncode == 0):
        return Answer(fault=f"status {status}, exit code {done.returncode}")
    return Answer(status)


# ---- the generator


@pytest.mark.parametrize("kind", KINDS)
def test_one_value_is_changed(dumps: list[Path], tmp_path: Path, kind: str) -> None:
    for seed in range(5):
        into = tmp_path / str(seed)
        change = mutate(dumps[seed % 3], into, random.Random(seed), kind)
        assert change.kind == kind
        files = [path.relative_to(into) for path in into.rglob("*.json")]
        other = [f for f in files if (into / f).read_text() != (dumps[seed % 3] / f).read_text()]
        assert len(other) == 1
        before, after = ((folder / other[0]).read_text().split("\n") for folder in (dumps[seed % 3], into))
        words = [line.split('"')[1] if '"' in line else "" for line in {*before} ^ {*after}]
        allowed = (
            {change.key, "md5", "sketch"} if kind in ("statistic", "not_a_number", "dtype") else {change.key}
        )
        assert set(words) <= allowed or kind == "shape", f"{change}: {words}"


def test_same_seed_makes_the_same_change(dumps: list[Path], tmp_path: Path) -> None:
    changes = [mutate(dumps[0], tmp_path / name, random.Random(3)) for name in "ab"]
    assert changes[0] == changes[1]


def test_sizes_of_changes_are_spread(dumps: list[Path], tmp_path: Path) -> None:
    units = [mutate(dumps[0], tmp_path / str(n), random.Random(n), "statistic").units for n in range(30)]
    assert min(units) < 100
    assert max(units) > 2.0**25
    assert all(size > 0 for size in units)


@pytest.mark.parametrize("dtype", UNIT)
def test_numbers_are_rounded_as_torch_does(dtype: str) -> None:
    import torch

    chance = random.Random(1)
    for _ in range(200):
        value = chance.gauss(0, 1) * 10.0 ** chance.randint(-6, 6)
        expected = torch.tensor(value, dtype=torch.float64).to(getattr(torch, dtype[6:])).double().item()
        found = round_to(value, dtype)
        assert found == expected or (math.isinf(found) and math.isinf(expected))
