# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What questions about a whole graph need, in a small database of our own in a temporary folder.

A row of `tb_nodes` holds kilobytes of JSON. The digest of one step and rank holds one short row per node:
place in the tree and in the order of execution, counterpart, values. It is made once, in a process of its
own when the graph is large (the server stays small and answers meanwhile); see digest_cache.py for how it is
kept.

Tables: `node` (one row per node; `pos` counts in post-order, children before parents, so that the nodes below
one are those from `first` to `pos`), `shape` (the dtypes and shapes of a node, each text once), `stack`,
`flow` (see flow.py), `series` (a column of `node` again, as one array in the order of `pos`: what concerns
all nodes is read at once), `own` (values of users, by a key that the page makes: it is there from the start,
so a key of which nothing is known means nodes without values).
"""

from __future__ import annotations

import math
import os
import sqlite3
import sys
from pathlib import Path

from msprobe.viewer import flow
from msprobe.viewer.difference import METRICS, needs_golden, number, pairs, ulps
from msprobe.viewer.flow import Marks
from msprobe.viewer.result_file import SIDES, ResultFile, cells, json_list, open_result, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Progress = Callable[[float], None]

FORMAT = 4  # changes with what a digest holds
LEVELS = {"medium": 1, "high": 2, "critical": 3}
FIRST = {"input": "input_ulps", "weight": "weight_ulps", "gradient": "gradient_ulps", "output": "output_ulps"}
METRIC_COLUMNS = {name: f"m{index}" for index, name in enumerate(METRICS)}

_TABLES = f"""
CREATE TABLE node (
    side INTEGER, pos INTEGER, name TEXT, parent INTEGER, first INTEGER, depth INTEGER, kind INTEGER,
    children INTEGER, micro INTEGER, source INTEGER, value REAL, overflow INTEGER, peer INTEGER, how TEXT,
    stack INTEGER, shape INTEGER, links INTEGER, merged INTEGER,
    input_ulps REAL, weight_ulps REAL, gradient_ulps REAL, output_ulps REAL, worst_ulps REAL,
    {", ".join(f"{column} REAL" for column in METRIC_COLUMNS.values())},
    PRIMARY KEY (side, pos)) WITHOUT ROWID;
CREATE TABLE shape (id INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE stack (id INTEGER PRIMARY KEY, text TEXT);
{flow.TABLE};
CREATE TABLE series (side INTEGER, name TEXT, data BLOB, PRIMARY KEY (side, name));
CREATE TABLE own (data TEXT, name TEXT, value REAL, PRIMARY KEY (data, name)) WITHOUT ROWID;
"""
_INDEXES = """
CREATE INDEX node_name ON node (side, name);
CREATE INDEX node_parent ON node (side, parent, pos);
CREATE INDEX node_first ON node (side, first, pos DESC);
CREATE INDEX node_depth ON node (depth, side, pos);
"""
# The columns of `series` and the types of their arrays. Where a place has none it is -1, a value NaN.
SERIES = {
    **dict.fromkeys(("first", "peer", "shape", "stack"), "<i4"),
    **dict.fromkeys(("value", "overflow", *FIRST.values(), "worst_ulps", *METRIC_COLUMNS.values()), "<f8"),
}
# Read for every node: the columns of tb_nodes, in this order.
_READ = (
    *("node_name", "up_node", "node_order", "node_type", "sub_nodes", "micro_step_id", "precision_index"),
    *("overflow_level", "matched_node_link", "stack_id", "matched_distributed", "parallel_merge_info"),
    *("input_data", "output_data"),
)


def build(result: ResultFile, step: int, rank: int, path: Path, progress: Progress = lambda _: None) -> None:
    """Writes the digest of one graph (both sides) to `path`."""
    into = sqlite3.connect(path)
    into.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-8000;" + _TABLES)
    maker = _Maker(result, step, rank, into, progress)
    maker.write()
    _write_series(into)
    into.executescript(_INDEXES + "ANALYZE;")  # or the index of names is not used
    into.commit()
    into.close()


def _write_series(into: sqlite3.Connection) -> None:
    import numpy as np

    for side in (0, 1):
        for name, kind in SERIES.items():
            none = math.nan if kind == "<f8" else -1
            rows = into.execute(f"SELECT {name} FROM node WHERE side=? ORDER BY pos", (side,)).fetchall()
            array = np.fromiter((none if row[0] is None else row[0] for row in rows), kind, len(rows))
            if kind != "<f8" or not np.isnan(array).all():
                into.execute("INSERT INTO series VALUES (?, ?, ?)", (side, name, array.tobytes()))


class _Maker:
    def __init__(
        self, result: ResultFile, step: int, rank: int, into: sqlite3.Connection, progress: Progress
    ):
        self._result, self._step, self._rank, self._into, self._progress = result, step, rank, into, progress
        self._shapes: dict[str, int] = {}
        self._stacks: dict[str, int] = {}
        self._marks = Marks()
        self._done = 0
        self._total = max(1, self._count())

    def write(self) -> None:
        golden = self._side(1)
        places = {name: pos for pos, name in enumerate(golden.names)}
        parents = golden.parent
        self._insert(1, golden, [], [])
        del golden  # the nodes of one side at a time: they take memory
        target = self._side(0)
        peers = [places.get(node.link) if node.link else None for node in target.nodes]
        self._insert(0, target, peers, parents)
        sql = "UPDATE node SET peer=?, how='matched' WHERE side=1 AND pos=?"
        self._into.executemany(sql, ((pos, peer) for pos, peer in enumerate(peers) if peer is not None))
        del target
        self._adopt_own_tables()
        self._into.executemany(
            "INSERT INTO shape VALUES (?, ?)", [(i, text) for text, i in self._shapes.items()]
        )
        self._into.executemany("INSERT INTO stack VALUES (?, ?)", self._stack_texts())

    def _insert(self, side: int, tree: _Tree, peers: list[int | None], parents: list[int | None]) -> None:
        width = 18 + 5 + len(METRIC_COLUMNS)
        rows = self._rows(side, tree, peers, parents)
        self._into.executemany(f"INSERT INTO node VALUES ({','.join('?' * width)})", rows)

    def _count(self) -> int:
        sql = "SELECT count(*) FROM tb_nodes WHERE step=? AND rank=?"
        return int(self._result.rows(sql, self._step, self._rank)[0][0])

    def _side(self, side: int) -> _Tree:
        """Reads the nodes of one side in the order of the file, and puts them into a tree."""
        columns = ", ".join(self._result.columns[name] for name in _READ)
        how = "NOT INDEXED" if self._has_one_graph() else ""  # in the order of the file either way
        sql = (
            f"SELECT rowid, {columns} FROM tb_nodes {how} WHERE step=? AND rank=? AND data_source=? "
            "ORDER BY rowid"
        )
        values = (self._step, self._rank, SIDES[side])
        kept: list[_Node] = []
        self._marks = Marks()
        for row in self._result.connection().execute(sql, values):
            kept.append(self._node(side, row, len(kept)))
            self._done += 1
            if self._done % 2000 == 0:
                self._progress(self._done / self._total)
        tree = _Tree(kept)
        self._marks.write(self._into, side, tree.places)
        return tree

    def _has_one_graph(self) -> bool:
        config = self._result.config
        return len(config.steps) == 1 and len(config.ranks) == 1

    def _node(self, side: int, row: tuple[Any, ...], at: int) -> _Node:
        name, up = text_of(row[1]), text_of(row[2])
        link = json_list(row[9])
        overflow = LEVELS.get(str(row[8]), 0)
        inputs, outputs = cells(row[13]), cells(row[14])
        self._marks.add(at, inputs, outputs)
        measured = self._measure(name, link, inputs, outputs) if side == 0 else _NOTHING
        texts = sorted({_shape_text(cell) for data in (inputs, outputs) for cell in data.values()})
        stack = self._stacks.setdefault(str(row[10]), len(self._stacks))
        return _Node(
            at,
            name,
            up,
            row[3] if isinstance(row[3], int) else 0,
            str(link[-1]) if link else "",
            (
                int(row[4]) if str(row[4]).isdigit() else 0,
                row[6] if isinstance(row[6], int) else 0,
                row[0],
                number(row[7]),
                overflow,
            ),
            (
                stack,
                self._shapes.setdefault(" ".join(texts), len(self._shapes)),
                int(row[11] not in (None, "", "{}", "[]")),
                int(row[12] not in (None, "", "[]")),
                *measured,
            ),
        )

    def _measure(self, name: str, link: list[Any], inputs: Any, outputs: Any) -> tuple[float | None, ...]:
        """The differences of the four groups, the largest of them, and the metrics of the outputs."""
        if not link or not (inputs or outputs):
            return _NOTHING
        is_gradient = name.endswith("parameters_grad")
        metrics = _metrics(inputs if is_gradient else outputs)
        if self._result.has_own_tables:  # the differences are in the file
            return (*_NOTHING[:5], *metrics)
        golden = None
        if any(needs_golden(cell) for data in (inputs, outputs) for cell in data.values()):
            golden = self._golden_cells(str(link[-1]))
        worst: dict[str, float | None] = dict.fromkeys(FIRST)
        for group, _, cell, _, other in pairs((inputs, outputs), golden, gradients=is_gradient):
            if cell is None or (golden is not None and other is None):
                continue
            value = ulps(cell, other)
            if value is not None and (worst[group] is None or value > worst[group]):  # type: ignore[operator]
                worst[group] = value
        found = [worst[group] for group in FIRST]
        largest = max((v for v in found if v is not None), default=None)
        return (*found, largest, *metrics)

    def _golden_cells(self, name: str) -> Any:
        columns = self._result.columns
        sql = (
            f"SELECT {columns['input_data']}, {columns['output_data']} FROM tb_nodes "
            "WHERE step=? AND rank=? AND data_source='Bench' AND node_name=?"
        )
        row = self._result.connection().execute(sql, (self._step, self._rank, name)).fetchone()
        return (cells(row[0]), cells(row[1])) if row else None

    def _rows(self, side: int, tree: _Tree, peers: list[int | None], parents: list[int | None]) -> Any:
        """`peers`: of the target, the counterparts; `parents`: of the golden side."""
        for pos, node in enumerate(tree.nodes):
            kind, micro, source, value, overflow = node.head
            peer = peers[pos] if peers else None
            how = None if peer is None else "matched"
            above = tree.parent[pos]
            if peer is not None and above is not None and peers[above] not in (None, parents[peer]):
                how = "moved"
            yield (
                *(side, pos, node.name, above, tree.first[pos], tree.depth[pos], kind),
                *(tree.children[pos], micro, source, value, overflow, peer, how),
                *node.tail,
            )

    def _adopt_own_tables(self) -> None:
        """What msprobe itself has written about the nodes is better than what the cells tell."""
        if not self._result.has_own_tables:
            return
        names = ("input_ulps", "weight_ulps", "gradient_ulps", "output_ulps")
        sql = (
            f"SELECT t.node_name, m.counterpart, m.how, {', '.join('m.' + n for n in names)} FROM tb_nodes t "
            "JOIN msprobe_nodes m ON m.id = t.id WHERE t.step=? AND t.rank=? AND t.data_source=?"
        )
        self._into.execute("CREATE INDEX temporary_name ON node (side, name)")
        for side in (0, 1):
            for name, peer, how, *found in self._result.connection().execute(
                sql, (self._step, self._rank, SIDES[side])
            ):
                largest = max((v for v in found if isinstance(v, (int, float))), default=None)
                self._into.execute(
                    "UPDATE node SET peer = coalesce(peer, (SELECT pos FROM node o WHERE o.side=? "
                    "AND o.name=?)), "
                    "how=coalesce(?, how), input_ulps=?, weight_ulps=?, gradient_ulps=?, "
                    "output_ulps=?, worst_ulps=? "
                    "WHERE side=? AND name=?",
                    (1 - side, peer, how, *found, largest, side, name),
                )
        self._into.execute("DROP INDEX temporary_name")

    def _stack_texts(self) -> list[tuple[int, str]]:
        try:
            known = dict(self._result.connection().execute("SELECT id, stack_info FROM tb_stack"))
        except sqlite3.OperationalError:
            known = {}
        return [(i, "\n".join(map(str, json_list(known.get(name))))) for name, i in self._stacks.items()]


_NOTHING: tuple[float | None, ...] = (None,) * (5 + len(METRIC_COLUMNS))


class _Node:
    __slots__ = ("at", "head", "link", "name", "order", "tail", "up")

    def __init__(
        self,
        at: int,
        name: str,
        up: str,
        order: int,
        link: str,
        head: tuple[Any, ...],
        tail: tuple[Any, ...],
    ):
        self.at = at  # its number in the order of the file
        self.name, self.up, self.order, self.link, self.head, self.tail = name, up, order, link, head, tail


class _Tree:
    """Nodes in post-order. A node whose parent does not exist, and a second root, hang below the root; so
    does what hangs below itself.
    """

    def __init__(self, nodes: list[_Node]) -> None:
        nodes.sort(key=lambda node: node.order)
        below: dict[str, list[int]] = {}
        index_of = {node.name: index for index, node in enumerate(nodes)}
        tops = [index for index, node in enumerate(nodes) if node.up == "" or node.up not in index_of]
        root = index_of.get("DefaultModel", tops[-1] if tops else len(nodes) - 1)
        for index, node in enumerate(nodes):
            if index != root:
                known = node.up in index_of and node.up != node.name
                below.setdefault(node.up if known else nodes[root].name, []).append(index)
        order, parents, depths = _walk(nodes, root, below)
        place = {index: pos for pos, index in enumerate(order)}
        self.nodes = [nodes[index] for index in order]
        self.places = [0] * len(nodes)
        for pos, node in enumerate(self.nodes):
            self.places[node.at] = pos
        self.names = [node.name for node in self.nodes]
        self.parent = [place[parents[i]] if parents[i] is not None else None for i in order]  # type: ignore[index]
        self.depth = [depths[index] for index in order]
        self.first = list(range(len(order)))
        self.children = [0] * len(order)
        for pos, parent in enumerate(self.parent):
            if parent is not None:
                self.first[parent] = min(self.first[parent], self.first[pos])
                self.children[parent] += 1


def _walk(
    nodes: list[_Node], root: int, below: dict[str, list[int]]
) -> tuple[list[int], dict[int, int | None], dict[int, int]]:
    """Post-order, without recursion; parents; depths. Everything is reached: the rest hangs below the
    root."""
    if not nodes:
        return [], {}, {}
    parents: dict[int, int | None] = {root: None}
    depths = {root: 0}

    def down(start: int) -> list[int]:
        reversed_order, waiting = [], [start]
        while waiting:
            index = waiting.pop()
            reversed_order.append(index)
            for child in below.get(nodes[index].name, ()):
                if child not in parents:
                    parents[child], depths[child] = index, depths[index] + 1
                    waiting.append(child)
        return reversed_order[::-1]

    lost: list[int] = []
    main = down(root)
    for index in range(len(nodes)):
        if index not in parents:  # in a circle
            parents[index], depths[index] = root, 1
            lost += down(index)
    return lost + main, parents, depths


def _shape_text(cell: dict[str, str]) -> str:
    return f"{str(cell.get('dtype', '')).replace('torch.', '')}{cell.get('shape', '')}"


def _metrics(outputs: dict[str, dict[str, str]]) -> list[float | None]:
    """The worst value of each metric over the outputs."""
    found: list[float | None] = []
    for name, small_is_bad in METRICS.items():
        worst: float | None = None
        for cell in outputs.values():
            value = number(cell[name]) if name in cell else None
            if value is None or value != value:
                continue
            value = value if small_is_bad else abs(value)
            if worst is None or (value < worst if small_is_bad else value > worst):
                worst = value
        found.append(worst)
    return found


def main(arguments: list[str]) -> int:
    """The process of a large graph: FILE STEP RANK DIGEST; prints its progress, a number per line."""
    path, step, rank, digest = arguments
    shown = -1
    if hasattr(os, "nice"):
        os.nice(5)  # the tree can be used meanwhile

    def show(fraction: float) -> None:
        nonlocal shown
        if int(fraction * 100) > shown:
            shown = int(fraction * 100)
            print(shown, flush=True)

    build(open_result(Path(path)), int(step), int(rank), Path(digest), show)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
