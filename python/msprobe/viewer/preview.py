# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tree straight from the result file, for the first picture of a large graph whose digest is not ready:
no sums, no search, but every node can be opened."""

from __future__ import annotations

from msprobe.viewer.colouring import NO_VALUE, UNMATCHED, plain
from msprobe.viewer.difference import number
from msprobe.viewer.digest import LEVELS
from msprobe.viewer.graph_query import PAGE
from msprobe.viewer.result_file import SIDES, json_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.colouring import Scale
    from msprobe.viewer.result_file import ResultFile

_READ = (
    *("node_name", "node_type", "sub_nodes", "micro_step_id", "precision_index", "overflow_level"),
    *("matched_node_link", "matched_distributed", "parallel_merge_info"),
)


def root(result: ResultFile, step: int, rank: int, side: int, scale: Scale) -> dict[str, Any] | None:
    rows = _rows(result, step, rank, side, "up_node=''", (), 0)
    named = [row for row in rows if row[0] == "DefaultModel"]
    return _wire(result, (named or rows)[-1], side, 0, scale) if rows else None


def children(
    result: ResultFile, step: int, rank: int, side: int, name: str, scale: Scale, *, micro: int, offset: int
) -> list[dict[str, Any]]:
    where, values = "up_node=?", [name]
    if micro >= 0 and name == "DefaultModel":
        where += f" AND {result.columns['micro_step_id']}=?"
        values.append(micro)  # type: ignore[arg-type]
    rows = _rows(result, step, rank, side, where, values, offset)
    return [_wire(result, row, side, 1, scale) for row in rows]


def _rows(
    result: ResultFile, step: int, rank: int, side: int, where: str, values: Any, offset: int
) -> list[tuple[Any, ...]]:
    columns = ", ".join(result.columns[name] for name in _READ)
    sql = (
        f"SELECT {columns} FROM tb_nodes WHERE step=? AND rank=? AND data_source=? AND {where} "
        "ORDER BY node_order LIMIT ? OFFSET ?"
    )
    return result.rows(sql, step, rank, SIDES[side], *values, PAGE, offset)


def _wire(result: ResultFile, row: tuple[Any, ...], side: int, depth: int, scale: Scale) -> dict[str, Any]:
    name, kind, below, micro, value, overflow, link, distributed, merged = row
    path = json_list(link)
    level = LEVELS.get(str(overflow), 0)
    shown = number(value) if scale.by == "index" else float(level) if scale.by == "overflow" else None
    alone = result.config.is_compare and not path and scale.by not in ("overflow", "kind")
    return {
        "side": side,
        "pos": None,
        "name": str(name),
        "depth": depth,
        "kind": int(kind) if str(kind).isdecimal() else 0,
        "children": len(json_list(below)),
        "micro": micro,
        "index": plain(number(value)),
        "overflow": level,
        "peer": str(path[-1]) if path else None,
        "peerPos": None,
        "how": "matched" if path else None,
        "links": int(distributed not in (None, "", "{}", "[]")),
        "merged": int(merged not in (None, "", "[]")),
        "ulps": None,
        "value": plain(shown),
        "class": UNMATCHED if alone else scale.class_of(shown) if shown is not None else NO_VALUE,
    }
