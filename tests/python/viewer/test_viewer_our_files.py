# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files of `msprobe graph` in the viewer: what it reads of our own tables agrees with what it makes of files
that have none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from msprobe.cli import main

SAMPLES = Path(__file__).resolve().parents[2] / "data/graph/samples"
PLANTED = "Module.layers.1.mlp.fc1.Linear.forward.0"

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of the same two dumps: mindstudio-probe's file, and ours."""
    folder = tmp_path_factory.mktemp("samples")
    for name in ("inputs", "results"):
        unpack(SAMPLES / f"{name}.tar.xz", folder)
    runs = [str(folder / name / "step0/rank0") for name in ("st_bench", "st_npu")]
    assert main(["graph", *runs, "-o", str(folder / "ours"), "--quiet"]) == 1
    (theirs,) = (folder / "single_cmp").glob("*.vis.db")
    (ours,) = (folder / "ours").glob("*.vis.db")
    return theirs, ours


def answer(ask: Ask, question: str, **members: Any) -> dict[str, Any]:
    """Waits until the values of a graph are known."""
    while True:
        found = ask(question, **members)
        if "pending" not in found and found.get("ready", True):
            return found
        time.sleep(0.02)


def check_same(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """But for how a match was found, which their file does not say, and the last digits of distances, which
    the viewer makes there of rounded cells.
    """
    assert len(theirs) == len(ours)
    for their_node, our_node in zip(theirs, ours):
        known = their_node["ulps"]
        assert our_node["ulps"] == (known if known is None else pytest.approx(known, rel=0.05))
        for key in our_node.keys() - {"how", "ulps"}:
            assert our_node[key] == their_node[key], (our_node["name"], key)


def test_the_tree_and_what_is_inside_is_the_same(
    results: tuple[Path, Path], asking: Callable[[Path], Ask]
) -> None:
    trees = [answer(asking(file), "tree") for file in results]
    check_same(trees[0]["roots"], trees[1]["roots"])
    assert len(trees[0]["lists"]) == len(trees[1]["lists"]) == 2
    for their_list, our_list in zip(trees[0]["lists"], trees[1]["lists"]):
        check_same(their_list["nodes"], our_list["nodes"])
    assert any(node.get("below") for node in trees[1]["lists"][0]["nodes"])
    assert {node["how"] for node in trees[1]["lists"][0]["nodes"]} == {"exact"}


def test_the_details_of_the_planted_fault_are_the_same(
    results: tuple[Path, Path], asking: Callable[[Path], Ask]
) -> None:
    details = [answer(asking(file), "detail", side=0, name=PLANTED) for file in results]
    assert details[0]["rows"] == details[1]["rows"]
    assert details[1]["target"]["stack"] == details[0]["target"]["stack"] != []


def test_both_begin_at_the_planted_weight(results: tuple[Path, Path], asking: Callable[[Path], Ask]) -> None:
    for file in results:
        first = answer(asking(file), "findings")["findings"][0]
        assert first["node"] in (PLANTED, "Functional.linear.6.forward")  # the module, or the call in it


def test_the_file_stays_as_it_is(results: tuple[Path, Path], asking: Callable[[Path], Ask]) -> None:
    _, ours = results
    before = ours.read_bytes()
    ask = asking(ours)
    answer(ask, "tree", level=3)
    answer(ask, "list", text="linear")
    assert ours.read_bytes() == before
    assert [path.name for path in ours.parent.glob("*.vis.db*")] == [ours.name]
