# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe reproduce: a script that repeats one recorded call and asserts its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from call_scripts import run_alone, run_script
from msprobe import PrecisionDebugger, cli
from recorded_calls import call, saved, tensor, write_dump


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of task tensor: calls with gradients, strides, large tensors, calls in place."""
    folder = tmp_path_factory.mktemp("reproduce")
    config = folder / "config.json"
    config.write_text(json.dumps({"task": "tensor", "level": "L1", "dump_path": str(folder / "dump")}))
    torch.manual_seed(0)
    PrecisionDebugger._reset()
    debugger = PrecisionDebugger(str(config))
    debugger.start()
    x, w = torch.randn(6, 8, requires_grad=True), torch.randn(8, 5).requires_grad_()
    y = torch.softmax(torch.matmul(x, w).t(), dim=0)
    z = torch.nn.functional.layer_norm(y.bfloat16(), (6,))
    large = torch.mul(torch.randn(200, 200), 2)
    values, _ = torch.topk(y, 2)
    inplace = torch.zeros(5)
    inplace.add_(torch.ones(5))
    (z.float().sum() + values.sum() + y.square().sum() + large.sum()).backward()
    debugger.stop()
    debugger.step()
    PrecisionDebugger._reset()
    (found,) = (folder / "dump").glob("step*/rank*")
    return found


def reproduced(dump: Path, name: str, out: Path) -> list[Path]:
    assert cli.main(["reproduce", str(dump), name, "-o", str(out)]) == 0
    return sorted(out.iterdir())


@pytest.mark.parametrize(
    "name", ["Torch.softmax.0", "Torch.matmul.0", "Functional.layer_norm.0", "Torch.topk.0", "Tensor.add_.0"]
)
def test_a_call_is_repeated(name: str, dump: Path, tmp_path: Path) -> None:
    (script,) = reproduced(dump, name, tmp_path)
    done = run_script(script, "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{name} on cpu, torch {torch.__version__}\nok    output.0 ")


def test_gradients_are_asserted(dump: Path, tmp_path: Path) -> None:
    (script,) = reproduced(dump, "Torch.matmul.0", tmp_path)
    said = run_script(script).stdout
    assert [line.split()[1] for line in said.splitlines()[1:]] == ["output.0", "gradient.0", "gradient.1"]


def test_the_script_fails_where_the_operator_is_wrong(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "matmul", torch.matmul)  # as it is, afterwards
    (script,) = reproduced(dump, "Torch.matmul.0", tmp_path)
    broken = tmp_path / "broken.py"
    factor = "(1.001 if a.dtype is torch.float32 else 1)"
    wrong = f"_right = torch.matmul\ntorch.matmul = lambda a, b: _right(a, b) * {factor}\n"
    broken.write_text(script.read_text().replace("\nHERE = ", f"\n{wrong}HERE = ", 1))
    done = run_script(broken)
    assert done.returncode == 1
    assert "WRONG output.0" in done.stdout


def test_large_tensors_stand_beside_the_script(dump: Path, tmp_path: Path) -> None:
    files = reproduced(dump, "Torch.mul.0", tmp_path / "out")
    assert [file.name for file in files] == ["Torch.mul.0.0.pt", "Torch.mul.0.py"]
    moved = tmp_path / "elsewhere"
    (tmp_path / "out").rename(moved)
    assert run_alone(moved / "Torch.mul.0.py").returncode == 0


def test_strides_stay(tmp_path: Path) -> None:
    x = torch.arange(12.0).reshape(3, 4).t()
    args = [saved(tmp_path, "x.pt", x)]
    path = write_dump(
        tmp_path, {"Torch.exp.0.forward": call(args)}, task="tensor", dump_data_dir=str(tmp_path)
    )
    (script,) = reproduced(path, "Torch.exp.0", tmp_path / "out")
    assert "(4, 3), (1, 4)" in script.read_text()
    assert run_script(script).returncode == 0


def test_statistics_alone(tmp_path: Path) -> None:
    path = write_dump(tmp_path, {"Torch.exp.0.forward": call([tensor()])})
    (script,) = reproduced(path, "Torch.exp.0", tmp_path / "out")
    assert "its tensors are drawn with the recorded statistics" in script.read_text()
    assert run_script(script).returncode == 0


EVIL = '"""); raise SystemExit(7)  #'


@pytest.mark.parametrize(
    ("name", "record", "problem"),
    [
        ("Torch.absent.0", None, "there is no call 'Torch.absent.0'"),
        ("Torch.save.0", call([tensor()]), "not run again"),
        (f"Torch.exp.{EVIL}", call([tensor()]), "Torch.exp."),
        ("Torch.exp./../../x", call([tensor()]), "Torch.exp."),
        ("Torch.exp.0", call([{**tensor(), "data_name": "absent.pt"}]), "absent.pt"),
        ("Torch.exp.0", call([tensor()], **{EVIL: {"type": "int", "value": 1}}), "expected a name"),
    ],
)
def test_what_cannot_be_reproduced(
    name: str, record: Any, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {} if record is None else {f"{name}.forward": record}
    path = write_dump(
        tmp_path,
        {"Torch.log.0.forward": call([tensor()]), **data},
        task="tensor",
        dump_data_dir=str(tmp_path / "dump_tensor_data"),
    )
    assert cli.main(["reproduce", str(path), name, "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert problem in error
    assert not list(tmp_path.rglob("*.py"))


@pytest.mark.parametrize("special", ["/dev/zero", "/dev/random"])
def test_a_dump_file_that_is_a_link_to_a_device(
    special: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump.json").symlink_to(special)
    assert cli.main(["reproduce", str(tmp_path), "Torch.mul.0", "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "dump.json" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_folder_that_cannot_be_written(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("a file")
    assert cli.main(["reproduce", str(dump), "Torch.mul.0", "-o", str(tmp_path / "out")]) == 2
    assert str(tmp_path / "out") in capsys.readouterr().err
