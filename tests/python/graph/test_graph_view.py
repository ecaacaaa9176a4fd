# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.graph from Python: nodes of one run and of two; and the numbers in cells against Python's own."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from graph_support import (
    BLOCK,
    CONSTRUCT,
    LINEAR,
    call,
    records,
    result_in,
    select,
    tensor,
    write_rank,
)
from msprobe import FormatError, InvalidArgument, IoError, graph

NODES = len(CONSTRUCT) + 2  # the root, and the collection of two calls


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """golden; other is off in the relu, a little in the linear, and has one call more."""
    write_rank(tmp_path / "golden")
    data = {**records(relu=0.9, linear=0.1001), "Torch.new.0.forward": call()}
    write_rank(tmp_path / "other", data, {**CONSTRUCT, "Torch.new.0.forward": None})
    return tmp_path


# ---- one run


def test_a_graph_is_a_sequence_of_nodes_children_first(runs: Path) -> None:
    view = graph.build(runs / "golden")
    assert len(view) == NODES
    assert [node.name for node in view] == [node.name for node in view.nodes]
    place = {node.name: index for index, node in enumerate(view)}
    for node in view:
        assert all(place[child.name] < place[node.name] for child in node.children)
        assert all(child.parent == node for child in node.children)
    assert view.nodes[-1] == view.root
    assert view.mode is None


def test_a_node_knows_what_the_run_recorded(runs: Path) -> None:
    view = graph.build(runs / "golden")
    linear = view.find(LINEAR)
    assert linear is not None
    assert (linear.kind, linear.micro_step) == ("module", 0)
    assert linear.parent is not None
    assert linear.parent.name == BLOCK
    assert [(child.name, child.kind) for child in linear.children] == [
        ("Functional.linear.0.forward", "call")
    ]
    assert linear.stack == ["File model.py, line 3, in forward, \n fc(x)"]
    assert linear.parameters[f"{LINEAR}.input.0"]["shape"] == "[2, 3]"
    assert [*linear.parameters] == [f"{LINEAR}.input.0", f"{LINEAR}.output.0"]
    assert (linear.match, linear.how, linear.reason, linear.index, linear.output_ulps) == (None,) * 5
    assert repr(linear) == f"<GraphNode {LINEAR}>"
    assert view.find("nothing") is None
    assert view.root.parent is None
    assert view.find("Apis_Between_Modules.0") in view.nodes
    assert len({*view.nodes}) == NODES
    assert view.worst() == view.unmatched() == []


def test_a_node_outlives_its_graph(runs: Path) -> None:
    node = graph.build(runs / "golden").root.children[0]
    assert node.parent is not None
    assert node.children[0].parameters


# ---- two runs


def test_nodes_know_how_they_differ(runs: Path) -> None:
    view = graph.compare(runs / "golden", runs / "other")
    assert view.mode == "statistics"
    relu = view.find("Torch.relu.0.forward")
    assert relu is not None
    assert (relu.match, relu.counterpart, relu.how) == (relu.name, relu.name, "exact")
    assert relu.index == 1
    assert relu.input_ulps == 0
    assert relu.output_ulps is not None
    assert relu.output_ulps > 1e6
    assert (relu.weight_ulps, relu.gradient_ulps) == (None, None)
    assert "MeanRelativeErr" in relu.parameters[f"{relu.name}.output.0"]
    assert [node.name for node in view.worst(1)] == [relu.name]
    assert {node.name for node in view.worst()} == {relu.name, "Functional.linear.0.forward"}
    assert [(node.name, node.reason) for node in view.unmatched()] == [
        ("Torch.new.0.forward", "the reference has no node of this name")
    ]
    assert view.root.worst_ulps == relu.output_ulps
    assert view.root.worst_node == relu


def test_fuzzy_matching_pairs_calls_by_their_order(runs: Path) -> None:
    construct = {name.replace("relu.0", "relu.7"): parent for name, parent in CONSTRUCT.items()}
    write_rank(runs / "other", {name: call() for name in construct}, construct)
    by_name = graph.compare(runs / "golden", runs / "other").find("Torch.relu.7.forward")
    fuzzy = graph.compare(runs / "golden", runs / "other", rule="fuzzy").find("Torch.relu.7.forward")
    assert by_name is not None
    assert fuzzy is not None
    assert (by_name.match, fuzzy.match) == (None, "Torch.relu.0.forward")
    assert (by_name.counterpart, by_name.how) == ("Torch.relu.0.forward", "aligned")
    assert fuzzy.how == "fuzzy"


def test_a_graph_is_saved_as_the_command_does(runs: Path) -> None:
    file = graph.compare(runs / "golden", runs / "other").save(runs / "out")
    assert file == result_in(runs / "out", "compare")
    assert select(file, "SELECT count(*) FROM tb_nodes WHERE data_source = 'NPU'") == [(NODES + 1,)]
    file = graph.build(runs / "golden").save(runs / "alone")
    assert file == result_in(runs / "alone", "build")


def test_the_cells_in_memory_are_those_of_the_file(runs: Path) -> None:
    view = graph.compare(runs / "golden", runs / "other")
    file = view.save(runs / "out")
    cells = {
        name: {**json.loads(inputs), **json.loads(outputs)}
        for name, inputs, outputs in select(
            file, "SELECT node_name, input_data, output_data FROM tb_nodes WHERE data_source = 'NPU'"
        )
    }
    assert {node.name: node.parameters for node in view} == cells


def test_what_is_wrong_is_said_by_an_error(runs: Path) -> None:
    with pytest.raises(IoError, match="nowhere"):
        graph.build(runs / "nowhere")
    (runs / "golden/construct.json").write_text('{"a": "b", "b": "a"}')
    with pytest.raises(FormatError, match=r"construct\.json"):
        graph.compare(runs / "golden", runs / "other")
    write_rank(runs / "golden", task="tensor")
    with pytest.raises(InvalidArgument, match="task"):
        graph.compare(runs / "golden", runs / "other")
    with pytest.raises(InvalidArgument, match="expected default, fuzzy or mapped"):
        graph.compare(runs / "other", runs / "other", rule="other")  # type: ignore[arg-type]


# ---- numbers in cells, by docs/formats/graph.md


def shown(value: float) -> str:
    """A number of dump.json."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.6e}" if "e" in str(value) else str(round(value, 6))


def result(value: float) -> str:
    """A number that was computed."""
    if math.isnan(value):
        return "Nan"
    return f"{value}\t" if math.isinf(value) else shown(value)


def relative(target: float, golden: float) -> str:
    if math.isnan(target - golden):
        return "Nan"
    if golden == 0:
        return "N/A"
    return f"{abs((target - golden) / golden * 100)}%"


def numbers(count: int) -> list[float]:
    """Of all sizes, and the edges of the rules."""
    source = random.Random(20)
    edges = [
        0.0,
        -0.0,
        1e-4,
        9.9999e-5,
        1e16,
        9999999999999998.0,
        0.5e-6,
        1.5e-6,
        2.5e-6,
        1e9,
        123456789.9999999,
    ]
    edges += [
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        math.inf,
        math.nan,
        0.9999995,
        0.9999994999,
    ]
    found = edges + [-value for value in edges]
    while len(found) < count:
        bits = struct.unpack("<d", source.randbytes(8))[0]
        near = source.uniform(-10, 10) * 10.0 ** source.randint(-8, 18)
        half = (source.randint(-(10**9), 10**9) + 0.5) / 10**6
        short = struct.unpack("<f", struct.pack("<f", source.gauss(0, 3)))[0]
        found += [near, half, short]
        if math.isfinite(bits):
            found.append(bits)
    return found


KEYS = ("Max", "Min", "Mean", "Norm")


def write_numbers(folder: Path, values: list[float]) -> Path:
    names = [f"Torch.x.{index}.forward" for index in range(0, len(values) // 4)]
    data: dict[str, Any] = {}
    for index, name in enumerate(names):
        data[name] = {"output": [{**tensor(), **dict(zip(KEYS, values[4 * index : 4 * index + 4]))}]}
    return write_rank(folder, data, dict.fromkeys(names, BLOCK))


def test_statistics_are_shown_as_python_shows_them(tmp_path: Path) -> None:
    values = numbers(8000)
    view = graph.build(write_numbers(tmp_path / "a", values))
    checked = 0
    for index in range(len(values) // 4):
        name = f"Torch.x.{index}.forward"
        node = view.find(name)
        assert node is not None
        cells = node.parameters[f"{name}.output.0"]
        for key, value in zip(KEYS, values[4 * index :]):
            assert cells[key] == shown(value), value
            checked += 1
    assert checked >= 7996


def test_differences_are_shown_as_python_shows_them(tmp_path: Path) -> None:
    target, golden = numbers(6000), numbers(6000)
    random.Random(21).shuffle(golden)
    golden[::5] = [value * (1 + 1e-5) for value in target[::5]]
    names = ("Max diff", "Min diff", "Mean diff", "L2norm diff")
    relatives = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
    count = min(len(target), len(golden)) // 4 * 4
    view = graph.compare(
        write_numbers(tmp_path / "golden", golden[:count]), write_numbers(tmp_path / "target", target[:count])
    )
    wrong: list[tuple[Any, ...]] = []
    for index in range(count // 4):
        name = f"Torch.x.{index}.forward"
        node = view.find(name)
        assert node is not None
        cells = node.parameters[f"{name}.output.0"]
        for offset in range(4):
            ours, theirs = target[4 * index + offset], golden[4 * index + offset]
            if cells[names[offset]] != result(ours - theirs):
                wrong.append((ours, theirs, names[offset], cells[names[offset]], result(ours - theirs)))
            expected = relative(ours, theirs)
            found = cells[relatives[offset]]
            if not agrees(found, expected):
                wrong.append((ours, theirs, relatives[offset], found, expected))
    assert wrong == []


def agrees(found: str, expected: str) -> bool:
    """Texts of percentages: more than six decimals are cut, as the last rule for cells says."""
    whole, _, decimals = expected.removesuffix("%").partition(".")
    if whole.isdigit() and decimals.isdigit() and len(decimals) > 6:
        expected = f"{float(expected.removesuffix('%')):.6f}".rstrip("0")
        expected = f"{expected}0%" if expected.endswith(".") else f"{expected}%"
        return found.rstrip("0%").rstrip(".") == expected.rstrip("0%").rstrip(".")
    return found == expected
