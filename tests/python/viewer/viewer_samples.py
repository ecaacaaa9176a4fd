# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Small results of graph comparisons, in the tables of every release, written here by hand."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COLUMNS = (
    *("id", "graph_id", "node_order", "node_name", "node_type", "up_node", "sub_nodes", "precision_index"),
    *("overflow_level", "micro_step_id", "matched_node_link", "stack_id", "parallel_merge_info"),
    *("matched_distributed", "modified", "input_data", "output_data", "data_source", "dump_data_dir", "step"),
    "rank",
)
COLOURS = {
    "summary": {"#FFFCF3": [0, 0.2], "#FFEDBE": [0.2, 0.4], "#FFC62E": [0.4, 0.8], "#FF704D": [0.8, 1]},
    "md5": {"#FFFCF3": [1, 1], "#FF704D": [0, 0]},
    "all": {"#FFFCF3": [0, 0.05], "#FF704D": [0.05, 1]},
    "structure": {},
}


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)
    kind: int = 1
    index: float | None = None
    overflow: str | None = None
    micro: int = 0
    peer: str | None = None  # None: unmatched
    inputs: dict[str, dict[str, str]] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    links: Any = field(default_factory=dict)
    merged: list[str] = field(default_factory=list)
    stack: tuple[str, ...] = ("File /job/model.py, line 7, in forward, \n y = f(x)",)


def tensor(
    value: float = 1.0, diff: float = 0.0, dtype: str = "torch.float32", **more: str
) -> dict[str, str]:
    """Statistics of a tensor of a size near `value`; `diff`: to the golden side, in all of them."""
    values = {"Max": value, "Min": -value, "Mean": value / 100, "Norm": value * 4}
    cell = {
        "type": "torch.Tensor",
        "dtype": dtype,
        "shape": "[4, 4]",
        **{k: str(v) for k, v in values.items()},
    }
    names = ("Max diff", "Min diff", "Mean diff", "L2norm diff")
    cell |= dict.fromkeys(names, str(diff))
    return {**cell, "MaxRelativeErr": f"{abs(diff / value) * 100}%", **more}


def plain(value: float = 1.0, **more: str) -> dict[str, str]:
    """The same tensor on the golden side, which has no results."""
    return {k: v for k, v in tensor(value, **more).items() if "diff" not in k and "Err" not in k}


# Calls of model(), only in the target and only in the golden.
FC = "Module.layers.1.fc.Linear.forward.0"
UP = "Module.layers.1.up.Linear.forward.0"


def model(weight_diff: float = 0.5) -> tuple[Node, Node]:
    """Two layers; the weight of the second one differs by `weight_diff`, and so does everything after it. The
    second layer of the golden side has another name for one module, and one call more.
    """

    def layer(number: int, diff: float, golden: bool) -> Node:
        name = f"Module.layers.{number}"
        call = f"Functional.linear.{number}.forward"
        cell = (lambda value, gap: plain(value)) if golden else tensor
        enters = diff if number > 1 else 0.0
        inputs = {f"{call}.input.0": cell(1.0, enters), f"{call}.input.1": cell(0.5, diff)}
        inner = Node(
            call,
            index=None if golden else min(1.0, diff),
            peer=call,
            inputs=inputs,
            outputs={f"{call}.output.0": cell(2.0, diff / 4)},
        )
        part = "up" if golden and number == 1 else "fc"
        linear = f"{name}.{part}.Linear.forward.0"
        matched = None if number == 1 else linear
        module = Node(
            linear,
            [inner],
            kind=0,
            index=None if golden or number == 1 else min(1.0, diff),
            peer=matched,
            inputs={f"{linear}.input.0": cell(1.0, 0.0), f"{linear}.parameters.weight": cell(0.5, diff)},
            outputs={f"{linear}.output.0": cell(2.0, diff / 4)},
        )
        if number == 1:
            inner.peer = None
            inner.index = None
        after = f"Tensor.add.{number}.forward"
        add = Node(
            after,
            index=None if golden else min(1.0, diff),
            peer=after,
            inputs={f"{after}.input.0": cell(2.0, diff / 4)},
            outputs={f"{after}.output.0": cell(2.0, diff / 4)},
        )
        block = f"{name}.Block.forward.0"
        children = [module, add]
        if golden and number == 1:
            children.append(
                Node("Tensor.clone.0.forward", outputs={"Tensor.clone.0.forward.output.0": plain()})
            )
        return Node(block, children, kind=0, index=None if golden else 0.0, peer=block)

    def side(golden: bool) -> Node:
        reduce = "Distributed.all_reduce.0.forward"
        calls = Node("Apis_Between_Modules.0", kind=9, index=0, peer="Apis_Between_Modules.0")
        links = {"communications_type": "send_receive", "nodes_info": {"1": ["0", reduce]}}
        calls.children = [
            Node(reduce, index=0, peer=reduce, links=links),
            Node("Tensor.mul.0.forward", index=0, peer="Tensor.mul.0.forward"),
        ]
        layers = [layer(0, 0.0, golden), layer(1, weight_diff, golden), layer(2, weight_diff, golden)]
        return Node("DefaultModel", [calls, *layers], kind=0, peer="DefaultModel")

    return side(False), side(True)


def write(
    path: Path,
    graphs: dict[tuple[int, int], tuple[Node, Node | None]] | None = None,
    *,
    task: str = "summary",
    overflow: bool = False,
    micro_steps: int = 1,
    columns: tuple[str, ...] = COLUMNS,
    wal: bool = False,
) -> Path:
    """`graphs`: (step, rank) -> target and golden."""
    graphs = graphs or {(0, 0): model()}
    compare = all(golden is not None for _, golden in graphs.values())
    connection = sqlite3.connect(path)
    if wal:
        connection.execute("PRAGMA journal_mode=wal")
    connection.execute(f"CREATE TABLE tb_nodes ({', '.join(columns)}, PRIMARY KEY (id))")
    connection.execute("CREATE TABLE tb_stack (id TEXT PRIMARY KEY, stack_info TEXT)")
    connection.execute(
        "CREATE TABLE tb_config (id TEXT PRIMARY KEY, graph_type TEXT, task TEXT, tool_tip TEXT, "
        "micro_steps INTEGER, "
        "overflow_check INTEGER, node_colors TEXT, rank_list TEXT, step_list TEXT)"
    )
    for (step, rank), pair in graphs.items():
        for source, root in zip(("NPU", "Bench"), pair):
            if root is not None:
                _Rows(connection, columns, source, step, rank).write(root)
    colours: dict[str, Any] = {c: {"value": v, "description": ""} for c, v in COLOURS[task].items()}
    colours["#C7C7C7"] = {"value": [], "description": ""}
    steps, ranks = (sorted({place[i] for place in graphs}) for i in (0, 1))
    config = (
        *("1", "compare" if compare else "build", task if compare else "", None, micro_steps, int(overflow)),
        *(json.dumps(colours) if compare else "null", json.dumps(ranks), json.dumps(steps)),
    )
    connection.execute("INSERT INTO tb_config VALUES (?,?,?,?,?,?,?,?,?)", config)
    connection.commit()
    connection.close()
    return path


class _Rows:
    def __init__(
        self, connection: sqlite3.Connection, columns: tuple[str, ...], source: str, step: int, rank: int
    ):
        self._connection, self._columns = connection, columns
        self._source, self._step, self._rank = source, step, rank
        self._order = 0

    def write(self, node: Node, path: tuple[str, ...] = ()) -> None:
        for child in node.children:
            self.write(child, (*path, node.name))
        stack = f"{self._source}_{self._step}_{self._rank}_{self._order}"
        row = {
            "id": f"{self._source}_{self._step}_{self._rank}_{node.name}",
            "graph_id": f"{self._source}_{self._step}_{self._rank}",
            "node_order": self._order,
            "node_name": node.name,
            "node_type": str(node.kind),
            "up_node": path[-1] if path else "",
            "sub_nodes": json.dumps([child.name for child in node.children]) if node.children else "",
            "precision_index": node.index,
            "overflow_level": node.overflow,
            "micro_step_id": node.micro,
            "matched_node_link": json.dumps([*path, node.peer] if node.peer else []),
            "stack_id": stack,
            "parallel_merge_info": json.dumps(node.merged) if node.merged else "",
            "matched_distributed": json.dumps(node.links),
            "modified": 0,
            "input_data": json.dumps(node.inputs),
            "output_data": json.dumps(node.outputs),
            "data_source": self._source,
            "dump_data_dir": None,
            "step": self._step,
            "rank": self._rank,
            "is_distributed": int(node.name.startswith("Distributed")),
        }
        marks = ",".join("?" * len(self._columns))
        self._connection.execute(f"INSERT INTO tb_nodes VALUES ({marks})", [row[c] for c in self._columns])
        self._connection.execute("INSERT INTO tb_stack VALUES (?, ?)", (stack, json.dumps(node.stack)))
        self._order += 1


CALL = "Functional.relu.0.forward"


def dump(folder: Path, value: float) -> Path:
    """A step with one rank: a module with one call in it."""
    rank = folder / "step0" / "rank0"
    rank.mkdir(parents=True)
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "requires_grad": False}
    tensor |= {"Max": value, "Min": -1.0, "Mean": 0.1, "Norm": 2.0}
    entry = {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}
    module = "Module.act.ReLU.forward.0"
    data = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    (rank / "dump.json").write_text(json.dumps({**data, "data": {module: entry, CALL: entry}}))
    (rank / "construct.json").write_text(json.dumps({module: None, CALL: module}))
    (rank / "stack.json").write_text(json.dumps({}))
    return folder


def names(nodes: list[dict[str, Any]]) -> list[str]:
    """Of nodes of an answer."""
    return [node["name"] for node in nodes]
