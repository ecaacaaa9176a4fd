# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a perturbed training in place of a second run: reading it, and --noise of two commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msprobe.cli import main
from msprobe.files.noise_answer import NoiseAnswer, find_answers, merged, read_answer
from msprobe.native import FormatError

ANSWER: dict[str, Any] = {
    "format": 1,
    "tool": "perturb",
    "amplification": {"Torch.sub.0.forward": 5000.0},
    "expected_loss": [{"step": 0, "relative": 1e-6}, {"step": 2, "relative": 3e-6}],
}


def write(folder: Path, **keys: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "verdict.json"
    path.write_text(json.dumps({**ANSWER, **keys}), encoding="utf-8")
    return path


def test_an_answer_is_found_in_the_folder_of_a_run(tmp_path):
    path = write(tmp_path / "run" / "perturb")
    assert find_answers(tmp_path / "run") == find_answers(path.parent) == find_answers(path) == [path]
    ranks = [write(tmp_path / "ranks" / "perturb" / f"rank{rank}") for rank in range(2)]
    assert find_answers(tmp_path / "ranks") == ranks
    write(tmp_path / "other", tool="compare")
    assert find_answers(tmp_path / "other") == []
    assert find_answers(tmp_path) == []


def test_what_is_expected_grows_beyond_the_steps_that_are_known(tmp_path):
    answer = read_answer(write(tmp_path))
    assert answer.amplification == {"Torch.sub.0.forward": 5000.0}
    assert [answer.loss_at(step) for step in range(5)] == pytest.approx([1e-6, 1e-6, 3e-6, 4e-6, 5e-6])
    assert NoiseAnswer().loss_at(7) == 0
    both = merged([answer, NoiseAnswer({"a": 20.0}, {0: 2e-6})])
    assert (both.amplification["a"], both.loss[0], both.loss[2]) == (20.0, 2e-6, 3e-6)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"format": 2}, "format"),
        ({"amplification": []}, "amplification"),
        ({"amplification": {"a": "x"}}, "amplification"),
        ({"amplification": {"a": -1}}, "amplification"),
        ({"expected_loss": {}}, "expected_loss"),
        ({"expected_loss": [3]}, "expected_loss"),
        ({"expected_loss": [{"step": True, "relative": 1}]}, "expected_loss"),
        ({"expected_loss": [{"step": 0, "relative": None}]}, "expected_loss"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_key(tmp_path, keys, key):
    path = write(tmp_path, **keys)
    with pytest.raises(FormatError) as caught:
        read_answer(path)
    assert str(path) in str(caught.value)
    assert f'"{key}"' in str(caught.value)


def losses(folder: Path, values: list[float]) -> Path:
    folder.mkdir()
    lines = ["step,loss,backward_calls", *(f"{step},{value!r},1" for step, value in enumerate(values))]
    (folder / "losses.rank0.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_losses_may_differ_by_what_is_expected(tmp_path):
    a = losses(tmp_path / "a", [2.0, 1.9, 1.8, 1.7])
    b = losses(tmp_path / "b", [2.0, 1.9002, 1.8004, 1.7006])
    words = ["diagnose", str(a), str(b), "-o", str(tmp_path / "out"), "--quiet", "--force"]
    assert main(words) == 1
    write(tmp_path / "known", expected_loss=[{"step": 0, "relative": 1e-4}, {"step": 1, "relative": 2e-4}])
    assert main([*words, "--noise", str(tmp_path / "known")]) == 0
    write(tmp_path / "small")
    assert main([*words, "--noise", str(tmp_path / "small")]) == 1
    with pytest.raises(SystemExit) as ended:
        main([*words, "--noise", str(tmp_path / "nothing")])
    assert ended.value.code == 2
