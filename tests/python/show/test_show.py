# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe show: every kind of file, the numbers of tensors, and files that are damaged."""

from __future__ import annotations

import json
import math
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from archives import unpack
from msprobe.cli import main
from msprobe.tensors.content import Content
from msprobe.tensors.measuring import measure

DATA = Path(__file__).resolve().parents[2] / "data"


def show(*arguments: object) -> int:
    try:
        return main(["show", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def text() -> str:
        return capsys.readouterr().out

    return text


@pytest.fixture
def as_json(said: Any) -> Any:
    def ask(*arguments: object) -> dict[str, Any]:
        assert show(*arguments, "--json") == 0
        content: dict[str, Any] = json.loads(said())
        return content

    return ask


# ---- tensors


def content_of(array: Any, dtype: str | None = None) -> Content:
    return Content("x", dtype or str(array.dtype), array.shape, array)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint8])
def test_statistics_and_histogram_are_those_of_numpy(dtype: Any) -> None:
    x = (np.random.default_rng(1).normal(size=(50, 33)) * 40).astype(dtype)
    found = measure(content_of(x), bins=10, first=5)
    statistics, wide = found.statistics, x.astype(np.float64)
    assert statistics["min"] == wide.min()
    assert statistics["max"] == wide.max()
    assert statistics["mean"] == pytest.approx(wide.mean(), rel=1e-6, abs=1e-6)
    assert statistics["std"] == pytest.approx(wide.std(), rel=1e-6)
    assert statistics["norm"] == pytest.approx(np.linalg.norm(wide), rel=1e-6)
    assert found.first == wide.ravel()[:5].tolist()
    assert found.histogram is not None
    counts = found.histogram.counts
    assert sum(counts) == x.size
    borders = found.histogram.borders
    wanted = [int(((wide > low) & (wide <= high)).sum()) for low, high in zip(borders, borders[1:])]
    wanted[0] += int((wide == wide.min()).sum())
    assert counts == wanted


def test_histogram_of_what_is_not_finite() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1, 2, 3, 3], dtype=np.float32)
    found = measure(content_of(x), bins=2)
    assert found.histogram is not None
    assert found.histogram.borders == [1, 2, 3]
    assert found.histogram.counts == [2, 2]
    assert math.isnan(found.statistics["mean"])


@pytest.mark.parametrize("values", [[], [5.0], [5.0, 5.0], [float("nan")], [1e-300, 1e300], [0.0, 1e-45]])
def test_histogram_of_few_values(values: list[float]) -> None:
    x = np.array(values)
    found = measure(content_of(x))
    finite = np.isfinite(x)
    if not finite.any():
        assert found.histogram is None
    else:
        assert found.histogram is not None
        assert sum(found.histogram.counts) == finite.sum()


def test_bfloat16(tmp_path: Path, as_json: Any) -> None:
    x = torch.randn(40, 50).bfloat16()
    torch.save(x, tmp_path / "x.pt")
    found = as_json(tmp_path / "x.pt")
    assert (found["kind"], found["dtype"], found["shape"]) == ("tensor", "bfloat16", [40, 50])
    assert found["statistics"]["max"] == x.max().item()
    assert sum(found["histogram"]["counts"]) == 2000


# ---- kinds of files


def test_npy(tmp_path: Path, said: Any) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    assert show(tmp_path / "a.npy") == 0
    text = said()
    assert "float32 [2, 3], 6 elements, 24 bytes" in text
    assert "min 0  max 5  mean 2.5" in text


def test_file_of_torch_save(tmp_path: Path, said: Any, as_json: Any) -> None:
    value = {"model": {"w": torch.arange(4.0), "b": torch.zeros(2)}, "step": 5, "more": [torch.ones(1)]}
    torch.save(value, tmp_path / "a.pt")
    listing = as_json(tmp_path / "a.pt")
    assert [one["name"] for one in listing["entries"]] == ["model.w", "model.b", "more.0"]
    assert as_json(tmp_path / "a.pt", "model.w")["statistics"]["max"] == 3
    assert as_json(tmp_path / "a.pt", "step")["value"] == "5"
    assert [one["name"] for one in as_json(tmp_path / "a.pt", "model.*")["entries"]] == ["model.w", "model.b"]
    assert show(tmp_path / "a.pt", "model.x") == 2


def test_weights_as_a_list_of_names_and_tensors(tmp_path: Path, as_json: Any) -> None:
    torch.save([("layer.w", torch.ones(2)), ("layer.b", torch.zeros(1))], tmp_path / "a.pt")
    assert [one["name"] for one in as_json(tmp_path / "a.pt")["entries"]] == ["layer.w", "layer.b"]


def test_nothing_in_a_file_is_run(tmp_path: Path, said: Any) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "touched",))

    torch.save({"a": torch.ones(1), "evil": Evil()}, tmp_path / "a.pt")
    assert show(tmp_path / "a.pt") == 0
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("name", ["a_tp2_pp2", "e_te_tp2", "f_glu_tp2"])
def test_checkpoints(tmp_path: Path, as_json: Any, name: str) -> None:
    unpack(DATA / "checkpoint/samples.tar.xz", tmp_path, lambda member: member.name.startswith(name))
    listing = as_json(tmp_path / name)
    assert listing["kind"] == "checkpoint"
    entry = listing["entries"][0]
    tensor = as_json(tmp_path / name, entry["name"])
    assert tensor["shape"] == entry["shape"]
    assert math.isfinite(tensor["statistics"]["norm"])


def test_a_parameter_of_several_files_is_put_together(tmp_path: Path, as_json: Any) -> None:
    full = torch.arange(24.0).reshape(6, 4)
    for rank in range(2):
        shard = full[rank * 3 : rank * 3 + 3].clone()
        folder = tmp_path / "iter_0000001" / f"mp_rank_{rank:02d}"
        folder.mkdir(parents=True)
        model = {"decoder.layers.0.self_attention.linear_qkv.weight": shard}
        torch.save({"model": model, "iteration": 1, "checkpoint_version": 3.0}, folder / "model_optim_rng.pt")
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("1")
    (entry,) = as_json(tmp_path)["entries"]
    assert entry["shape"] == [6, 4]
    found = as_json(tmp_path, entry["name"])
    assert found["first"] == list(range(8))
    assert found["statistics"]["max"] == 23


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """One step of a dump with tensors, made by mindstudio-probe."""
    unpack(DATA / "dump/debug_tensor.tar.gz", tmp_path)
    return next(tmp_path.rglob("debug.json")).parent


def test_dumps(dump: Path, said: Any, as_json: Any) -> None:
    listing = as_json(dump)
    assert listing["kind"] == "dump"
    assert "nested.0.debug" in [one["name"] for one in listing["entries"]]
    record = as_json(dump / "debug.json", "nested.0.debug")
    assert [item["name"] for item in record["items"] if "data_name" in item] == ["a", "b.0", "t.0", "t.1"]
    assert as_json(dump, "nested.0.debug.t.1")["kind"] == "tensor"
    assert as_json(dump, "y.0.debug")["kind"] == "tensor"  # the only one of its record
    assert show(dump, "nested.0.debug.nothing") == 2
    run = dump.parents[1]
    assert show(run, "--step", "0") == 0
    assert "a dump of pytorch" in said()
    assert show(run, "--step", "77") == 2


def test_records_with_their_stacks(tmp_path: Path, said: Any, as_json: Any) -> None:
    unpack(DATA / "dump/module_dump_L1.tar.gz", tmp_path)
    rank = next(tmp_path.rglob("dump.json")).parent
    name = as_json(rank)["entries"][0]["name"]
    assert as_json(rank, name)["stack"] == as_json(rank / "stack.json", name)["stack"] != []
    assert show(rank, name) == 0
    assert "called from:" in said()


def test_hierarchy(tmp_path: Path, as_json: Any) -> None:
    parents = {"Module.a.A.forward.0": None, "Module.a.b.B.forward.0": "Module.a.A.forward.0"}
    (tmp_path / "construct.json").write_text(json.dumps(parents))
    found = as_json(tmp_path / "construct.json")
    assert (found["kind"], len(found["entries"])) == ("hierarchy", 2)
    assert as_json(tmp_path / "construct.json", "Module.a.A.forward.0")["children"] == [
        "Module.a.b.B.forward.0"
    ]
    assert as_json(tmp_path / "construct.json", "Module.a.b.B.forward.0")["parents"] == [
        "Module.a.A.forward.0"
    ]


def test_a_name_that_leads_out_of_the_dump_is_not_followed(tmp_path: Path, as_json: Any) -> None:
    np.save(tmp_path / "secret.npy", np.ones(1))
    rank = tmp_path / "step0/rank0"
    rank.mkdir(parents=True)
    item = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1, "Min": 1, "Mean": 1,
            "Norm": 1, "data_name": "../../../secret.npy"}  # fmt: skip
    data = {"Torch.add.0.forward": {"input_args": [item], "input_kwargs": {}, "output": []}}
    (rank / "dump.json").write_text(json.dumps({"task": "tensor", "level": "L1", "data": data}))
    assert as_json(rank, "Torch.add.0.forward.input.0")["kind"] == "entry"


def test_packs(tmp_path: Path, as_json: Any) -> None:
    with zipfile.ZipFile(tmp_path / "pack.zip", "w") as pack:
        pack.writestr("env", json.dumps({"A": "1"}))
        pack.writestr("pip", "torch==1\n")
    assert [one["name"] for one in as_json(tmp_path / "pack.zip")["entries"]] == ["env", "pip"]
    assert as_json(tmp_path / "pack.zip", "env")["content"] == {"A": "1"}
    assert show(tmp_path / "pack.zip", "nothing") == 2


def test_databases(tmp_path: Path, as_json: Any, said: Any) -> None:
    database = sqlite3.connect(tmp_path / "a.vis.db")
    database.execute(
        "CREATE TABLE tb_nodes (node_name TEXT, up_node TEXT, step INT, rank INT, input_data TEXT)"
    )
    database.execute("INSERT INTO tb_nodes VALUES ('Module.a', 'root', 0, 0, '{\"x\": 1}')")
    database.commit()
    database.close()
    assert as_json(tmp_path / "a.vis.db")["entries"] == [{"name": "tb_nodes", "rows": 1}]
    (row,) = as_json(tmp_path / "a.vis.db", "Module.a")["rows"]
    assert row["input_data"] == {"x": 1}
    assert as_json(tmp_path / "a.vis.db", "Module.*")["entries"] == [{"name": "Module.a"}]
    assert show(tmp_path / "a.vis.db", "tb_nodes") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a.vis.db"]


def test_key_data_of_reinforcement_learning(tmp_path: Path, as_json: Any) -> None:
    folder = tmp_path / "data/x/step0/rank0/micro_step0"
    folder.mkdir(parents=True)
    np.save(folder / "x.npy", np.ones(2))
    assert as_json(tmp_path)["entries"] == [{"name": "x", "arrays": 1, "steps": 1}]
    (file,) = as_json(tmp_path, "x")["files"]
    assert as_json(tmp_path, file)["statistics"]["max"] == 1
    assert show(tmp_path, "../secret.npy") == 2


def test_the_configuration_of_a_kernel_dump(tmp_path: Path, said: Any) -> None:
    content = {"dump": {"dump_list": [], "dump_path": "/x", "dump_mode": "all", "dump_op_switch": "on"}}
    (tmp_path / "kernel_config_0.json").write_text(json.dumps(content, indent=4))
    assert show(tmp_path / "kernel_config_0.json") == 0
    assert "the configuration of a kernel dump (level L2)" in said()
    assert show(tmp_path / "kernel_config_0.json", "dump.dump_mode") == 0
    assert '"all"' in said()


def test_a_kernel_dump(tmp_path: Path, as_json: Any, capsys: pytest.CaptureFixture[str]) -> None:
    step = tmp_path / "step0"
    (step / "20241201103000/0").mkdir(parents=True)
    (step / "20241201103000/0/MatMul.name.1.2.3").write_bytes(b"binary")
    (step / "kernel_config_0.json").write_text('{"dump": {}}')
    names = [one["name"] for one in as_json(step)["entries"]]
    assert names == ["20241201103000/0/MatMul.name.1.2.3", "kernel_config_0.json"]
    assert as_json(step, "kernel_config_0.json")["value"] == {"dump": {}}
    assert show(step, names[0]) == 2
    assert f"msprobe parse dc -n {step / names[0]}" in capsys.readouterr().err
    assert main(["compare", str(step), str(step), "-o", str(tmp_path / "out")]) == 2
    assert "a kernel dump (level L2) in the format of the vendor" in capsys.readouterr().err


def test_a_long_list_is_cut(tmp_path: Path, said: Any) -> None:
    torch.save({f"w{i}": torch.zeros(1) for i in range(100)}, tmp_path / "a.pt")
    show(tmp_path / "a.pt")
    text = said()
    assert "and 60 more (--all)" in text
    assert len(text.splitlines()) == 42
    show(tmp_path / "a.pt", "--all")
    assert len(said().splitlines()) == 101


# ---- what is wrong


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.npy", b"\x93NUMPY\x01\x00", "a.npy"),
        ("a.npy", b"", "a.npy"),
        ("a.pt", b"PK\x03\x04", "a.pt"),
        ("a.pt", b"x" * 100, "a.pt"),
        ("a.safetensors", b"\xff" * 8, "a.safetensors"),
        ("dump.json", b"{", "dump.json"),
        ("stack.json", b"[]", "stack.json"),
        ("a.json", b"{", "a.json: expected JSON"),
        ("a.zip", b"PK", "a.zip: expected a pack"),
        ("a.vis.db", b"SQLite format 3\0" + b"\xff" * 200, "a.vis.db"),
        ("a.txt", b"hello", "a.txt: expected a .npy, .pt"),
    ],
)
def test_damaged_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(data)
    assert show(tmp_path / name) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert "a fault of msprobe" not in error
    assert len(error.splitlines()) == 1


def test_what_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.npy")
    for path in (tmp_path / "absent", tmp_path / "pipe.npy", tmp_path):
        assert show(path) == 2
    assert "a fault of msprobe" not in capsys.readouterr().err


def test_names_with_control_characters_do_not_reach_the_terminal(tmp_path: Path, said: Any) -> None:
    torch.save({"a\x1b[31m\nb": torch.ones(1)}, tmp_path / "a.pt")
    assert show(tmp_path / "a.pt") == 0
    assert "\x1b" not in said()


def test_a_table_is_shown_by_its_first_column(tmp_path: Path, as_json: Any) -> None:
    (tmp_path / "losses.rank0.csv").write_text('step,loss,"a, b"\n0,2.5,x\n1,2.25,"y\nz"\n')
    assert [one["name"] for one in as_json(tmp_path / "losses.rank0.csv")["entries"]] == ["0", "1"]
    assert as_json(tmp_path / "losses.rank0.csv", "1")["a, b"] == "y\nz"
    (tmp_path / "empty.csv").write_text("")
    assert as_json(tmp_path / "empty.csv")["entries"] == []
    (tmp_path / "marked.csv").write_text("API Name,b\nx,1\n", encoding="utf-8-sig")
    assert as_json(tmp_path / "marked.csv", "x")["API Name"] == "x"
    (tmp_path / "long.csv").write_text("a,b\nx," + "y" * 200_000 + "\n")
    assert len(as_json(tmp_path / "long.csv", "x")["b"]) == 200_000
