# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is typed wrongly in the first days, and what msprobe answers: one line that says what to type instead.

`tests/data/cli/wrong_inputs.txt` has the command lines, each with its answer. A wording that was changed on
purpose: `python tests/python/cli/test_wrong_inputs.py` writes the answers of today.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest
from msprobe import cli

DATA = Path(__file__).parents[2] / "data"
GOLDEN = DATA / "cli" / "wrong_inputs.txt"


def cases() -> list[tuple[str, str]]:
    blocks = GOLDEN.read_text(encoding="utf-8").strip().split("\n\n")
    return [(block.partition("\n")[0].removeprefix("$ "), block.partition("\n")[2]) for block in blocks]


def fill(folder: Path) -> None:
    """What the command lines take for granted: `run_a`, a dump; files and folders that are none."""
    shutil.copytree(DATA / "trace" / "sample", folder / "run_a")
    shutil.copytree(DATA / "grad_probe" / "l1_a", folder / "gradients")
    (folder / "empty").mkdir()
    for name in ("first", "second"):
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "run.rank0.json").write_text("{}\n")
    (folder / "train.py").write_text("print('trains')\n")
    (folder / "train_new.py").write_text("print('trains')\n")
    (folder / "notes.txt").write_text("notes\n")
    (folder / "comma.json").write_text('{"task": "statistics",}\n')
    (folder / "typo.yaml").write_text("task: statistics\nlevle: L1\n")
    (folder / "task.yaml").write_text("task: statistic\n")
    (folder / "broken.safetensors").write_bytes(b"\x00\x01\x02")
    (folder / "done").mkdir()
    (folder / "done" / "verdict.json").write_text("{}\n")


def answer(line: str) -> str:
    """Exit code and standard error of a command line, in the folder of now."""
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = cli.main(shlex.split(line)[1:])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return f"{code}: {error.getvalue().strip()}"


@pytest.mark.parametrize(("line", "expected"), cases(), ids=[line for line, _ in cases()])
def test_the_answer_says_what_to_type(line, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert answer(line) == expected
    assert sorted(path.name for path in tmp_path.rglob("*")) == before  # and nothing was written


def test_there_are_two_people_s_worth_of_them():
    assert len(cases()) >= 40
    assert all(expected.startswith("2: msprobe") and "\n" not in expected for _, expected in cases())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        lines = [line for line, _ in cases()]
        answers = []
        for number, line in enumerate(lines):
            place = Path(name) / str(number)
            place.mkdir()
            os.chdir(place)
            fill(place)
            answers.append(answer(line))
    GOLDEN.write_text("\n\n".join(f"$ {line}\n{said}" for line, said in zip(lines, answers)) + "\n")
