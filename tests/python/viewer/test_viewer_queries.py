# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Questions of the page, on a small result: what is answered, a page at a time."""

from __future__ import annotations

import pytest
from msprobe import InvalidArgument
from msprobe.viewer import graph_query
from viewer_samples import FC, UP, Node, model, names, plain, tensor, write

# ---- tree


def test_a_file_is_described(ask):
    info = ask("open")
    assert (info["compare"], info["task"], info["steps"], info["ranks"]) == (True, "summary", [0], [0])
    assert info["colours"] == ["#FFFCF3", "#FFEDBE", "#FFC62E", "#FF704D"]
    assert "difference" in info["scales"]


def test_the_first_tree_has_both_roots_and_their_children_in_order(ask):
    tree = ask("tree")
    assert names(tree["roots"]) == ["DefaultModel", "DefaultModel"]
    first, second = tree["lists"]
    assert names(first["nodes"]) == names(second["nodes"])
    assert names(first["nodes"])[:2] == ["Apis_Between_Modules.0", "Module.layers.0.Block.forward.0"]


def test_a_closed_module_tells_what_is_inside(ask):
    block = ask("tree")["lists"][0]["nodes"][2]
    assert block["class"] == 0  # its own index is fine
    below = block["below"]
    assert below["nodes"] == 4
    assert below["counts"] == [1, 0, 1, 0]
    assert below["unmatched"] == 2  # fc and the call in it
    assert below["worst"] == 0.5
    assert below["strip"] == "uu20"


def test_reveal_opens_the_way_on_both_sides(ask):
    tree = ask("tree", reveal=[0, "Tensor.add.2.forward"])
    assert [one["side"] for one in tree["revealed"]] == [0, 1]
    assert tree["revealed"][1]["path"][-1] == "Tensor.add.2.forward"
    assert {(one["side"], one["name"]) for one in tree["lists"]} == {
        (side, name) for side in (0, 1) for name in ("DefaultModel", "Module.layers.2.Block.forward.0")
    }


def test_a_level_is_opened_at_once(ask):
    whole = ask("tree", level=2)
    assert whole["whole"]
    assert sum(len(one["nodes"]) for one in whole["lists"]) == 2 * 4 + 8 + 9
    assert [one["total"] for one in whole["lists"]] == [len(one["nodes"]) for one in whole["lists"]]


def test_more_nodes_than_an_answer_holds_are_opened_in_part(ask, monkeypatch):
    whole = ask("tree", level=2)["lists"]
    monkeypatch.setattr(graph_query, "_PART", 3)
    assert ask("tree", level=2)["lists"] == whole
    monkeypatch.setattr(graph_query, "MOST_NODES", 10)
    part = ask("tree", level=2)
    assert not part["whole"]
    assert sum(len(one["nodes"]) for one in part["lists"]) == 10 - 2  # the roots are in no list


def test_children_come_in_pages(tmp_path, asking):
    calls = [Node(f"Torch.add.{i}.forward") for i in range(1200)]
    ask = asking(write(tmp_path / "wide.vis.db", {(0, 0): (Node("DefaultModel", calls, kind=0), None)}))
    first = ask("tree")["lists"][0]
    assert (len(first["nodes"]), first["total"]) == (500, 1200)
    third = ask("tree", nodes=[[0, "DefaultModel", 1000]])["lists"][0]
    assert names(third["nodes"])[0] == "Torch.add.1000.forward"
    revealed = ask("tree", reveal=[0, "Torch.add.701.forward"])["lists"][0]
    assert (revealed["offset"], names(revealed["nodes"])[201]) == (500, "Torch.add.701.forward")


def test_a_second_root_and_lost_nodes_hang_below_the_model(tmp_path, asking):
    """Parallel merge of 8.3.0 writes collections without a parent, before the model."""
    path = write(tmp_path / "a.vis.db")
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("UPDATE tb_nodes SET up_node='' WHERE node_name='Apis_Between_Modules.0'")
    connection.execute("UPDATE tb_nodes SET up_node='Nowhere' WHERE node_name='Tensor.mul.0.forward'")
    connection.execute("UPDATE tb_nodes SET up_node=node_name WHERE node_name='Tensor.add.0.forward'")
    connection.commit()
    connection.close()
    tree = asking(path)("tree")
    assert names(tree["roots"]) == ["DefaultModel", "DefaultModel"]
    assert {"Apis_Between_Modules.0", "Tensor.mul.0.forward", "Tensor.add.0.forward"} <= set(
        names(tree["lists"][0]["nodes"])
    )


def test_a_circle_of_parents_ends(tmp_path, asking):
    path = write(tmp_path / "a.vis.db")
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute(
        "UPDATE tb_nodes SET up_node='Functional.linear.0.forward' WHERE "
        "node_name='Module.layers.0.Block.forward.0'"
    )
    connection.commit()
    connection.close()
    ask = asking(path)
    assert ask("list")["total"] == 16 + 17


# ---- lists


def test_search_by_part_of_a_name_ignores_case_and_takes_no_wildcards(ask):
    assert ask("list", text="LINEAR.1")["total"] == 2
    assert ask("list", text="%")["total"] == 0
    assert ask("list", text="layers_1")["total"] == 0


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"text": r"^Module\.layers\.[12]\.Block", "within": "regex", "side": 0}, 2),
        ({"text": "float32[4, 4]", "within": "shape", "side": 0}, 9),
        ({"text": "int64", "within": "shape"}, 0),
        ({"text": "line 7", "within": "stack", "side": 0}, 16),
        ({"kind": 9}, 2),
        ({"kind": 1, "side": 1}, 9),
        ({"only": "leaves", "side": 0}, 8),
        ({"only": "added"}, 2),
        ({"only": "removed"}, 3),
        ({"only": "structure"}, 3),
        ({"classes": [2], "side": 0}, 4),
        ({"classes": [-2]}, 5),
        ({"only": "suspicious"}, 4),
    ],
)
def test_lists(ask, members, expected):
    answer = ask("list", **members)
    assert answer["total"] == expected, names(answer["nodes"])


def test_nodes_are_sorted_by_kind(ask):
    kinds = [node["kind"] for node in ask("list", sort="kind")["nodes"]]
    assert kinds == sorted(kinds)
    assert set(kinds) == {0, 1, 9}


def test_a_golden_node_has_the_difference_of_its_counterpart(ask):
    def difference(side, name, **more):
        return ask("nodes", names=[[side, name]], **more)["nodes"][0]["ulps"]

    name = "Tensor.add.2.forward"
    assert difference(1, name) == difference(0, name) > 64
    assert difference(1, UP) is None
    ask("match", do="match", target=FC, reference=UP, workspace="w")
    assert difference(1, UP, workspace="w") == difference(0, FC, workspace="w") == 0.0
    assert ask("list", only="suspicious")["total"] == 4  # counted once


def test_ranking_is_by_value_and_pages_follow_each_other(ask):
    everything = ask("list", sort="difference", ascending=False, side=0)
    values = [node["ulps"] for node in everything["nodes"]]
    assert values == sorted(values, reverse=True)
    second = ask("list", sort="difference", ascending=False, side=0, offset=2, limit=2)
    assert second["total"] == everything["total"]
    assert names(second["nodes"]) == names(everything["nodes"])[2:4]


def test_a_regular_expression_that_never_ends_is_ended(ask, monkeypatch):
    monkeypatch.setattr("msprobe.viewer.regex_search._SECONDS", 1)
    with pytest.raises(InvalidArgument, match="takes more than"):
        ask("list", text=r"^(([a-zA-Z._0-9])+)+!$", within="regex")


def test_a_wrong_regular_expression_is_said(ask):
    with pytest.raises(InvalidArgument, match="no regular expression"):
        ask("list", text="(", within="regex")


def test_next_and_previous_go_as_one_reads_a_module_before_what_is_inside(ask):
    found = []
    start = None
    while node := ask("next", only="suspicious", **{"from": start})["node"]:
        start = node["name"]
        found.append(start)
    call = "Functional.linear.2.forward"
    assert found == [
        "Tensor.add.1.forward",
        "Module.layers.2.fc.Linear.forward.0",
        call,
        "Tensor.add.2.forward",
    ]
    back = ask("next", only="suspicious", backwards=True, **{"from": found[1]})["node"]
    assert back["name"] == found[0]


@pytest.mark.parametrize(
    "members", [{"sort": "size; DROP"}, {"only": "x"}, {"within": "y", "text": "z"}, {"side": "0"}]
)
def test_wrong_members_are_refused(ask, members):
    with pytest.raises(InvalidArgument):
        ask("list", **members)


# ---- colours


def test_colours_of_other_values(ask):
    by_weight = ask("nodes", names=[[0, "Module.layers.2.fc.Linear.forward.0"]], colour={"by": "weights"})[
        "nodes"
    ][0]
    assert by_weight["class"] == 4
    assert by_weight["value"] == pytest.approx(0.5 / 0.5 / 2**-23)
    own_bounds = ask("nodes", names=[[0, "Tensor.add.1.forward"]], colour={"by": "index", "bounds": [0.1]})[
        "nodes"
    ][0]
    assert own_bounds["class"] == 1


def test_own_data_colours_nodes(ask):
    answer = ask("own", data={"Tensor.add.1.forward": 3, "Tensor.add.0.forward": 1, "x": "no"}, key="k")
    assert answer["count"] == 2
    node = ask(
        "nodes", names=[[0, "Tensor.add.1.forward"]], colour={"by": answer["by"], "bounds": answer["bounds"]}
    )
    assert node["nodes"][0]["value"] == 3
    assert node["nodes"][0]["class"] == 4


def test_own_data_that_the_server_does_not_know_means_no_values(tmp_path, asking):
    """Every rank has its own, and so has a server that was started again."""
    path = write(tmp_path / "a.vis.db", {(0, rank): model() for rank in (0, 1)})
    ask = asking(path)
    by = ask("own", data={"Tensor.add.1.forward": 3}, key="k1")["by"]
    assert by == "own:k1"
    for question in (ask, asking(path)):
        tree = question("tree", rank=1, colour={"by": by, "bounds": [1]})
        assert all(node["value"] is None for one in tree["lists"] for node in one["nodes"])
        assert question("list", rank=1, colour={"by": by}, classes=[0])["total"] == 0
        assert question("next", rank=1, colour={"by": by}, classes=[0, 1])["node"] is None
        assert question("list", rank=1, colour={"by": by}, sort="colour")["total"] == 0


def test_a_user_does_not_see_the_data_of_another_one(ask):
    def value(by):
        return ask("nodes", names=[[0, "Tensor.add.1.forward"]], colour={"by": by})["nodes"][0]["value"]

    first = ask("own", data={"Tensor.add.1.forward": 1, "Tensor.add.0.forward": 2}, key="a1")["by"]
    assert value(first) == 1
    second = ask("own", data={"Tensor.add.1.forward": 77}, key="b2")["by"]
    assert (value(first), value(second)) == (1, 77)
    ranked = ask("list", colour={"by": first}, sort="colour", ascending=False, side=0)["nodes"]
    assert names(ranked) == ["Tensor.add.0.forward", "Tensor.add.1.forward"]


@pytest.mark.parametrize("by", ["nothing", "own:x' OR 1", "n.value"])
def test_an_unknown_colouring_is_refused(ask, by):
    with pytest.raises(InvalidArgument):
        ask("tree", colour={"by": by})


# ---- details and findings


def test_details_have_target_and_golden_in_one_row(ask):
    detail = ask("detail", side=0, name="Functional.linear.2.forward")
    assert detail["reference"]["name"] == "Functional.linear.2.forward"
    first, second, third = detail["rows"]
    assert (first["group"], first["target"]["Max"], first["reference"]["Max"]) == ("input", "1.0", "1.0")
    assert third["group"] == "output"
    assert second["ulps"] == pytest.approx(0.5 / 0.5 / 2**-23)
    assert detail["target"]["stack"] == ["File /job/model.py, line 7, in forward, \n y = f(x)"]


def test_the_first_divergence_is_the_first_place_that_nothing_before_explains(tmp_path, asking):
    first = asking(write(tmp_path / "a.vis.db"))("findings")["findings"][0]
    assert (first["node"], first["kind"]) == ("Tensor.add.1.forward", "input")
    target, golden = model()
    for side, other in ((target, golden), (golden, target)):  # matched, so that the weight can be seen
        side.children[2].children[0].peer = other.children[2].children[0].name
        side.children[2].children[0].children[0].peer = "Functional.linear.1.forward"
    ask = asking(write(tmp_path / "b.vis.db", {(0, 0): (target, golden)}))
    first = ask("findings")["findings"][0]
    assert (first["node"], first["kind"]) == (FC, "weight")


def test_noise_on_a_mean_near_zero_is_no_divergence(tmp_path, asking):
    name = "Functional.layer_norm.0.forward"
    cell = {**tensor(1.0), "Mean": "1e-9", "Mean diff": "2e-9", "MeanRelativeErr": "200%"}
    call = Node(name, index=1.0, peer=name, outputs={f"{name}.output.0": cell})
    other = Node(name, peer=name, outputs={f"{name}.output.0": {**plain(), "Mean": "-1e-9"}})
    pair = (
        Node("DefaultModel", [call], 0, peer="DefaultModel"),
        Node("DefaultModel", [other], 0, peer="DefaultModel"),
    )
    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): pair}))
    assert ask("findings")["findings"] == []  # the order of a sum makes as much
    assert ask("list", only="suspicious")["total"] == 0
    assert ask("list", classes=[3])["total"] == 2  # the index is as it is in the file


def test_overflow_of_a_single_graph(tmp_path, asking):
    nodes = [Node("Torch.a.0.forward", overflow="high"), Node("Torch.b.0.forward", overflow="critical")]
    graph = {(0, 0): (Node("DefaultModel", nodes, 0), None)}
    ask = asking(write(tmp_path / "a.vis.db", graph, overflow=True))
    assert ask("findings")["findings"][0]["node"] == "Torch.b.0.forward"
    root = ask("tree", colour={"by": "overflow"})["roots"][0]
    assert root["below"]["counts"] == [1, 0, 1, 1]
    assert ask("tree", colour={"by": "kind"})["roots"][0]["below"]["counts"] == [1, 2, 0, 0]


def test_what_msprobe_wrote_about_the_nodes_is_used(tmp_path, asking):
    path = write(tmp_path / "a.vis.db")
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE msprobe_nodes (id TEXT PRIMARY KEY, counterpart TEXT, how TEXT, reason TEXT, "
        "input_ulps REAL, "
        "output_ulps REAL, weight_ulps REAL, gradient_ulps REAL, worst_ulps REAL, worst_node TEXT, "
        "worst_index REAL, "
        "nodes INTEGER, unmatched INTEGER, colours TEXT, overflow TEXT)"
    )
    connection.execute("CREATE TABLE msprobe_findings (step, rank, number, node, sentence)")
    connection.execute(
        f"INSERT INTO msprobe_nodes VALUES ('NPU_0_0_{FC}', '{UP}', 'aligned', 'other name', 1, 2, "
        "9e999, NULL, 3, "
        "NULL, NULL, 1, 0, '[]', NULL)"
    )
    connection.execute(f"INSERT INTO msprobe_findings VALUES (0, 0, 1, '{FC}', 'Its weight differs.')")
    connection.commit()
    connection.close()
    ask = asking(path)
    assert ask("findings")["findings"] == [
        {"node": FC, "side": 0, "kind": "stated", "sentence": "Its weight differs."}
    ]
    node = ask("nodes", names=[[0, FC]])["nodes"][0]
    assert (node["peer"], node["how"], node["ulps"]) == (UP, "aligned", "inf")
    assert ask("detail", side=0, name=FC)["target"]["reason"] == "other name"


# ---- steps, ranks, micro steps, communication


def test_overview_and_communication(tmp_path, asking):
    graphs = {(step, rank): model(0.1 * step + 0.3 * rank) for step in (0, 1) for rank in (0, 1)}
    ask = asking(write(tmp_path / "a.vis.db", graphs))
    overview = ask("overview")
    assert overview["done"]
    assert {(c["step"], c["rank"]): c["worst"] for c in overview["cells"]} == pytest.approx(
        {(0, 0): 0.0, (0, 1): 0.3, (1, 0): 0.1, (1, 1): 0.4}
    )
    cells = ask("communication")["cells"]
    assert {"from": 0, "to": 1, "count": 1, "worst": 0.0, "node": "Distributed.all_reduce.0.forward"} in cells
    operations = ask("operations", **{"from": 0, "to": 1})["operations"]
    assert [one["node"] for one in operations] == ["Distributed.all_reduce.0.forward"]
    with pytest.raises(InvalidArgument, match="no step 7"):
        ask("tree", step=7)


def test_batch_operations_have_all_their_links(tmp_path, asking):
    links = [
        {
            "communications_type": "send",
            "nodes_info": {"1": ["0", "Distributed.batch_isend_irecv.0.forward"]},
        },
        {
            "communications_type": "receive",
            "nodes_info": {"2": ["Nan", "Distributed.batch_isend_irecv.0.forward"]},
        },
    ]
    call = Node("Distributed.batch_isend_irecv.0.forward", links=links)
    ask = asking(
        write(tmp_path / "a.vis.db", {(0, r): (Node("DefaultModel", [call], 0), None) for r in range(3)})
    )
    found = ask("detail", side=0, name=call.name)["target"]["links"]
    assert [(one["kind"], one["rank"]) for one in found] == [("send", 1), ("receive", 2)]


def test_without_an_overflow_check_the_statistics_tell_what_overflows(tmp_path, asking):
    good, bad = {"x": plain()}, {"x": {**plain(), "Max": "inf"}}
    nan = {"x": {**plain(), **dict.fromkeys(("Max", "Min", "Mean", "Norm"), "nan")}}
    calls = {
        "Torch.empty.0.forward": ({}, nan),  # nobody has written there yet
        "Torch.empty_permuted.0.forward": ({}, nan),
        "Torch.good.0.forward": (good, good),
        "Torch.born.0.forward": (good, nan),
        "Torch.passed.0.forward": (nan, bad),
        "Torch.ended.0.forward": (bad, good),
    }
    nodes = [Node(name, inputs=inputs, outputs=outputs) for name, (inputs, outputs) in calls.items()]
    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): (Node("DefaultModel", nodes, 0), None)}))
    found = ask("list", sort="order")["nodes"]
    assert [node["overflow"] for node in found] == [0, 0, 0, 3, 2, 1, 0]
    assert [one["node"] for one in ask("findings")["findings"]] == list(calls)[3:5]
    assert ask("next", only="overflowing")["node"]["name"] == "Torch.born.0.forward"


def test_the_next_node_that_overflows(tmp_path, asking):
    levels = (None, "medium", None, "critical")
    nodes = [Node(f"Torch.a.{number}.forward", overflow=level) for number, level in enumerate(levels)]
    graph = {(0, 0): (Node("DefaultModel", nodes, 0), None)}
    ask = asking(write(tmp_path / "a.vis.db", graph, overflow=True))
    first = ask("next", only="overflowing")["node"]["name"]
    second = ask("next", only="overflowing", **{"from": first})["node"]["name"]
    assert [first, second] == ["Torch.a.1.forward", "Torch.a.3.forward"]
    assert ask("next", only="overflowing", **{"from": second})["node"] is None


def test_a_micro_step_hides_the_others_at_the_top(tmp_path, asking):
    nodes = [Node(f"Torch.a.{i}.forward", micro=i // 2) for i in range(4)]
    ask = asking(
        write(tmp_path / "a.vis.db", {(0, 0): (Node("DefaultModel", nodes, 0), None)}, micro_steps=2)
    )
    assert names(ask("tree", micro=1)["lists"][0]["nodes"]) == ["Torch.a.2.forward", "Torch.a.3.forward"]
    assert ask("list", micro=0, only="leaves")["total"] == 2


@pytest.mark.parametrize("golden_first", [0, 1])
def test_what_is_below_the_root_is_of_the_micro_step(tmp_path, asking, golden_first):
    """The legend counts what the picture shows, also when another colouring is asked for."""

    def side(golden: bool) -> Node:
        found = []
        for number, index in enumerate((0.1, 0.9, 0.5, None)):
            name = f"Module.a.A.forward.{number}"
            call = Node(
                f"Torch.a.{number}.forward",
                index=index,
                peer=None if index is None else f"Torch.a.{number}.forward",
            )
            call.micro = (number + golden_first * golden) % 2
            found.append(Node(name, [call], kind=0, index=index, peer=name, micro=call.micro))
        return Node("DefaultModel", found, kind=0, peer="DefaultModel")

    graph = {(0, 0): (side(False), side(True))}
    ask = asking(write(tmp_path / "a.vis.db", graph, micro_steps=2))
    every = ask("tree")["roots"][0]
    assert [every["below"][key] for key in ("nodes", "unmatched", "worst")] == [9, 1, 0.9]

    def shown(side, micro):
        answer = ask("tree", micro=micro, level=9)
        root, lists = answer["roots"][side], [one for one in answer["lists"] if one["side"] == side]
        nodes = [root, *(node for one in lists for node in one["nodes"])]
        below = root["below"]
        assert below["nodes"] == len(nodes)
        for number, count in enumerate(below["counts"]):
            assert count == sum(node["class"] == number for node in nodes), (number, count)
        coloured = ask("values", micro=micro, places=[[root["pos"]]] * 2)["sides"][side]["below"]
        assert coloured == [[0, below]] or coloured == [(0, below)]
        return below

    first, second = shown(0, 0), shown(0, 1)
    assert (first["nodes"], first["unmatched"], first["worst"]) == (5, 0, 0.5)
    assert (second["nodes"], second["unmatched"], second["worst"]) == (5, 1, 0.9)
    by_place = {
        node["pos"]: node["name"]
        for one in ask("tree", level=9)["lists"]
        if one["side"] == 0
        for node in one["nodes"]
    }
    assert by_place[second["worstAt"]] == "Torch.a.1.forward"
    assert len(first["strip"]) == 5
    assert shown(1, 0)["nodes"] == shown(1, 1)["nodes"] == 5
    assert ask("tree", micro=7)["roots"][0]["below"]["nodes"] == 1


def test_findings_are_those_of_the_micro_step(tmp_path, asking):
    def call(number: int, golden: bool) -> Node:
        name = f"Torch.a.{number}.forward"
        cell = plain() if golden else tensor(1.0, 0.5)
        return Node(
            name, index=None if golden else 0.5, peer=name, micro=number, inputs={f"{name}.input.0": cell}
        )

    sides = [
        Node("DefaultModel", [call(number, golden) for number in (0, 1)], 0, peer="DefaultModel")
        for golden in (False, True)
    ]
    ask = asking(write(tmp_path / "a.vis.db", {(0, 0): (sides[0], sides[1])}, micro_steps=2))

    def found(**more):
        return [one["node"] for one in ask("findings", **more)["findings"]]

    assert found()[0] == "Torch.a.0.forward"
    assert found(micro=1) == ["Torch.a.1.forward"]
    assert found(micro=-1) == found()
    assert found(micro=7) == []


def test_overflows_and_unmatched_nodes_are_those_of_the_micro_step(tmp_path, asking):
    nodes = [Node(f"Torch.a.{i}.forward", micro=i, overflow="high") for i in (0, 1)]
    root = Node("DefaultModel", nodes, 0)
    for golden, name in ((None, "single"), (Node("DefaultModel", [], 0), "both")):
        ask = asking(
            write(tmp_path / f"{name}.vis.db", {(0, 0): (root, golden)}, micro_steps=2, overflow=True)
        )
        assert [one["node"] for one in ask("findings", micro=1)["findings"]] == ["Torch.a.1.forward"]
        for node in nodes:
            node.overflow = None
