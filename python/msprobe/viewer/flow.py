# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where a tensor comes from and goes to.

The files do not say it. But they hold what every call received and gave: an input whose checksum, or whose
statistics with dtype and shape, are those of an earlier output is that output. Tensors of equal elements
(masks, zeros) are left out, as they cannot be told apart; so are weights.

The digest has a mark (a hash of all that) for each tensor that some call gives and another one receives."""

from __future__ import annotations

from msprobe.native import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.graph_query import Graph

    Cells = dict[str, dict[str, str]]

_MOST_GOALS = 12  # of one tensor
_MOST_SEEN = 400
_MOST_ENDS = 60  # in one answer


def mark_of(cell: dict[str, str]) -> int | None:
    """A hash of what tells a tensor from another one. None for what cannot be told apart."""
    return core.cell_mark(cell)


def flow(graph: Graph, side: int, name: str, inputs: Cells, outputs: Cells) -> list[dict[str, Any]]:
    """The ends of the edges of one node: `port`, `into` (this node receives it), the other `node` and the
    modules around it, from the root down.
    """
    row = (
        graph.connection()
        .execute("SELECT pos, first FROM node WHERE side=? AND name=?", (side, name))
        .fetchone()
    )
    if row is None:
        return []
    pos, first = row
    found: list[dict[str, Any]] = []
    for port, cell in inputs.items():
        mark = None if ".parameters" in port else mark_of(cell)
        source = _source(graph, side, mark, first) if mark is not None else None
        if source is not None:
            found.append(_end(graph, side, port, source, into=True))
    for port, cell in outputs.items():
        mark = mark_of(cell)
        goals = _goals(graph, side, mark, pos) if mark is not None else []
        found += [_end(graph, side, port, goal, into=False) for goal in goals]
    return found[:_MOST_ENDS]


def _source(graph: Graph, side: int, mark: int, first: int) -> int | None:
    """The last one before that gives it; of a module and what is inside, the module."""
    sql = "SELECT max(pos) FROM flow WHERE side=? AND mark=? AND given=1 AND pos<?"
    found: int | None = graph.connection().execute(sql, (side, mark, first)).fetchone()[0]
    return found


def _goals(graph: Graph, side: int, mark: int, pos: int) -> list[int]:
    """Those that receive it afterwards, before another one gives the same; of a module and what is inside
    only the module.
    """
    connection = graph.connection()
    sql = (
        "SELECT n.pos, n.first FROM flow f JOIN node n ON n.side=f.side AND n.pos=f.pos WHERE f.side=? AND "
        f"f.mark=? AND f.given=0 AND f.pos>? AND n.first>? ORDER BY f.pos LIMIT {_MOST_SEEN}"
    )
    seen: list[tuple[int, int]] = connection.execute(sql, (side, mark, pos, pos)).fetchall()
    again = "SELECT min(f.pos) FROM flow f JOIN node n ON n.side=f.side AND n.pos=f.pos WHERE f.side=? AND "
    again += "f.mark=? AND f.given=1 AND f.pos>? AND n.first>?"
    end = connection.execute(again, (side, mark, pos, pos)).fetchone()[0]
    begins = dict(seen)
    kept: list[int] = []
    for place, begin in sorted(seen, reverse=True):  # a module comes before what is inside
        if (end is None or begin <= end) and not (kept and place >= begins[kept[-1]]):
            kept.append(place)
    return kept[::-1][:_MOST_GOALS]


def _end(graph: Graph, side: int, port: str, pos: int, *, into: bool) -> dict[str, Any]:
    sql = "SELECT name FROM node WHERE side=? AND pos=?"
    around = [*graph.ancestors(side, pos), pos]
    names = [str(graph.connection().execute(sql, (side, one)).fetchone()[0]) for one in around]
    return {"port": port, "into": into, "node": names[-1], "around": names[:-1]}
