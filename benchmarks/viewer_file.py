# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a result of a graph comparison of any size, to measure the viewer with: the tables and indexes of
release 8.3.0 of mindstudio-probe, a decoder model with forward and backward, statistics in the cells.

    python benchmarks/viewer_file.py OUT.vis.db [--nodes 200000] [--layers 96] [--seed 1]

From the middle of the forward part on the two sides differ by a few percent; every 400th call is on one side
only."""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

_TABLES = """
CREATE TABLE tb_nodes (
    id TEXT PRIMARY KEY, graph_id TEXT NOT NULL, node_order INTEGER NOT NULL, node_name TEXT NOT NULL,
    node_type TEXT NOT NULL, up_node TEXT, sub_nodes TEXT, precision_index INTEGER, overflow_level TEXT,
    micro_step_id INTEGER NOT NULL, matched_node_link TEXT, stack_id TEXT, parallel_merge_info TEXT,
    matched_distributed TEXT, modified INTEGER NOT NULL, input_data TEXT, output_data TEXT, data_source TEXT,
    dump_data_dir TEXT, step INTEGER NOT NULL, rank INTEGER NOT NULL);
CREATE TABLE tb_stack (id TEXT PRIMARY KEY, stack_info TEXT);
CREATE TABLE tb_config (
    id TEXT PRIMARY KEY, graph_type TEXT NOT NULL, task TEXT, tool_tip TEXT, micro_steps INTEGER,
    overflow_check INTEGER, node_colors TEXT NOT NULL, rank_list TEXT NOT NULL, step_list TEXT NOT NULL);
"""
_INDEXES = """
CREATE INDEX index1 ON tb_nodes (step, rank, data_source, up_node, node_order);
CREATE INDEX index2 ON tb_nodes (step, rank, data_source, node_name);
CREATE INDEX index3 ON tb_nodes (step, rank, data_source, node_order);
CREATE INDEX index4 ON tb_nodes (step, rank, node_order);
CREATE INDEX index5 ON tb_nodes (step, rank, micro_step_id, node_order);
CREATE INDEX index6 ON tb_nodes (step, rank, modified, matched_node_link);
"""
_COLOURS = ("#FFFCF3", "#FFEDBE", "#FFDC7F", "#FFC62E", "#FF704D")
_OPERATORS = ("mul", "add", "matmul", "softmax", "view", "transpose", "layer_norm", "gelu", "dropout", "cat")
_PARTS = (("ln1", "LayerNorm"), ("attn", "SelfAttention"), ("ln2", "LayerNorm"), ("mlp", "MLP"))


class Writer:
    def __init__(self, connection: sqlite3.Connection, nodes: int, layers: int, seed: int) -> None:
        self._connection, self._seed = connection, seed
        self._random, self._operators = random.Random(), random.Random()
        self._nodes, self._layers = nodes, layers
        self._rows: list[tuple[Any, ...]] = []
        self._order = 0
        self._count = 0

    def write(self, source: str) -> None:
        """One side."""
        self._source, self._order, self._count = source, 0, 0
        self._operators.seed(self._seed)
        per_part = max(1, (self._nodes // (2 * self._layers) - 5) // len(_PARTS))
        top: list[str] = []
        for direction in ("forward", "backward"):
            layers = range(self._layers)
            for layer in layers if direction == "forward" else reversed(layers):
                top.append(self._layer(layer, direction, per_part))
        self._put("DefaultModel", "", "0", top, [], 0.0)
        self._flush()

    def _layer(self, layer: int, direction: str, calls: int) -> str:
        name = f"Module.module.decoder.layers.{layer}.TransformerLayer.{direction}.0"
        path = ["DefaultModel", name]
        parts = []
        error = 0.04 if direction == "backward" or layer >= self._layers // 2 else 0.0
        for part, kind in _PARTS:
            inner = f"Module.module.decoder.layers.{layer}.{part}.{kind}.{direction}.0"
            below = []
            for _ in range(calls):
                self._count += 1
                operator = self._operators.choice(_OPERATORS)
                if self._count % 400 == (0 if self._source == "NPU" else 200):
                    continue
                call = f"Functional.{operator}.{self._count}.{direction}"
                alone = self._count % 400 in (0, 200)
                self._put(call, inner, "1", [], [] if alone else [*path, inner, call], error)
                below.append(call)
            self._put(inner, name, "0", below, [*path, inner], error)
            parts.append(inner)
        self._put(name, "DefaultModel", "0", parts, path, error)
        return name

    def _put(self, name: str, up: str, kind: str, below: list[str], link: list[str], error: float) -> None:
        target = self._source == "NPU"
        self._random.seed(f"{self._seed} {name}")  # both sides have the same values
        inputs = {f"{name}.input.{i}": self._cell([4, 128, 1024], error) for i in range(2)}
        outputs = {f"{name}.output.0": self._cell([4, 128, 1024], error)}
        index = None
        if target and link:
            index = min(1.0, error * self._random.random() * 30) if error else 0
        self._rows.append(
            (
                *(f"{self._source}_0_0_{name}", f"{self._source}_0_0", self._order, name, kind, up),
                *(json.dumps(below) if below else "", index, None, 0, json.dumps(link)),
                *(
                    f"{self._source}_0_0_{self._order % 50}",
                    "",
                    "{}",
                    0,
                    json.dumps(inputs),
                    json.dumps(outputs),
                ),
                *(self._source, None, 0, 0),
            )
        )
        self._order += 1
        if len(self._rows) >= 5000:
            self._flush()

    def _cell(self, shape: list[int], error: float) -> dict[str, str]:
        rng = self._random
        high, low, mean = rng.uniform(0.5, 4), -rng.uniform(0.5, 4), rng.uniform(-0.1, 0.1)
        values = {"Max": high, "Min": low, "Mean": mean, "Norm": 724 * rng.uniform(0.5, 1.5)}
        cell = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": str(shape)}
        gaps = {name: value * error * rng.uniform(-1, 1) for name, value in values.items()}
        if self._source != "NPU":
            return {**cell, **{n: f"{v - gaps[n]:.6f}" for n, v in values.items()}, "requires_grad": "True"}
        cell |= {name: f"{value:.6f}" for name, value in values.items()}
        cell |= {"requires_grad": "True", "data_name": "-1"}
        names = {"Max": "Max diff", "Min": "Min diff", "Mean": "Mean diff", "Norm": "L2norm diff"}
        cell |= {shown: f"{gaps[name]:.6f}" for name, shown in names.items()}
        cell |= {f"{n}RelativeErr": f"{abs(gaps[n] / (v - gaps[n])) * 100:.6f}%" for n, v in values.items()}
        return {**cell, "Requires_grad Consistent": "True"}

    def _flush(self) -> None:
        marks = ",".join("?" * 21)
        self._connection.executemany(f"INSERT INTO tb_nodes VALUES ({marks})", self._rows)
        self._rows = []


def write(path: Path, nodes: int, layers: int, seed: int) -> None:
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;" + _TABLES)
    writer = Writer(connection, nodes, layers, seed)
    for source in ("NPU", "Bench"):
        writer.write(source)
        frames = [
            "File /job/model.py, line {}, in forward, \n x = f(x)",
            "File /job/train.py, line 9, in main, \n main()",
        ]
        stacks = [(f"{source}_0_0_{i}", json.dumps([frames[0].format(i), frames[1]])) for i in range(50)]
        connection.executemany("INSERT INTO tb_stack VALUES (?, ?)", stacks)
    colours = {c: {"value": [i / 5, (i + 1) / 5], "description": ""} for i, c in enumerate(_COLOURS)}
    colours["#C7C7C7"] = {"value": [], "description": ""}
    config = ("1", "compare", "summary", "{}", 1, 0, json.dumps(colours), "[0]", "[0]")
    connection.execute("INSERT INTO tb_config VALUES (?,?,?,?,?,?,?,?,?)", config)
    connection.executescript(_INDEXES)
    connection.commit()
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--nodes", type=int, default=200_000, help="nodes on each side")
    parser.add_argument("--layers", type=int, default=96)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    write(asked.out, asked.nodes, asked.layers, asked.seed)


if __name__ == "__main__":
    main()
