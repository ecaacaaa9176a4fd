# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Matching by hand: what the page asks, and what is kept outside the result."""

from __future__ import annotations

import json

import pytest
from msprobe import InvalidArgument
from viewer_samples import FC, UP, Node, model, names, write


def test_matching_with_children_undo_redo_and_a_second_user(ask):
    matched = ask("match", do="match", target=FC, reference=UP, children=True, workspace="one")
    assert (matched["matched"], matched["count"]) == (2, 2)
    node = ask("nodes", names=[[0, FC]], workspace="one")["nodes"][0]
    assert (node["peer"], node["how"]) == (UP, "manual")
    assert node["ulps"] == pytest.approx(
        0.0
    )  # the cells of both sides are equal: only the file says they differ
    assert ask("nodes", names=[[0, FC]], workspace="two")["nodes"][0]["peer"] is None
    assert ask("list", only="added", workspace="one")["total"] == 0
    undone = ask("match", do="undo", workspace="one")
    assert (undone["count"], undone["redo"]) == (0, 1)
    assert ask("nodes", names=[[0, FC]], workspace="one")["nodes"][0]["peer"] is None
    assert ask("match", do="redo", workspace="one")["count"] == 2
    with pytest.raises(InvalidArgument, match="nothing to redo"):
        ask("match", do="redo", workspace="one")


def test_matches_are_kept_outside_the_file(tmp_path, asking, state_folder):
    path = write(tmp_path / "a.vis.db")
    before = path.read_bytes()
    asking(path)("match", do="match", target=FC, reference=UP, workspace="w")
    again = asking(path)
    assert again("nodes", names=[[0, FC]], workspace="w")["nodes"][0]["peer"] == UP
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.vis.db", "state"]
    assert len(list(state_folder.rglob("*.json"))) == 1


def test_a_match_of_the_file_can_be_taken_away(ask):
    ask("match", do="cancel", target="Tensor.add.0.forward", workspace="w")
    found = ask("nodes", names=[[0, "Tensor.add.0.forward"], [1, "Tensor.add.0.forward"]], workspace="w")[
        "nodes"
    ]
    assert [node["peer"] for node in found] == [None, None]
    with pytest.raises(InvalidArgument, match="has no counterpart"):
        ask("match", do="cancel", target=FC, workspace="w")


def test_a_golden_node_that_is_matched_anew_leaves_its_old_counterpart(ask):
    ask("match", do="match", target="Tensor.add.0.forward", reference="Tensor.add.1.forward", workspace="w")
    old = ask("nodes", names=[[0, "Tensor.add.1.forward"], [1, "Tensor.add.0.forward"]], workspace="w")[
        "nodes"
    ]
    assert [node["peer"] for node in old] == [None, None]


def test_children_of_a_match_by_hand_are_listed_as_alone(ask):
    """Before, their parents had no counterpart, and the parents were listed."""
    assert {FC, UP} <= set(names(ask("list", only="structure")["nodes"]))
    ask("match", do="match", target=FC, reference=UP, workspace="w")
    found = ask("list", only="structure", workspace="w")["nodes"]
    assert [(node["side"], node["name"]) for node in found if "linear.1" in node["name"]] == [
        (0, "Functional.linear.1.forward"),
        (1, "Functional.linear.1.forward"),
    ]
    assert not {FC, UP} & set(names(found))


def test_first_unmatched_nodes_are_those_of_the_workspace(tmp_path, asking):
    def side(name: str) -> Node:
        return Node(
            "DefaultModel", [Node(name, [Node(f"Torch.{name}.0.forward")], 0)], 0, peer="DefaultModel"
        )

    pair = (side("Module.a.A.forward.0"), side("Module.b.B.forward.0"))
    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): pair}, task="structure"))
    assert ask("findings")["findings"][0]["node"] == "Module.a.A.forward.0"
    ask("match", do="match", target="Module.a.A.forward.0", reference="Module.b.B.forward.0", workspace="w")
    found = ask("findings", workspace="w")["findings"]
    assert [one["node"] for one in found] == [
        "Torch.Module.a.A.forward.0.0.forward",
        "Torch.Module.b.B.forward.0.0.forward",
    ]


def test_the_backward_part_of_a_module_with_forward_in_its_name_is_found(tmp_path, asking):
    def side(last: str) -> Node:
        calls = [
            Node(f"Module.forward_net.{last}.Linear.{direction}.0", kind=0, peer=None)
            for direction in ("forward", "backward")
        ]
        return Node("DefaultModel", calls, 0, peer="DefaultModel")

    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): (side("fc"), side("up"))}))
    wanted = [f"Module.forward_net.{last}.Linear.backward.0" for last in ("fc", "up")]
    answer = ask("match", do="match", target=wanted[0], reference=wanted[1], workspace="w")
    assert sorted(answer["pairs"]) == [
        [name.replace("backward.0", f"{d}.0") for name in wanted] for d in ("backward", "forward")
    ]


def test_the_details_have_the_index_of_the_workspace(ask):
    assert ask("detail", side=0, name=FC)["target"]["index"] is None
    ask("match", do="match", target=FC, reference=UP, workspace="w")
    assert ask("detail", side=0, name=FC, workspace="w")["target"]["index"] == 0.0
    assert ask("detail", side=0, name=FC)["target"]["index"] is None


def test_a_vis_config_of_the_existing_tool_is_read_and_written(ask):
    """It holds both directions: the reverse pairs are no failures."""
    text = json.dumps({FC: UP, UP: FC, "Module.gone": "Module.lost"})
    answer = ask("match", do="load", text=text, workspace="w")
    assert answer["matched"] == 1
    assert len(answer["failed"]) == 1
    assert "Module.gone" in answer["failed"][0]
    assert json.loads(ask("match", do="save", workspace="w")["text"]) == {FC: UP}


@pytest.mark.parametrize("text", ["[", "[]", '{"a": 1}', '{"\\ud800": "a"}', "[" * 100_000])
def test_a_broken_vis_config_is_said(ask, text):
    with pytest.raises(ValueError, match=r"\.vis\.config"):
        ask("match", do="load", text=text, workspace="w")


def test_a_module_does_not_match_a_call(ask):
    with pytest.raises(InvalidArgument, match="one is a module"):
        ask("match", do="match", target=FC, reference="Tensor.clone.0.forward", workspace="w")


def test_matching_works_with_real_data(tmp_path, asking):
    target, golden = model()
    for child in (target.children[2].children[0],):
        for cell in child.outputs.values():
            cell.update({"Cosine": "unsupported", "MaxAbsErr": "N/A"})
    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): (target, golden)}, task="all"))
    assert ask("match", do="match", target=FC, reference=UP, workspace="w")["count"] == 1
    assert ask("nodes", names=[[0, FC]], workspace="w")["nodes"][0]["ulps"] is not None
