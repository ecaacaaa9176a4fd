# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""op_generate: the scripts of mindstudio-probe's samples, and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from call_scripts import run_alone, run_script
from msprobe import cli
from recorded_calls import call, tensor, value, write_dump

DATA = Path(__file__).resolve().parents[3] / "data/accuracy"
SAMPLES = ("Functional.conv2d.0.forward", "Functional.linear.0.backward", "Functional.relu.0.forward",
           "Functional.softmax.0.forward", "Torch.add.0.forward", "Torch.matmul.0.forward",
           "Torch.topk.0.forward")  # fmt: skip


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operators")
    unpack(DATA / "samples.tar.xz", folder)
    unpack(DATA / "operators.tar.xz", folder)
    return folder


def metrics(text: str) -> list[tuple[str, str]]:
    return [(name.strip(), found.strip()) for name, found in re.findall(r"^\|([^|]+)\|([^|]+)\|", text, re.M)]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample(sample: str, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script runs and prints what that of mindstudio-probe printed: the same metrics, and with recorded
    tensors the same values.
    """
    config = json.loads((golden / f"config_{sample}.json").read_text())
    for key in ("dump_json_path", "extract_api_path"):
        config[key] = config[key].replace("/step0/rank/", "/").replace("OUT", str(golden))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert cli.main(["-f", "pytorch", "op_generate", "-i", str(path), "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    script = tmp_path / f"{sample}.py"
    assert said == f"Generate operator script successfully and the name is {script}.\n"
    done = (run_alone if sample == "Functional.conv2d.0.forward" else run_script)(script)
    assert done.returncode == 0, done.stderr
    log = (golden / f"log_{sample}.txt").read_text()
    ours, theirs = metrics(done.stdout), metrics(log)
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    if config["data_mode"] == "real_data":
        for (name, left), (_, right) in zip(ours, theirs):
            assert left == right or float(left) == pytest.approx(float(right), rel=1e-6), name
    assert "index 1" in done.stdout or "index 1" not in log


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """config(**changes) -> the path of a config of a call that can be run."""
    dump = write_dump(tmp_path / "dump", {"Torch.exp.0.forward": call([tensor()])})

    def write(**changes: Any) -> str:
        content = {
            "dump_json_path": str(dump),
            "api_name": "Torch.exp.0",
            "extract_api_path": str(tmp_path / "extracted.json"),
            "propagation": "forward",
            "data_mode": "random_data",
            "random_seed": 1234,
            "iter_times": 1,
            **changes,
        }
        path = tmp_path / "config.json"
        path.write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))
        return str(path)

    return write


def generated(config: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli.main(["op_generate", "-i", config, "-o", str(folder)])
    return code, capsys.readouterr().err


def test_what_may_be_left_out(config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rest = dict.fromkeys(("propagation", "data_mode", "random_seed", "iter_times"), ...)
    assert generated(config(**rest), tmp_path, capsys) == (0, "")
    # Extracted before: no dump is needed.
    assert generated(config(dump_json_path=""), tmp_path, capsys) == (0, "")


def test_iterations(config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generated(config(iter_times=3), tmp_path, capsys)[0] == 0
    said = run_script(tmp_path / "Torch.exp.0.forward.py").stdout
    assert re.findall(r"iter: (\d):", said) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"api_name": ...}, '"api_name"'),
        ({"api_name": "Functional." + "x" * 40}, "at most 30 characters"),
        ({"api_name": "Torch.log.0"}, "there is no call 'Torch.log.0'"),
        ({"extract_api_path": "extracted.txt"}, "ends in .json"),
        ({"propagation": "sideways"}, "propagation is invalid"),
        ({"propagation": "backward"}, "propagation backward needs the entries .forward and .backward"),
        ({"data_mode": "no_data"}, "data_mode is invalid"),
        ({"random_seed": "a"}, "random_seed is invalid"),
        ({"iter_times": 0}, "iter_times should be from 1 to 1000"),
        ({"iter_times": 1001}, "iter_times should be from 1 to 1000"),
        ({"iter_times": True}, "iter_times is invalid"),
        ({"dump_json_path": "absent.json"}, "absent.json"),
        ({"dump_json_path": "", "extract_api_path": "absent.json"}, "absent.json"),
    ],
)
def test_a_wrong_config(
    changes: dict[str, Any], problem: str, config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = generated(config(**changes), tmp_path, capsys)
    assert (code, error.count("\n")) == (2, 1)
    assert problem in error
    assert not list(tmp_path.glob("*.py"))


def test_a_folder_that_is_not_there(config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = generated(config(), tmp_path / "absent", capsys)
    assert code == 2
    assert "expected a folder that exists" in error


EVIL = '"); raise SystemExit(7)  # \\\n'


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("Torch.exp.0", call([{**tensor(), "dtype": EVIL}])),
        ("Torch.exp.0", call([{**tensor(), "shape": [EVIL]}])),
        ("Torch.exp.0", call([{**tensor(), "Max": EVIL}])),
        ("Torch.exp.0", call([tensor()], **{EVIL: value(1)})),
        ("Torch.exp.0", call([tensor()], memory={"type": "torch.memory_format", "format": f"torch.{EVIL}"})),
        ("Torch.exp.0", call([tensor(), {"type": "slice", "value": [0, 1]}])),
        ("Torch.exp.0", call([tensor(), {"type": "an object"}])),
        ("Torch.save.0", call([tensor(), value("written")])),
        ("Torch.os.system.0", call([value("touch written")])),
        ("Aten.exp.0", call([tensor()])),
        ("Torch.../../exp.0", call([tensor()])),
    ],
)
def test_nothing_of_a_record_becomes_code(
    name: str, record: Any, config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = write_dump(tmp_path / "evil", {f"{name}.forward": record})
    code, error = generated(config(dump_json_path=str(dump), api_name=name), tmp_path, capsys)
    assert (code, error.count("\n")) == (2, 1)
    assert not list(tmp_path.rglob("*.py"))


def test_texts_are_quoted(config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write_dump(
        tmp_path / "text", {"Torch.div.0.forward": call([tensor(), tensor(2, 1)], rounding_mode=value(EVIL))}
    )
    assert generated(config(dump_json_path=str(dump), api_name="Torch.div.0"), tmp_path, capsys)[0] == 0
    done = run_script(tmp_path / "Torch.div.0.forward.py")
    assert done.returncode == 1
    assert "div expected rounding_mode to be one of" in done.stderr
