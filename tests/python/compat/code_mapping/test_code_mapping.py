# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""code_mapping of a graph that MindSpore 2.10 saved (Dense, ReLU, Dense, SGD), without MindSpore."""

from __future__ import annotations

import csv
import lzma
from pathlib import Path

import pytest
from msprobe.cli import main

GRAPH = Path(__file__).resolve().parents[3] / "data/mindspore/graph_build.ir.xz"
FORWARD = "Default_network-WithLossCell__backbone-Net_fc1-Dense_MatMul-op0"


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.ir"
    path.write_bytes(lzma.decompress(GRAPH.read_bytes()))
    return str(path)


def mapped(graph: str, data: Path, out: Path) -> list[dict[str, str]]:
    assert (
        main(
            ["-f", "mindspore", "code_mapping", "--ir", graph, "--dump_data", str(data), "--output", str(out)]
        )
        == 0
    )
    (path,) = out.glob("code_mapping_*.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tensors_are_mapped_to_lines(graph: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in (f"MatMul.{FORWARD}.0.0.17.output.0.npy", f"MatMul.{FORWARD}2.0.0.17.output.0.npy", "7.npy"):
        (data / name).write_bytes(b"")
    (data / "mapping.csv").write_text(f"7.npy,MatMul.{FORWARD}.0.0.18.input.0.npy\n")
    rows = {Path(row["File Path"]).name: row for row in mapped(graph, data, tmp_path / "out")}
    found = rows[f"MatMul.{FORWARD}.0.0.17.output.0.npy"]
    assert found["Scope Name"] == "Default/network-WithLossCell/_backbone-Net/fc1-Dense/MatMul-op0"
    lines = found["Code Stack"].splitlines()
    assert "In file train.py:9, 21~29/        h = ops.relu(self.fc1(x))" in lines
    assert rows["7.npy"]["Code Stack"] == found["Code Stack"]
    assert rows[f"MatMul.{FORWARD}2.0.0.17.output.0.npy"]["Scope Name"] == ""  # op02 is another kernel


def test_columns_are_added_to_tables_once(graph: str, tmp_path: Path) -> None:
    table = tmp_path / "dump/0/statistic.csv"
    table.parent.mkdir(parents=True)
    table.write_text(f"Op Type,Op Name,Max Value\nMatMul,{FORWARD},1.5\nMul,unknown,2\n")
    words = ["code_mapping", "--ir", graph, "--dump_data", str(tmp_path / "dump"), "--quiet"]
    for _ in range(2):
        assert main(words) == 0
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["Op Type", "Op Name", "Max Value", "Code Stack", "Scope Name"]
        assert rows[0]["Scope Name"].endswith("fc1-Dense/MatMul-op0")
        assert rows[0]["Max Value"] == "1.5"
        assert rows[1]["Code Stack"] == ""


def test_a_backward_kernel_has_the_lines_of_its_forward(tmp_path: Path) -> None:
    path = tmp_path / "graph.ir"
    path.write_text(
        'subgraph @kernel_graph0() {\n  %0(a) = PrimFunc_Exp(%p) cnode_primal_attrs: {unique_id: "5"}\n'
        "      : (<Tensor>) -> (<Tensor>)\n      # Fullname with scope: (Default/net-Net/Exp-op0)\n"
        "      # In file train.py:3, 8~20/        return ops.exp(x)/\n"
        '  %1(b) = PrimFunc_Mul(%0) cnode_primal_attrs: {forward_unique_id: "5"}\n'
        "      # Fullname with scope: (Gradients/Default/net-Net/Mul-op0)\n  Return(%1)\n}\n"
    )
    data = tmp_path / "Mul.Gradients_Default_net-Net_Mul-op0.1.npy"
    data.write_bytes(b"")
    (row,) = mapped(str(path), data, tmp_path / "out")
    assert row["Code Stack"] == "In file train.py:3, 8~20/        return ops.exp(x)"


@pytest.mark.parametrize(
    ("content", "data", "problem"),
    [
        (b"no graph", "x.npy", "graph.ir: expected a graph"),
        (b"\xff\xfe", "x.npy", "expected UTF-8 text"),
        (None, "other.txt", "expected .npy files or statistic.csv"),
        (None, "statistic.csv", 'expected a column "Op Name"'),
    ],
)
def test_bad_input_is_told(
    graph: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    data: str,
    problem: str,
) -> None:
    if content is not None:
        Path(graph).write_bytes(content)
    (tmp_path / data).write_text("a,b\n1,2\n")
    words = [
        "code_mapping",
        "--ir",
        graph,
        "--dump_data",
        str(tmp_path / data),
        "--output",
        str(tmp_path / "out"),
    ]
    assert main(words) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
