# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The graphs of mindstudio-probe (tests/data/graph/samples), row by row and cell by cell, but for what
docs/compatibility.md lists; the rules below say that list in code.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from msprobe.cli import main

SAMPLES = Path(__file__).resolve().parents[2] / "data/graph/samples"

# Name of a sample -> further options of the command.
WITHOUT_MERGE = {
    "single_build": [],
    "single_cmp": [],
    "ranks_build": ["-oc"],
    "ranks_cmp": [],
    "steps_cmp": [],
    "fuzzy_cmp": ["-f"],
    "lm_plain": ["-lm"],
    "var_default": [],
    "var_fuzzy": ["-f"],
    "var_lm": ["-lm", "map.yaml"],
    "md5_cmp": [],
    "md5_ranks": [],
    "tensor_cmp": [],
    "struct_cmp": [],
    "micro_cmp": [],
    "micro_build": [],
    "nan_oc_build": ["-oc"],
    "nan_oc_cmp": ["-oc"],
}
MERGED = ("pm_build", "pm_cmp", "pm_tppp")

Row = dict[str, Any]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("samples")
    for name in ("inputs", "results"):
        unpack(SAMPLES / f"{name}.tar.xz", folder)
    before = Path.cwd()
    os.chdir(folder)  # the paths in compare.json are relative
    yield folder
    os.chdir(before)


def run(samples: Path, out: Path, name: str, *options: str) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """mindstudio-probe's file and ours."""
    code = main(["-f", "pytorch", "graph", "-i", f"{name}/compare.json", "-o", str(out), *options, "--quiet"])
    assert code in (0, 1)
    (theirs,) = (samples / name).glob("*.vis.db")
    (ours,) = out.glob("*.vis.db")
    assert ours.name.split("_")[0] == theirs.name.split("_")[0]
    opened = []
    for file in (theirs, ours):
        connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        opened.append(connection)
    return opened[0], opened[1]


def nodes(connection: sqlite3.Connection) -> list[Row]:
    """In the order of the file, with frames in place of the number of a stack, and cells as objects."""
    stacks = dict(connection.execute("SELECT id, stack_info FROM tb_stack").fetchall())
    rows = [dict(row) for row in connection.execute("SELECT * FROM tb_nodes ORDER BY rowid")]
    for row in rows:
        row["stack_id"] = json.loads(stacks[row["stack_id"]])
        for column in ("input_data", "output_data"):
            row[column] = [(key, list(fields.items())) for key, fields in json.loads(row[column]).items()]
    return rows


def config(connection: sqlite3.Connection) -> Row:
    """Without the texts for a person, which are ours."""
    row = dict(connection.execute("SELECT * FROM tb_config").fetchone())
    row["tool_tip"] = row["tool_tip"] and list(json.loads(row["tool_tip"]))
    colours = json.loads(row["node_colors"])
    row["node_colors"] = colours and {code: colour["value"] for code, colour in colours.items()}
    return row


def results_of_the_right_parameter(row: Row) -> None:
    """There, the results of a module with parameters stand beside the wrong ones."""
    for column in ("input_data", "output_data"):
        row[column] = [(key, [one for one in fields if one[0] != "Result"]) for key, fields in row[column]]


def collections_after_their_calls(row: Row) -> None:
    """There, the index of a collection is made before the tensors are compared."""
    if row["node_type"] == "9":
        row["precision_index"] = None


RULES: dict[str, Callable[[Row], None]] = {
    "md5_cmp": results_of_the_right_parameter,
    "md5_ranks": results_of_the_right_parameter,
    "tensor_cmp": collections_after_their_calls,
}


@pytest.mark.parametrize("name", WITHOUT_MERGE)
def test_graphs_are_those_of_the_existing_tool(samples: Path, tmp_path: Path, name: str) -> None:
    theirs, ours = run(samples, tmp_path, name, *WITHOUT_MERGE[name])
    assert config(ours) == config(theirs)
    expected, found = nodes(theirs), nodes(ours)
    if name in RULES:
        for row in (*expected, *found):
            RULES[name](row)
    assert [row["id"] for row in found] == [row["id"] for row in expected]
    for ours_row, their_row in zip(found, expected):
        assert ours_row == their_row


def test_checksums_stand_beside_their_own_parameter(samples: Path, tmp_path: Path) -> None:
    _, ours = run(samples, tmp_path, "md5_cmp")
    golden = {
        row["node_name"]: {**json.loads(row["input_data"]), **json.loads(row["output_data"])}
        for row in ours.execute("SELECT * FROM tb_nodes WHERE data_source = 'Bench'")
    }
    compared = 0
    for row in ours.execute("SELECT * FROM tb_nodes WHERE data_source = 'NPU'"):
        for column in ("input_data", "output_data"):
            for key, fields in json.loads(row[column]).items():
                if "Result" not in fields:
                    continue
                same = golden[row["node_name"]][key]["md5"] == fields["md5"]
                assert fields["Result"] == ("pass" if same else "Different"), key
                compared += not same
    assert compared > 5


def test_a_collection_is_as_bad_as_its_worst_call(samples: Path, tmp_path: Path) -> None:
    _, ours = run(samples, tmp_path, "tensor_cmp")
    rows = [row for row in nodes(ours) if row["data_source"] == "NPU"]
    index = {row["node_name"]: row["precision_index"] for row in rows}
    (children,) = ours.execute(
        "SELECT sub_nodes FROM tb_nodes WHERE node_name = 'Apis_Between_Modules.2' AND data_source = 'NPU'"
    ).fetchone()
    assert index["Apis_Between_Modules.2"] == max(index[one] for one in json.loads(children)) > 0.1


@pytest.mark.parametrize("name", MERGED)
def test_merged_graphs_have_the_nodes_of_the_existing_tool(samples: Path, tmp_path: Path, name: str) -> None:
    """Numbers of merged tensors: tests/cpp/graph/merge_test.cpp."""
    theirs, ours = run(samples, tmp_path, name)
    assert config(ours) == config(theirs)
    expected, found = nodes(theirs), nodes(ours)
    assert [row["id"] for row in found] == [row["id"] for row in expected]
    for ours_row, their_row in zip(found, expected):
        if "All_Ranks" in ours_row["node_name"]:
            assert (their_row["up_node"], ours_row["up_node"]) == ("", "DefaultModel")
        for column in ("sub_nodes", "node_type", "node_order", "micro_step_id", "stack_id"):
            assert ours_row[column] == their_row[column], (ours_row["id"], column)
    roots = ours.execute(
        "SELECT node_name FROM tb_nodes WHERE up_node = '' AND data_source = 'NPU'"
    ).fetchall()
    assert [row[0] for row in roots] == ["DefaultModel"]


def test_the_merged_graph_of_four_ranks_agrees_with_that_of_one(samples: Path, tmp_path: Path) -> None:
    assert main(["graph", "-i", "pm_tppp/compare.json", "-o", str(tmp_path), "--quiet"]) == 0
    (file,) = tmp_path.glob("*.vis.db")
    connection = sqlite3.connect(file)
    matched, worst = connection.execute(
        "SELECT count(counterpart), max(worst_ulps) FROM msprobe_nodes WHERE id LIKE 'NPU%'"
    ).fetchone()
    assert matched > 130
    assert worst < 16
