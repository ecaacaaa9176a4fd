# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Each row of the table, where its trainer is installed; see README.md."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rows import ROWS, Row
from run import diagnose, is_installed, run
from trainer_hunts import hunted, is_right

pytestmark = pytest.mark.skipif(
    "trainers" not in os.environ.get("MSPROBE_TEST_SLOW", "").split(),
    reason="real trainers: MSPROBE_TEST_SLOW=trainers",
)


PAGE = Path(__file__).resolve().parents[2] / "docs/trainers.md"
IN_ANY_WAY = ("torchtune", "TRL: SFT", "Lightning: Trainer")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_trainer_is_recorded_and_stays_the_same(row: Row, tmp_path: Path) -> None:
    if not is_installed(row):
        pytest.skip(f"{row.packages[0]} is not installed")
    plain, recorded, again = run(row, ""), run(row, "", tmp_path / "a"), run(row, "", tmp_path / "b")
    assert plain.code == 0, plain.tail
    assert recorded.numbers == plain.numbers
    assert again.numbers == plain.numbers
    assert (tmp_path / "a" / "dump").is_dir()
    answer = diagnose(tmp_path / "a", tmp_path / "b", tmp_path / "answer")
    assert answer["code"] == 0, answer["sentence"]


@pytest.mark.parametrize(
    ("script", "package"),
    [("transformers_callback.py", "transformers"), ("lightning_callback.py", "lightning")],
)
def test_a_callback_of_the_page_records(script: str, package: str, tmp_path: Path) -> None:
    row = Row(package, script, (package,), ())
    source = (Path(__file__).parent / "scripts" / script).read_text()
    callback = source[source.index("class Recorder") :].partition("\n\n\n")[0]
    assert callback in PAGE.read_text()
    if not is_installed(row):
        pytest.skip(f"{package} is not installed")
    done = run(row, str(tmp_path / "dump"))
    assert done.code == 0, done.tail
    for step in (0, 2):
        assert list((tmp_path / "dump" / f"step{step}").glob("rank*/dump.json"))
    assert not (tmp_path / "dump/step1").exists()


@pytest.mark.parametrize("trainer", ["transformers", "lightning"])
def test_a_fault_in_a_trainer_is_hunted_to_a_proved_cause(trainer: str, tmp_path: Path) -> None:
    pytest.importorskip(trainer)
    answer = hunted(tmp_path, trainer, "eps")
    assert is_right(answer, "eps"), answer


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in IN_ANY_WAY], ids=lambda row: row.name)
def test_a_trainer_is_recorded_by_its_environment_alone(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MSPROBE_CONFIG, as for launchers that cannot be given another module."""
    if not is_installed(row):
        pytest.skip(f"{row.packages[0]} is not installed")
    plain = run(row, "")
    (tmp_path / "config.json").write_text(f'{{"task": "statistics", "dump_path": "{tmp_path}/out"}}')
    monkeypatch.setenv("MSPROBE_CONFIG", str(tmp_path / "config.json"))
    assert run(row, "").numbers == plain.numbers
    assert (tmp_path / "out/dump/step0").is_dir()
