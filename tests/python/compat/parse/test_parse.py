# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe parse: the prompt, its commands, and the vendor's converter, whose place a script takes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msprobe.cli import main


def parse(*arguments: object) -> int:
    try:
        return main(["-f", "pytorch", "parse", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def arrays() -> tuple[Any, Any]:
    """a.npy and b.npy, which differ in ten elements."""
    a = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    b = a.copy()
    b.ravel()[::4] += 0.5
    np.save("a.npy", a)
    np.save("b.npy", b)
    return a, b


def at_the_prompt(*lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "msprobe", "-f", "pytorch", "parse"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_prompt_from_a_pipe(arrays: tuple[Any, Any]) -> None:
    a, _ = arrays
    done = at_the_prompt("pt -n a.npy", "cn -m a.npy -g b.npy -p 5", "nothing", "pt", "!echo from the shell")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert f"[Shape: (8, 5)] [Dtype: float32] [Max: {a.max():.7g}] [Min: {a.min():.7g}]" in done.stdout
    assert "expected one that begins with cad/vc/dc/pk/cn/pt, found 'nothing'" in done.stdout
    assert "pt: the following arguments are required: -n/--name" in done.stdout
    assert "from the shell" in done.stdout
    assert "AllClose: False" in done.stdout
    assert "ErrorPer: 0.25  (rl= 0.001, al= 0.001)" in done.stdout
    assert Path("parse_data").is_dir()


def test_an_error_does_not_end_the_prompt(arrays: tuple[Any, Any]) -> None:
    Path("bad.npy").write_bytes(b"\x93NUMPY")
    done = at_the_prompt("pt -n bad.npy", "pt -n 'a", "pt -n absent.npy", "exit", "pt -n a.npy")
    assert done.returncode == 0
    assert "error: bad.npy" in done.stdout
    assert "error: No closing quotation" in done.stdout
    assert "error: absent.npy: expected a .npy file" in done.stdout
    assert "Shape" not in done.stdout  # after exit


def test_pt_writes_the_array_as_text(arrays: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert parse("pt", "-n", "a.npy") == 0
    np.savetxt("wanted.txt", arrays[0], delimiter=" ", fmt="%g")
    assert Path("a.npy.txt").read_text() == Path("wanted.txt").read_text()
    Path("a.npy.txt").write_text("mine")
    assert parse("pt", "-n", "a.npy") == 0
    assert Path("a.npy.txt").read_text() == "mine"
    torch.save(torch.arange(3).bfloat16(), "t.pt")
    assert parse("pt", "-n", "t.pt") == 0
    assert "[Dtype: bfloat16] [Max: 2] [Min: 0] [Mean: 1]" in capsys.readouterr().out
    np.save("scalar.npy", np.float32(2.5))
    np.save("empty.npy", np.zeros((0, 2)))
    assert parse("pt", "-n", "scalar.npy") == 0
    assert parse("pt", "-n", "empty.npy") == 0
    assert Path("scalar.npy.txt").read_text() == "2.5\n"


def test_cn_names_the_elements_that_are_wrong(
    arrays: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = arrays
    assert parse("cn", "-m", "a.npy", "-g", "b.npy", "-p", "5", "-s") == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("Error Item Table") + 2 :][:5]
    assert [int(line.split()[0]) for line in table] == [0, 4, 8, 12, 16]
    assert [float(line.split()[1]) for line in table] == pytest.approx(a.ravel()[:20:4], rel=1e-6)
    assert [float(line.split()[3]) for line in table] == pytest.approx([0.5] * 5, rel=1e-5)
    top = lines[lines.index("Top Item Table") + 2 :][:5]
    assert [float(line.split()[2]) for line in top] == pytest.approx(b.ravel()[:5], rel=1e-6)
    cosine = float(next(line for line in lines if line.startswith("CosSim")).split()[1])
    wanted = a.ravel().astype(float) @ b.ravel() / np.linalg.norm(a) / np.linalg.norm(b)
    assert cosine == pytest.approx(wanted, rel=1e-6)
    assert Path("a.npy.txt").exists()
    assert Path("b.npy.txt").exists()


def test_cn_of_other_sizes(arrays: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    np.save("short.npy", arrays[0].ravel()[:10])
    assert parse("cn", "-m", "a.npy", "-g", "short.npy") == 0
    text = capsys.readouterr().out
    assert "filled up with zeros: 40 and 10 elements" in text
    assert "NumCnt:   40" in text


def test_pk(capsys: pytest.CaptureFixture[str]) -> None:
    item = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 3.0, "Min": 1.0,
            "Mean": 2.0, "Norm": 4.0, "requires_grad": False}  # fmt: skip
    record = {"input_args": [item], "input_kwargs": {}, "output": [item]}
    names = ["Functional.conv2d.0.forward", "Functional.conv2d.0.backward", "Functional.conv2d.01.forward"]
    data = {name: record for name in names}
    Path("dump.json").write_text(json.dumps({"task": "statistics", "level": "L1", "data": data}))
    Path("stack.json").write_text(json.dumps({"0": [[names[0]], ["File a.py, line 3, in f, \n x = 1"]]}))
    assert parse("pk", "-f", "dump.json", "-n", names[0]) == 0
    text = capsys.readouterr().out
    assert f"[{names[0]}.input.0][dtype: torch.float32][shape: [2]][max: 3.0][min: 1.0][mean: 2.0]" in text
    assert "File a.py, line 3, in f, x = 1" in text
    assert names[1] not in text
    assert parse("pk", "-f", "dump.json", "-n", "Functional_conv2d_0") == 0
    text = capsys.readouterr().out
    assert names[1] in text
    assert names[2] not in text
    assert parse("pk", "-f", "dump.json", "-n", "Functional.relu.0") == 2


def tree(name: str, *files: tuple[str, Any]) -> str:
    for path, array in files:
        target = Path(name) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        np.save(target, array)
    return name


def test_vc_of_converted_dumps() -> None:
    a = np.arange(1, 7, dtype=np.float32)
    mine = tree("mine", ("op1/111/Add.op1.1.1.111.output.0.npy", a), ("op2/111/Mul.npy", a * 2))
    golden = tree("golden", ("op1/222/Add.op1.1.1.222.output.0.npy", a + 1), ("op2/222/Mul.npy", a * 2))
    assert parse("vc", "-m", mine, "-g", golden) == 0
    (path,) = Path("parse_data/batch_compare_result").glob("batch_compare_*.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {
        "NPU File Name": "Add.op1.1.1.111.output.0.npy",
        "Bench File Name": "Add.op1.1.1.222.output.0.npy",
        "Mean": "3.5",
        "Bench Mean": "4.5",
        "Md5 Consistency": "False",
        "Max Abs Error": "1.0",
        "Max Relative Error": "0.5",
    }
    assert (rows[1]["Md5 Consistency"], rows[1]["Max Abs Error"]) == ("True", "0.0")
    assert parse("vc", "-m", mine, "-g", golden, "-out", "elsewhere") == 0
    assert len(list(Path("elsewhere").iterdir())) == 1


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([("other/1/a.npy", np.ones(1))], "expected the same operators, found op and other"),
        ([("op/1/a.npy", np.ones(1)), ("op/1/b.npy", np.ones(1))], "expected as many files, found 1 and 2"),
        ([("op/1/a.npy", np.ones(1)), ("op/2/b.npy", np.ones(1))], "expected as many folders, found 1 and 2"),
    ],
)
def test_vc_of_trees_of_other_forms(capsys: pytest.CaptureFixture[str], files: Any, reason: str) -> None:
    mine, golden = tree("mine", ("op/1/a.npy", np.ones(1))), tree("golden", *files)
    assert parse("vc", "-m", mine, "-g", golden) == 2
    assert reason in capsys.readouterr().err
    assert not list(Path().rglob("*.csv"))


def test_vc_of_one_folder(capsys: pytest.CaptureFixture[str]) -> None:
    mine = tree("mine", ("op/1/a.npy", np.ones(1)))
    assert parse("vc", "-m", mine, "-g", "./mine") == 2
    assert "expected two folders" in capsys.readouterr().err


CONVERTER = """
import os, sys
print("converter", *sys.argv[1:])
out = sys.argv[sys.argv.index("-out") + 1]
if sys.argv[1] == "convert":
    name = os.path.basename(sys.argv[sys.argv.index("-d") + 1])
    open(os.path.join(out, name + ".output.0.npy"), "w").close()
sys.exit(3 if "fail" in sys.argv else 0)
"""


@pytest.fixture
def converter() -> str:
    Path("msaccucmp.py").write_text(CONVERTER)
    return "msaccucmp.py"


def test_commands_that_need_the_converter(converter: str, capfd: pytest.CaptureFixture[str]) -> None:
    dump = Path("dump/272/TransData.trans_22.112.21.948645536672764")
    dump.parent.mkdir(parents=True)
    dump.write_bytes(b"binary")
    assert parse("cad", "-m", "dump", "-asc", converter) == 0
    (array,) = Path("parse_data/batch_dump_convert").rglob("*.npy")
    assert array.parent.parts[-2:] == ("trans_22", "948645536672764")
    assert parse("dc", "-n", str(dump), "-f", "NCHW", "-cmp_path", converter) == 0
    assert list(Path("parse_data/dump_convert").iterdir())
    assert parse("vc", "-m", "dump", "-g", "dump", "-cmp_path", converter) == 0
    said = capfd.readouterr().out
    assert f"converter convert -d {dump} -out parse_data/dump_convert -f NCHW" in said
    assert "converter compare -m dump -g dump -out parse_data/compare_result" in said
    assert parse("dc", "-n", str(dump), "-f", "fail", "-cmp_path", converter) == 2


@pytest.mark.parametrize("command", ["cad -m {}", "dc -n {}", "vc -m {} -g {}"])
def test_without_the_converter_the_file_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    Path("dump").mkdir()
    Path("dump/a.b.1.2.3").write_bytes(b"x")
    assert parse(*command.format("dump", "dump").split()) == 2
    error = capsys.readouterr().err
    assert (
        "there is no /usr/local/Ascend/ascend-toolkit/latest/tools/operator_cmp/compare/msaccucmp.py" in error
    )
    assert (
        parse(*command.format("dump", "dump").split(), "-asc" if command[0] == "c" else "-cmp_path", "x.py")
        == 2
    )
    assert "x.py: expected the path of msaccucmp.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["cn", "-m", "a.npy", "-g", "absent.npy"], "absent.npy: expected a .npy file"),
        (["cn", "-m", "a.npy", "-g", "b.npy", "-p", "0"], "expected a number from 1 to 1000000, found '0'"),
        (["cn", "-m", "a.npy", "-g", "b.npy", "-al", "-1"], "expected a number above 0, found '-1'"),
        (["pt", "-n", "."], ".: expected a .npy file"),
        (["what"], "expected one that begins with cad/vc/dc/pk/cn/pt, found 'what'"),
        (["pk", "-f", "absent", "-n", "x"], "absent does not exist"),
    ],
)
def test_wrong_words(
    arrays: tuple[Any, Any], capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert parse(*words) == 2
    assert reason in capsys.readouterr().err


def test_completion_of_commands_and_files(arrays: tuple[Any, Any]) -> None:
    from msprobe.compat.parse.command import _Prompt

    Path("folder").mkdir()
    prompt = _Prompt()
    assert prompt.completenames("c") == ["cad", "cn"]
    assert prompt.completedefault("a", "pt -n a", 6, 7) == ["a.npy"]
    assert prompt.completedefault("fol", "pt -n ./fol", 8, 11) == ["folder/"]
