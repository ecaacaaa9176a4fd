# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Packs of mindstudio-probe give its results, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from config_check_packs import DATA
from msprobe import ConfigChecker, cli

PAIRS = {
    "dyn": ("dyn_a", "dyn_b"),
    "dyn_same": ("dyn_a", "dyn_b_same"),
    "static_sh": ("static_sh_a", "static_sh_b"),
    "static_yaml": ("static_yaml_a", "static_yaml_b"),
    "ranks_self": ("ranks_a", "ranks_a"),
}


def cells(path: Path) -> dict[str, list[list[Any]]]:
    book = openpyxl.load_workbook(path)
    return {sheet.title: [list(row) for row in sheet.iter_rows(values_only=True)] for sheet in book}


def expected(name: str) -> dict[str, list[list[Any]]]:
    """mindstudio-probe's cells, but for its sheet env: there each side stands under the other's name
    (docs/compatibility.md).
    """
    sheets: dict[str, list[list[Any]]] = json.loads((DATA / f"{name}.json").read_text())
    header, *rows = sheets["env"]
    sheets["env"] = [header, *([row[1], row[0], row[3], row[2], row[4]] for row in rows)]
    return sheets


def in_any_order(sheet: str, rows: list[list[Any]]) -> list[list[Any]]:
    return [rows[0], *sorted(rows[1:], key=repr)] if sheet in ("weights", "random") else rows


@pytest.mark.parametrize("name", PAIRS)
def test_the_cells_are_those_of_the_existing_tool(name, tmp_path, capsys):
    bench, cmp = (str(DATA / f"{side}.zip") for side in PAIRS[name])
    code = cli.main(["-f", "pytorch", "config_check", "-c", bench, cmp, "-o", str(tmp_path / "out")])
    found, wanted = cells(tmp_path / "out" / "result.xlsx"), expected(name)
    assert list(found) == list(wanted)
    for sheet, rows in wanted.items():
        # repr: True is not 1, and 0 is not 0.0
        assert repr(in_any_order(sheet, found[sheet])) == repr(in_any_order(sheet, rows)), sheet
    assert code == (0 if all(row[1] for row in wanted["summary"][1:]) else 1)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "bench",
        "cmp",
        "report.html",
        "result.json",
        "result.xlsx",
    ]
    capsys.readouterr()


def test_both_packs_are_unpacked(tmp_path):
    result = ConfigChecker.compare(str(DATA / "dyn_a.zip"), str(DATA / "dyn_b.zip"), str(tmp_path / "out"))
    assert not result.agree
    assert (tmp_path / "out/bench/weights/step1/rank0/weight.json").is_file()
    assert json.loads((tmp_path / "out/cmp/env").read_text())["NCCL_ALGO"] == "Ring"


def test_the_likeliest_explanation_comes_first(tmp_path, capsys):
    arguments = ["config_check", "-c", str(DATA / "dyn_a.zip"), str(DATA / "dyn_b.zip")]
    assert cli.main([*arguments, "-o", str(tmp_path / "out")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "The two runs are not set up alike: env, dataset, weights, hyperparameters, random differ"
    )
    order = [line.split()[1] for line in lines if line[2:3].isdigit()]
    assert order[:3] == ["weights", "dataset:", "hyperparameters:"]
    assert "env: NCCL_ALGO: None -> Ring" in "\n".join(lines)  # cmp has it
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    likelihoods = [one["likelihood"] for one in result["differences"]]
    assert likelihoods == sorted(likelihoods, key=["cause", "possible", "unlikely"].index)
    assert result["verdict"] == "differ"
    assert result["checks"]["pip"] == {"pass": True, "rows": 0, "differences": 0}
