# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A dump of MindSpore against one of PyTorch: by Cells (-cm), by functions (-am)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from msprobe.cli import main
from msprobe.compare.framework_names import of_functions, read_function_rules
from msprobe.native import InvalidArgument

GAMMA = {"mindspore": "gamma", "pytorch": "weight"}


def tensor(framework: str, value: float) -> dict[str, Any]:
    dtype = "Float32" if framework == "mindspore" else "torch.float32"
    kind = "mindspore.Tensor" if framework == "mindspore" else "torch.Tensor"
    return {"type": kind, "dtype": dtype, "shape": [2], "Max": value, "Min": 0.0, "Mean": 0.5, "Norm": 1.0}


def dump(folder: Path, framework: str, names: list[str], result: float = 1.0) -> Path:
    """result: of the first call."""

    def record(name: str) -> dict[str, Any]:
        one = tensor(framework, 1.0)
        if name.endswith("parameters_grad"):
            return {"weight": [one]}
        output = tensor(framework, result) if name == names[0] else one
        parameters = {"parameters": {GAMMA[framework]: one}} if "Norm" in name else {}
        return {"input_args": [one], "input_kwargs": {}, "output": [output], **parameters}

    folder.mkdir(exist_ok=True)
    data = {name: record(name) for name in names}
    head = {"task": "statistics", "level": "mix", "framework": framework, "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    return folder / "dump.json"


def rows(output: Path) -> dict[str, str]:
    """Name in MindSpore -> name in PyTorch."""
    import csv

    (table,) = output.glob("compare_result_*.csv")
    with table.open(encoding="utf-8-sig", newline="") as file:
        return {row["NPU Name"]: row["Bench Name"] for row in csv.DictReader(file)}


def compared(tmp_path: Path, ours: list[str], theirs: list[str], *options: str) -> dict[str, str]:
    target = dump(tmp_path / "target", "mindspore", ours)
    reference = dump(tmp_path / "reference", "pytorch", theirs)
    words = [str(reference), str(target), "-o", str(tmp_path / "out"), "--format", "csv", "--quiet", *options]
    assert main(["-f", "mindspore", "compare", *words]) in (0, 1)
    return rows(tmp_path / "out")


def test_cells_are_modules_of_the_same_path_or_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "cells.yaml").write_text("fc1.Dense: fc1.Linear\n")
    ours = ["Cell.fc1.Dense.forward.0", "Cell.fc1.Dense.parameters_grad", "Cell.act.ReLU.forward.0"]
    theirs = ["Module.fc1.Linear.forward.0", "Module.fc1.Linear.parameters_grad", "Module.act.ReLU.forward.0"]
    found = compared(tmp_path, ours, theirs, "-cm", str(tmp_path / "cells.yaml"))
    assert found["Cell.fc1.Dense.forward.0.input.0"] == "Module.fc1.Linear.forward.0.input.0"
    assert found["Cell.act.ReLU.forward.0.output.0"] == "Module.act.ReLU.forward.0.output.0"
    weight = "Cell.fc1.Dense.parameters_grad.weight"
    assert found[weight] == weight.replace("Cell.fc1.Dense", "Module.fc1.Linear")


LAYERS = """
TopLayer:
  network: module
Block:
  attention.qkv: attention.query_key_value
ParallelMLP:
  mapping: dense_h_to_4h(Linear)
"""


@pytest.mark.parametrize("first", ["TopLayer", "Cell"])
def test_layers_are_paired_by_their_places(tmp_path: Path, first: str) -> None:
    (tmp_path / "layers.yaml").write_text(LAYERS.replace("TopLayer", first))
    ours = [
        "Cell.network.block.attention.qkv.Dense.forward.0",
        "Functional.relu.0.forward",
        "Cell.network.block.mlp.mapping.Dense.forward.0",
        "Mint.square.0.forward",
        "Functional.relu.1.forward",
        "Cell.network.block.mlp.ParallelMLP.forward.0",
        "Cell.network.block.Block.forward.0",
        "Cell.network.block.mlp.mapping.Dense.parameters_grad",
        "Cell.network.block.mlp.norm.LayerNorm.forward.0",
    ]
    theirs = [
        "Module.module.block.attention.query_key_value.Linear.forward.0",
        "Functional.relu.0.forward",  # of the block itself, which MindSpore's has not
        "Functional.relu.1.forward",
        "Module.module.block.mlp.dense_h_to_4h.Linear.forward.0",
        "Functional.relu.2.forward",
        "Module.module.block.mlp.MLP.forward.0",
        "Module.module.block.Block.forward.0",
        "Module.module.block.mlp.dense_h_to_4h.Linear.parameters_grad",
        "Module.module.block.mlp.norm.LayerNorm.forward.0",
    ]
    inside = "Cell.network.block.mlp.ParallelMLP.forward.0"
    there = "Module.module.block.mlp.MLP.forward.0"
    parents = [
        dict.fromkeys(ours, None)
        | dict.fromkeys(("Functional.relu.0.forward", "Functional.relu.1.forward"), inside),
        dict.fromkeys(theirs, None)
        | {"Functional.relu.0.forward": "Module.module.block.Block.forward.0"}
        | dict.fromkeys(("Functional.relu.1.forward", "Functional.relu.2.forward"), there),
    ]
    for side, content in zip(("target", "reference"), parents):
        (tmp_path / side).mkdir()
        (tmp_path / side / "construct.json").write_text(json.dumps(content))
    found = compared(tmp_path, ours, theirs, "-lm", str(tmp_path / "layers.yaml"))
    pairs = {
        name.removesuffix(".output.0"): other for name, other in found.items() if name.endswith(".output.0")
    }
    assert pairs["Cell.network.block.attention.qkv.Dense.forward.0"] == f"{theirs[0]}.output.0"
    assert pairs["Functional.relu.0.forward"] == "Functional.relu.1.forward.output.0"
    assert pairs["Functional.relu.1.forward"] == "Functional.relu.2.forward.output.0"
    assert pairs["Cell.network.block.mlp.mapping.Dense.forward.0"] == f"{theirs[3]}.output.0"
    assert pairs["Cell.network.block.mlp.ParallelMLP.forward.0"] == f"{theirs[5]}.output.0"
    assert pairs.get("Mint.square.0.forward") in (None, "N/A")
    gradient = "Cell.network.block.mlp.mapping.Dense.parameters_grad.weight"
    assert found[gradient] == f"{theirs[7]}.weight"
    norm = "Cell.network.block.mlp.norm.LayerNorm.forward.0.parameters.gamma"
    assert found[norm] == f"{theirs[8]}.parameters.weight"


@pytest.mark.parametrize(
    ("run", "status", "first"),
    [("healthy", "rounding", ""), ("gelu", "differ", "gelu"), ("half", "differ", "fc1")],
)
def test_layers_of_a_real_pair_have_one_verdict(tmp_path: Path, run: str, status: str, first: str) -> None:
    """Functions that one framework has alone are not held against it."""
    unpack(Path(__file__).resolve().parents[2] / "data/mindspore/across.tar.xz", tmp_path)
    words = [str(tmp_path / "pytorch"), str(tmp_path / f"mindspore_{run}"), "-o", str(tmp_path / "out")]
    assert main(["compare", *words, "-lm", "--quiet"]) == (0 if status == "rounding" else 1)
    verdict = json.loads((tmp_path / "out/verdict.json").read_text())
    assert verdict["status"] == status
    assert first in "".join(one["name"] for one in verdict["culprits"][:1])


@pytest.mark.parametrize(("result", "code"), [(1.0, 0), (5.0, 1)])
def test_a_dump_of_msadapter_is_compared_by_the_names_of_pytorch(
    tmp_path: Path, result: float, code: int
) -> None:
    names = ["Module.fc.Linear.forward.0", "Torch.add.0.forward", "Functional.relu.0.forward"]
    target = dump(tmp_path / "target", "mindspore", names, result)
    target.write_text(target.read_text().replace('"framework": "mindspore"', '"framework": "mindtorch"'))
    reference = dump(tmp_path / "reference", "pytorch", names)
    assert main(["compare", str(reference), str(target), "-o", str(tmp_path / "out"), "--quiet"]) == code
    verdict = json.loads((tmp_path / "out/verdict.json").read_text())
    assert verdict["status"] == ("differ" if code else "equal")
    assert "Float32" not in json.dumps(verdict)
    for side in (target, reference):
        side.with_name("construct.json").write_text(json.dumps(dict.fromkeys(names)))
        side.with_name("stack.json").write_text("{}")
    graphs = ["graph", str(reference.parent), str(target.parent), "-o", str(tmp_path / "graph"), "--quiet"]
    assert main(graphs) in (0, 1)
    assert list((tmp_path / "graph").glob("compare_*.vis.db"))


def test_a_wrong_file_of_layers_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "layers.yaml").write_text("TopLayer: [a]\n")
    target = dump(tmp_path / "target", "mindspore", ["Cell.a.ReLU.forward.0"])
    reference = dump(tmp_path / "reference", "pytorch", ["Module.a.ReLU.forward.0"])
    words = [str(reference), str(target), "-lm", str(tmp_path / "layers.yaml"), "-o", str(tmp_path / "out")]
    assert main(["compare", *words]) == 2
    assert "layers.yaml" in capsys.readouterr().err


def test_functions_are_paired_by_the_table_and_by_a_file_before_it(tmp_path: Path) -> None:
    (tmp_path / "apis.yaml").write_text(
        "- ms_api: Functional.dense\n  pt_api: Functional.linear\n  ms_args: [0]\n  pt_args: [0]\n"
        "  ms_outputs: [0]\n  pt_outputs: [0]\n"
    )
    ours = ["Functional.abs.0.forward", "Mint.add.0.forward", "Functional.dense.0.forward"]
    theirs = ["Torch.abs.0.forward", "Torch.add.0.forward", "Functional.linear.0.forward"]
    found = compared(tmp_path, ours, theirs, "-am", str(tmp_path / "apis.yaml"))
    assert [found[f"{name}.output.0"] for name in ours] == [f"{name}.output.0" for name in theirs]


def test_one_function_may_stand_alone(tmp_path: Path) -> None:
    rule = "ms_api: Functional.abs\npt_api: Torch.abs\nms_args: [0]\npt_args: [0]\n"
    (tmp_path / "apis.yaml").write_text(rule)
    assert [one.other for one in read_function_rules(tmp_path / "apis.yaml")] == ["Torch.abs"]


@pytest.mark.parametrize(("result", "status", "culprit"), [(1.0, "equal", []), (5.0, "differ", ["Norm"])])
def test_the_verdict_is_that_of_two_runs_of_one_framework(
    tmp_path: Path, result: float, status: str, culprit: list[str]
) -> None:
    """Names, dtypes and parameters of two frameworks are no difference."""
    ours = ["Cell.a.LayerNorm.forward.0", "Cell.fc.Dense.forward.0"]
    theirs = ["Module.a.LayerNorm.forward.0", "Module.fc.Linear.forward.0"]
    (tmp_path / "cells.yaml").write_text("fc.Dense: fc.Linear\n")
    target = dump(tmp_path / "target", "mindspore", ours, result)
    reference = dump(tmp_path / "reference", "pytorch", theirs)
    words = [str(reference), str(target), "-cm", str(tmp_path / "cells.yaml"), "-o", str(tmp_path / "out")]
    assert main(["compare", *words, "--quiet"]) == (0 if status == "equal" else 1)
    verdict = json.loads((tmp_path / "out/verdict.json").read_text())
    assert verdict["status"] == status
    found = [one["name"] for one in verdict["culprits"]]
    assert len(found) == len(culprit)
    assert all("Module.a.LayerNorm" in name for name in found)


def test_the_table_has_what_the_existing_tool_pairs() -> None:
    names = of_functions(None)
    assert len(names.functions) == 399
    record = "MintFunctional.relu.2.backward"
    assert names.other_name(f"{record}.input.0", record) == "Functional.relu.2.backward.input.0"
    assert (
        names.other_name("Tensor.x.0.forward.input.0", "Tensor.x.0.forward") == "Tensor.x.0.forward.input.0"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: b\n", "expected a list of functions"),
        ("- ms_api: A.a\n", '"pt_api": expected the name'),
        (
            "- {ms_api: A.a, pt_api: B.b, ms_args: [0, 1], pt_args: [0]}\n",
            "lists of equal length, found 2 and 1",
        ),
        ("- {ms_api: A.a, pt_api: B.b, ms_args: [0, 0], pt_args: [0, 1]}\n", "each position once"),
        ("- {ms_api: A.a, pt_api: B.b, ms_args: 0, pt_args: [0]}\n", "expected a list of positions"),
    ],
)
def test_a_wrong_file_of_functions_is_told(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "apis.yaml").write_text(text)
    with pytest.raises(InvalidArgument, match=sentence) as error:
        read_function_rules(tmp_path / "apis.yaml")
    assert "apis.yaml" in str(error.value)


def test_a_target_of_pytorch_is_no_target_of_cm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [str(dump(tmp_path / side, "pytorch", ["Torch.abs.0.forward"])) for side in ("a", "b")]
    assert main(["compare", *both, "-cm", "-o", str(tmp_path / "out")]) == 2
    assert "expected a dump of MindSpore as the target" in capsys.readouterr().err


def test_the_wrong_framework_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [str(dump(tmp_path / side, "mindspore", ["Functional.abs.0.forward"])) for side in ("a", "b")]
    assert main(["-f", "pytorch", "compare", *both, "-o", str(tmp_path / "out")]) == 0
    assert "was recorded of mindspore; -f is not needed" in capsys.readouterr().err
