# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run_overflow_check: calls of a dump are run again, and nothing else is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe import Error, FormatError, cli
from msprobe.compat.overflow_check.repetition import Outcome, check
from msprobe.replay.dump_file import Dump
from overflow_support import INF, call, tensor, unpacked, value, write_rank


def outcomes(data: dict[str, Any], folder: Path, **header: Any) -> dict[str, Outcome]:
    path = write_rank(folder, data, **header)
    return {verdict.api: verdict.outcome for verdict in check(Dump(str(path)), "cpu")}


@pytest.mark.parametrize("command", ["run_overflow_check", "overflow_check"])
def test_the_sample_of_the_existing_tool(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    path = unpacked("exp_sub", tmp_path) / "step0/rank/dump.json"
    words = ["-f", "pytorch", command, "-api_info", str(path), "-j", "true", "-d", "0"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "The Torch.exp.0 overflow is a normal overflow.",
        "The Torch.sub.0 overflow is a normal overflow.",
    ]


def test_what_overflows_in_half_precision_only_is_abnormal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    half = tensor(300.0, 300.0, dtype="torch.float16")
    full = tensor(300.0, 300.0)
    data = {
        "Torch.mul.0.forward": call([half, half], []),
        "Torch.mul.1.forward": call([full, full], []),
        "Torch.exp.0.forward": call([full], []),
        "Torch.gt.0.forward": call([full, value(1.0)], []),
        "Functional.softmax.0.forward": call([full], [], dim=value(0), dtype=None),
        "Tensor.masked_fill.0.forward": call(
            [full, tensor(True, False, dtype="torch.bool"), value(-INF)], []
        ),
        "Tensor.__setitem__.0.forward": call([half, value(0), value(1e9)], [None]),
        "Torch.load.0.forward": call([value("x")], []),
        "Torch.mm.0.forward": call([full, full], []),
        "Distributed.send.0.forward": call([full], []),
        "Module.fc.Linear.forward.0": call([full], []),
    }
    path = write_rank(tmp_path, data)
    assert cli.main(["run_overflow_check", "-api_info", str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1:] == [
        "The Torch.mul.0 overflow is an abnormal overflow.",
        "The Torch.mul.1 overflow is a normal overflow.",
        "The Torch.exp.0 overflow is a normal overflow.",
        "The output of Torch.gt.0 is bool type.This dtype not support overflow, so it will be skipped.",
        "The Functional.softmax.0 overflow is a normal overflow.",
        "The Tensor.masked_fill.0 overflow is a normal overflow.",
        "The Tensor.__setitem__.0 overflow is an abnormal overflow.",
    ]
    skipped = shown.err.splitlines()
    assert [line.split()[0] for line in skipped] == ["Torch.load.0", "Torch.mm.0"]


# ---- Hostile


class _Malicious:
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (Path("owned"),))


def test_a_pickle_in_place_of_a_tensor_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "rank/dump_tensor_data"
    folder.mkdir(parents=True)
    torch.save(_Malicious(), folder / "a.pt")
    (folder / "b.pt").write_bytes(pickle.dumps(_Malicious()))
    torch.save(torch.ones(2), tmp_path / "rank/outside.pt")
    names = ("a.pt", "b.pt", "missing.pt", "../outside.pt", str(tmp_path / "rank/outside.pt"), "..", "")
    data = {f"Torch.exp.{i}.forward": call([tensor(data_name=name)], []) for i, name in enumerate(names)}
    found = outcomes(data, tmp_path / "rank", dump_data_dir="x")
    assert set(found.values()) == {Outcome.SKIPPED}
    assert len(found) == len(names)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "element",
    [
        tensor(shape=[1 << 40]),
        tensor(shape=[1 << 20, 1 << 20]),
        tensor(shape=[-1]),
        tensor(dtype="torch.load"),
        tensor(dtype="float33"),
        tensor(Max=None),
        tensor(Max="1"),
        {"type": "torch.Size", "value": "x"},
        {"type": "slice", "value": [1, 2, 3, 4]},
        {"type": ["x"]},
        [[[[]]]],
    ],
)
def test_odd_elements_are_skipped(element: Any, tmp_path: Path) -> None:
    data = {"Torch.exp.0.forward": call([element], []), "Torch.exp.1.forward": call([tensor()], [])}
    assert list(outcomes(data, tmp_path).values()) == [Outcome.SKIPPED, Outcome.NORMAL]


@pytest.mark.parametrize("text", ["", "[]", '{"data": 1}', "{" * 100_000, "\xff"])
def test_files_that_are_no_dump(text: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError):
        Dump(str(path))
    assert cli.main(["run_overflow_check", "-api_info", str(path)]) == 2
    with pytest.raises(Error):
        Dump(str(tmp_path / "missing"))


def test_records_of_another_form_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    odd: dict[str, Any] = {"Torch.exp.forward": {}, ".forward": {}, "Torch.a.b.c.forward": {}}
    odd["Torch.exp.1.forward"] = {"input_args": 3}
    path.write_text(json.dumps({"data": odd}))
    verdicts = list(check(Dump(str(path)), "cpu"))
    assert {verdict.outcome for verdict in verdicts} == {Outcome.SKIPPED}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_device_against_the_cpu(tmp_path: Path) -> None:
    path = unpacked("exp_sub", tmp_path) / "step0/rank/dump.json"
    verdicts = list(check(Dump(str(path)), "cuda:0"))
    assert [verdict.outcome for verdict in verdicts] == [Outcome.NORMAL, Outcome.NORMAL]
