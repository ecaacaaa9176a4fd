# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where a difference begins: what the file states, or the verdict says of its nodes."""

from __future__ import annotations

from msprobe.native import core
from msprobe.viewer.colouring import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.graph_query import Graph

_MOST = 50
_MOST_STATED = 2000  # of all micro steps


def findings(graph: Graph, workspace: str, micro: int = -1) -> list[dict[str, Any]]:
    """Most likely first, of one micro step or of all (-1). Each: node, kind ("output", "weight", "input",
    "gradient", "rounding", "overflow", "unmatched", "stated") and the numbers or the sentence that go with
    it.
    """
    key = (workspace, graph.versions.get(workspace, 0), micro)
    if key not in graph.findings:
        found = _stated(graph, micro)
        if not found and graph.result.config.is_compare:
            found = _suspects(graph, workspace, micro)
        found = found or _first_overflow(graph, micro) or _first_unmatched(graph, workspace, micro)
        graph.findings[key] = found[:_MOST]
    return graph.findings[key]


def _of(micro: int) -> str:
    """SQL: whether a row `n` belongs to the micro step."""
    return f"n.micro={int(micro)}" if micro >= 0 else "1"


def _stated(graph: Graph, micro: int) -> list[dict[str, Any]]:
    """What msprobe wrote into the file. What is at no node of the graph, as an input of the training, stands
    at its root.
    """
    found = []
    for node, side, texts in _rows_of_findings(graph):
        sql = f"SELECT n.name FROM node n WHERE n.side=? AND n.name=? AND {_of(micro)}"
        row = graph.connection().execute(sql, (side, node)).fetchone()
        if (
            row is None
            and not graph.connection()
            .execute("SELECT 1 FROM node WHERE side=? AND name=?", (side, node))
            .fetchone()
        ):
            row = (
                graph.connection()
                .execute("SELECT name FROM node WHERE side=? AND parent IS NULL", (side,))
                .fetchone()
            )
        if row is not None:
            found.append({"node": row[0], "side": side, "kind": "stated", **texts})
    return found


def _rows_of_findings(graph: Graph) -> list[tuple[str, int, dict[str, str]]]:
    """Node, side and texts."""
    if not graph.result.has_own_tables:
        return []
    for more in ("side, chinese, sum", "side, '', ''", "0, '', ''"):  # files of earlier versions lack some
        sql = (
            f"SELECT node, sentence, {more} FROM msprobe_findings WHERE step=? AND rank=? "
            "ORDER BY number LIMIT ?"
        )
        try:
            rows = graph.result.rows(sql, graph.step, graph.rank, _MOST_STATED)
        except ValueError:  # without this column, or the table
            continue
        found = []
        for node, sentence, side, chinese, of_sum in rows:
            texts = {"sentence": str(sentence), "chinese": str(chinese or ""), "sum": str(of_sum or "")}
            found.append(
                (str(node), 1 if side == 1 else 0, {key: text for key, text in texts.items() if text})
            )
        return found
    return []


def _suspects(graph: Graph, workspace: str, micro: int) -> list[dict[str, Any]]:
    """Where the file has no findings of msprobe: what the model of the verdict says of its nodes, as far as
    statistics of what goes in and comes out carry it (docs/verdict.md, Graph files).
    """
    sql = (
        "SELECT n.name, n.pos, n.first, n.parent, "
        "n.input_ulps, n.weight_ulps, n.gradient_ulps, n.output_ulps "
        f"FROM {graph.table(workspace)} n "
        f"WHERE n.side=0 AND n.worst_ulps > 0 AND {_of(micro)} ORDER BY n.pos"
    )
    rows = graph.connection().execute(sql, ()).fetchall()
    names = {row[1]: row[0] for row in rows}
    nodes = [
        (pos, first, -1 if parent is None else parent, *((value or 0.0) for value in numbers))
        for _, pos, first, parent, *numbers in rows
    ]
    found = [
        _finding(names[place], kind, value, before)
        for place, kind, value, before in core.suspects_of_nodes(nodes)
    ]
    if not found and rows:
        return [_finding(rows[0][0], "rounding", max((v or 0.0 for v in rows[0][4:]), default=0.0), 0.0)]
    return found


def _finding(node: str, kind: str, value: float, before: float) -> dict[str, Any]:
    return {"node": node, "side": 0, "kind": kind, "value": plain(value), "before": plain(before)}


def _first_overflow(graph: Graph, micro: int) -> list[dict[str, Any]]:
    """Not of level medium: what goes in is bad and what comes out is good, as in the softmax of a mask."""
    sql = (
        f"SELECT n.name, n.overflow FROM node n WHERE n.side=0 AND n.overflow>1 AND {_of(micro)} "
        f"ORDER BY n.overflow=3 DESC, n.overflow=2 DESC, n.pos LIMIT {_MOST}"
    )
    return [
        {"node": name, "side": 0, "kind": "overflow", "value": level}
        for name, level in graph.connection().execute(sql)
    ]


def _first_unmatched(graph: Graph, workspace: str, micro: int) -> list[dict[str, Any]]:
    if not graph.result.config.is_compare:
        return []
    table = graph.table(workspace)
    sql = (
        f"SELECT n.name, n.side FROM {table} n JOIN {table} p ON p.side=n.side AND p.pos=n.parent "
        f"WHERE n.peer IS NULL AND (p.peer IS NOT NULL OR p.parent IS NULL) AND {_of(micro)} "
        f"ORDER BY n.side, n.pos LIMIT {_MOST}"
    )
    return [
        {"node": name, "side": side, "kind": "unmatched"} for name, side in graph.connection().execute(sql)
    ]
