# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files of every mode and release, and files whose values are not read yet."""

from __future__ import annotations

import pytest
from msprobe import InvalidArgument
from msprobe.viewer.detail import detail_from_file
from msprobe.viewer.result_file import open_result
from viewer_samples import COLOURS, COLUMNS, Node, names, plain, write


def test_md5_files_where_one_is_good(tmp_path, asking):
    def side(text: str, index: float | None) -> Node:
        name = "Torch.a.0.forward"
        cell = {**plain(), "md5": text, **({"Result": "pass"} if index is not None else {})}
        return Node(
            "DefaultModel",
            [Node(name, index=index, peer=name, outputs={f"{name}.output.0": cell})],
            0,
            peer="DefaultModel",
        )

    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): (side("aa", 0), side("bb", None))}, task="md5"))
    node = ask("tree")["lists"][0]["nodes"][0]
    assert (node["class"], node["ulps"]) == (1, "inf")  # the checksums differ, whatever the cell says
    assert ask("findings")["findings"][0]["kind"] == "output"


@pytest.mark.parametrize(("colours", "good", "bad"), [("md5", 1.0, 0.0), ("md5 of 26.2", 0.0, 1.0)])
def test_which_index_of_checksums_is_the_bad_one_is_said_by_the_colours(
    tmp_path, asking, monkeypatch, colours, good, bad
):
    monkeypatch.setitem(COLOURS, "md5 of 26.2", {"#FFFCF3": [0, 0], "#FF704D": [1, 1]})
    monkeypatch.setitem(COLOURS, "md5", COLOURS[colours])

    def side(alone: str, text: str) -> Node:
        def call(name: str, index: float, peer: str | None) -> Node:
            links = {"communications_type": "send", "nodes_info": {"1": [str(index), name]}}
            return Node(name, index=index, peer=peer, links=links)

        calls = [
            call(f"Distributed.send.{i}.forward", v, f"Distributed.send.{i}.forward")
            for i, v in enumerate((good, bad, good))
        ]
        differs = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": "[2]", "md5": text}
        calls += [Node(f"{alone}.0.forward"), Node(f"{alone}.1.forward", outputs={"0": differs})]
        return Node("DefaultModel", calls, 0, peer="DefaultModel")

    graphs = {(0, 0): (side("Torch.a", "12"), side("Torch.b", "34"))}
    ask = asking(write(tmp_path / "a.vis.db", graphs, task="md5"))
    assert ask("overview")["cells"][0]["worst"] == bad
    assert [cell["worst"] for cell in ask("communication")["cells"]] == [bad]
    for number in (0, 1):
        pair = {"target": f"Torch.a.{number}.forward", "reference": f"Torch.b.{number}.forward"}
        ask("match", do="match", **pair, workspace="w")
    matched = ask("nodes", names=[[0, f"Torch.a.{i}.forward"] for i in (0, 1)], workspace="w")["nodes"]
    assert [(node["index"], node["class"]) for node in matched] == [(good, 0), (bad, 1)]


@pytest.mark.parametrize(
    "columns",
    [
        (*COLUMNS, "is_distributed"),
        tuple(c for c in COLUMNS if c not in ("micro_step_id", "overflow_level", "modified")),
    ],
)
def test_tables_of_other_releases(tmp_path, asking, columns):
    ask = asking(write(tmp_path / "a.vis.db", columns=columns))
    assert ask("list")["total"] == 33
    assert ask("detail", side=0, name="Tensor.add.0.forward")["total"] == 2
    assert ask("overview")["cells"][0]["nodes"] == 16


def test_a_large_graph_is_shown_before_its_values_are_read(tmp_path, asking, monkeypatch):
    monkeypatch.setattr("msprobe.viewer.library._SMALL", 3)
    ask = asking(write(tmp_path / "a.vis.db"))
    first = ask("tree")
    assert names(first["lists"][0]["nodes"])[0] == "Apis_Between_Modules.0"
    assert first["lists"][0]["nodes"][2]["children"] == 2
    import time

    end = time.monotonic() + 60
    while "pending" in ask("findings"):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert ask("tree")["ready"]
    assert ask("list")["total"] == 33


def test_tensors_can_be_looked_at_before_values_are_read(tmp_path, asking):
    path = write(tmp_path / "a.vis.db")
    ask = asking(path)
    result = open_result(path)
    nodes = ask("list", limit=500)["nodes"]
    assert len(nodes) == 33
    for node in nodes:
        early = detail_from_file(result, 0, 0, node["side"], node["name"])
        late = ask("detail", side=node["side"], name=node["name"])
        for side in (early["target"], early["reference"], late["target"], late["reference"]):
            if side is not None:
                side["flow"] = []  # is known later
        assert early == late
    with pytest.raises(InvalidArgument, match="no node 'nobody'"):
        detail_from_file(result, 0, 0, 0, "nobody")
