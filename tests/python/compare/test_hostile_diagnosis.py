# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe compare beside a diagnosis.json that somebody wrote: an answer or one clear error, no traceback."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compare_support import steps_of, write_dump
from msprobe.cli import main

Path_ = tuple[Any, ...]


def entry(value: float = 1.0, **more: Any) -> dict[str, Any]:
    numbers = {"min": -value, "max": value, "mean": value / 2, "norm": 2 * value}
    return {"dtype": "torch.float32", "shape": [4], "crc32": f"{int(value):08x}", **numbers, **more}


def diagnosis(value: float = 1.0) -> dict[str, Any]:
    gradients = {"a.weight": entry(value), "a.bias": None}
    state = {"a.weight": {"exp_avg": entry(value), "step": {"value": 3}}}
    return {
        "version": 1,
        "kinds": ["all"],
        "faults": [],
        "inputs": [{"model": "", "tensors": {"x": entry(value), "n": {"value": 3}}}],
        "parameters": {"a.weight": {"requires_grad": True, **entry()}, "a.bias": entry()},
        "buffers": {"b.mean": entry()},
        "backward": [{"before_reduction": gradients, "after_reduction": gradients}],
        "clipping": [
            {
                "function": "clip_grad_norm_",
                "arguments": {"max_norm": {"value": 1.0}},
                "before": gradients,
                "after": gradients,
                "result": {"total_norm": entry(value, shape=[])},
            }
        ],
        "gradients_at_optimizer": [{"optimizer": "AdamW", "gradients": gradients}],
        "optimizer": [
            {
                "class": "AdamW",
                "groups": [{"parameters": ["a.weight", "a.bias"], "hyper": {"lr": 0.1, "betas": {"0": 0.9}}}],
                "state_before": state,
                "state_after": state,
            }
        ],
        "scaler": [{"enabled": True, "scale": 65536.0, "optimizer_stepped": True}],
        "rng": {"start": {"torch.cpu": "00000001"}, "step": {"torch.cpu": "00000002"}},
        "modules": {
            "": {"class": "Net", "training": True, "settings": {"eps": 1e-5}, "parameters": {"bias": True}}
        },
        "determinism": {"start": {"backends.cudnn.deterministic": False}},
    }


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    yield path
    if isinstance(value, (dict, list)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*path, key))


def changed(content: dict[str, Any], path: Path_, value: Any) -> Any:
    if not path:
        return value
    content = copy.deepcopy(content)
    inner: Any = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return content


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("golden", "target"):
        write_dump(tmp_path / name, steps_of(2))
        (tmp_path / name / "diagnosis.json").write_text(json.dumps(diagnosis()))
    return tmp_path


def ask(runs: Path) -> int:
    dumps = [str(runs / name / "dump.json") for name in ("golden", "target")]
    return main(["compare", *dumps, "-o", str(runs / "out"), "--quiet", "--format", "csv", "-c", "--force"])


def status(runs: Path) -> str:
    return str(json.loads((runs / "out/verdict.json").read_text())["status"])


def test_a_whole_one_is_read(runs: Path) -> None:
    assert ask(runs) == 0
    assert status(runs) == "equal"
    (runs / "target/diagnosis.json").write_text(json.dumps(diagnosis(2.0)))
    assert ask(runs) == 1
    assert status(runs) == "differ"


WRONG: list[Any] = [
    None,
    True,
    7,
    -1e308,
    "x",
    "",
    [],
    {},
    [[[]]],
    {"value": None},
    {"dtype": 3},
    [{"shape": "y"}],
]


def test_values_of_other_types_are_no_traceback(runs: Path) -> None:
    """Every place, each with one of the values; all pairs of places and values are some 2,000."""
    chance = random.Random(1)
    for path in places(diagnosis()):
        wrong = changed(diagnosis(), path, chance.choice(WRONG))
        for side in ("golden", "target"):
            (runs / side / "diagnosis.json").write_text(json.dumps(wrong))
            code = ask(runs)
            assert code == 2 if not isinstance(wrong, dict) else code in (0, 1), (path, wrong)
            (runs / side / "diagnosis.json").write_text(json.dumps(diagnosis()))


def test_the_same_wrong_values_on_both_sides(runs: Path) -> None:
    for value in WRONG:
        for key in diagnosis():
            for side in ("golden", "target"):
                (runs / side / "diagnosis.json").write_text(json.dumps(changed(diagnosis(), (key,), value)))
            assert ask(runs) == 0, (key, value)


@pytest.mark.parametrize("key", ["sketch", "shape", "dtype", "min", "norm", "crc32", "nan_count"])
@pytest.mark.parametrize("value", ["AAAA", "=" * 64, 1e308, -5, [1e300] * 3, "Infinity", {"a": 1}])
def test_tensor_entries_with_wrong_members(runs: Path, key: str, value: Any) -> None:
    content = diagnosis()
    content["inputs"][0]["tensors"]["x"][key] = value
    content["backward"][0]["after_reduction"]["a.weight"][key] = value
    (runs / "target/diagnosis.json").write_text(json.dumps(content))
    assert ask(runs) in (0, 1)
    (runs / "golden/diagnosis.json").write_text(json.dumps(content))
    assert ask(runs) == 0


def refused(runs: Path, capsys: pytest.CaptureFixture[str], *words: str) -> None:
    assert ask(runs) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert str(runs / "target/diagnosis.json") in complaint
    assert all(word in complaint for word in words), complaint


@pytest.mark.parametrize("length", [0, 1, 7, 100, 1000, -1])
def test_a_file_that_is_cut(runs: Path, capsys: pytest.CaptureFixture[str], length: int) -> None:
    (runs / "target/diagnosis.json").write_text(json.dumps(diagnosis())[:length])
    refused(runs, capsys)


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '"x"', "[" * 100_000, '{"a": ' * 100_000, "\0" * 1000, "{}{}"]
)
def test_what_is_no_object(runs: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (runs / "target/diagnosis.json").write_text(text)
    refused(runs, capsys)


def test_nesting_without_end(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "target/diagnosis.json").write_text('{"modules": ' + "[" * 100_000)
    refused(runs, capsys, "nesting")


@pytest.mark.parametrize("kind", ["zero", "random", "pipe", "folder"])
def test_what_is_no_file(runs: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    path = runs / "target/diagnosis.json"
    path.unlink()
    if kind in ("zero", "random"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    refused(runs, capsys)


def test_one_side_without_a_diagnosis_is_compared_without(runs: Path) -> None:
    (runs / "target/diagnosis.json").unlink()
    (runs / "golden/diagnosis.json").write_text(json.dumps(diagnosis(5.0)))
    assert ask(runs) == 1  # incomplete: what only one side has was not compared
    (runs / "target/diagnosis.json").symlink_to("diagnosis.json")  # a link that leads nowhere
    assert ask(runs) == 1


def test_hostile_names_stay_names(runs: Path) -> None:
    content = diagnosis(2.0)
    name = "</script>\x1b[31m\n../../etc/passwd"
    content["inputs"][0]["tensors"] = {name: entry(2.0)}
    golden = diagnosis()
    golden["inputs"][0]["tensors"] = {name: entry(1.0)}
    (runs / "target/diagnosis.json").write_text(json.dumps(content))
    (runs / "golden/diagnosis.json").write_text(json.dumps(golden))
    assert ask(runs) == 1
    verdict = json.loads((runs / "out/verdict.json").read_text())
    assert name in verdict["culprits"][0]["name"]
    assert verdict["sentence"].isprintable()
