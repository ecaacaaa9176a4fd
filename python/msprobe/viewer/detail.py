# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""All that the file says about one node and its counterpart."""

from __future__ import annotations

from msprobe.native import InvalidArgument
from msprobe.viewer.colouring import plain
from msprobe.viewer.difference import pairs, ulps
from msprobe.viewer.flow import flow
from msprobe.viewer.result_file import SIDES, cells, json_list, json_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.graph_query import Graph

_MOST_ROWS = 1000  # tensors of one node; a foreach call of an optimizer has thousands
_MOST_FRAMES = 200
_MOST_TEXT = 4000  # characters of one cell


def detail(graph: Graph, side: int, name: str, workspace: str) -> dict[str, Any]:
    """Raises InvalidArgument where there is no such node."""
    own = _entry(graph, side, name)
    if own is None:
        raise InvalidArgument(f"there is no node {name!r} on this side")
    peer_name = graph.peer_of(side, name, workspace)
    peer = _entry(graph, 1 - side, peer_name) if peer_name is not None else None
    target, golden = (own, peer) if side == 0 else (peer, own)
    return {
        "target": _shown(graph, target, workspace),
        "golden": _shown(graph, golden, workspace),
        **_tensors(target, golden),
    }


def node_cells(
    graph: Graph, side: int, name: str
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Inputs and outputs; empty where there is no such node."""
    entry = _entry(graph, side, name)
    return (entry["input"], entry["output"]) if entry else ({}, {})


def _entry(graph: Graph, side: int, name: str) -> dict[str, Any] | None:
    source = graph.source_of(side, name)
    if source is None:
        return None
    columns = graph.result.columns
    wanted = (
        *("input_data", "output_data", "stack_id", "parallel_merge_info", "matched_distributed"),
        *("dump_data_dir", "overflow_level", "node_type", "up_node"),
    )
    sql = f"SELECT {', '.join(columns[column] for column in wanted)} FROM tb_nodes WHERE rowid=?"
    rows = graph.result.rows(sql, source)
    if not rows:
        return None
    entry: dict[str, Any] = dict(zip(wanted, rows[0]))
    entry |= {"name": name, "side": side}
    entry["input"], entry["output"] = cells(entry.pop("input_data")), cells(entry.pop("output_data"))
    return entry


def _shown(graph: Graph, entry: dict[str, Any] | None, workspace: str) -> dict[str, Any] | None:
    if entry is None:
        return None
    sql = f"SELECT value FROM {graph.table(workspace)} WHERE side=? AND name=?"
    (index,) = graph.connection().execute(sql, (entry["side"], entry["name"])).fetchone()
    return {
        "name": entry["name"],
        "side": entry["side"],
        "kind": int(entry["node_type"]) if str(entry["node_type"]).isdigit() else 0,
        "up": str(entry["up_node"] or ""),
        "index": plain(index),
        "overflow": entry["overflow_level"],
        "folder": entry["dump_data_dir"],
        "stack": _stack(graph, entry["stack_id"]),
        "merged": [str(line)[:_MOST_TEXT] for line in json_list(entry["parallel_merge_info"])],
        "links": links(entry["matched_distributed"]),
        "flow": flow(graph, entry["side"], entry["name"], entry["input"], entry["output"]),
        **_own(graph, entry),
    }


def _own(graph: Graph, entry: dict[str, Any]) -> dict[str, Any]:
    """Why there is no counterpart, where msprobe wrote it down."""
    if not graph.result.has_own_tables:
        return {}
    key = f"{SIDES[entry['side']]}_{graph.step}_{graph.rank}_{entry['name']}"
    rows = graph.result.rows("SELECT how, reason FROM msprobe_nodes WHERE id=?", key)
    return {"how": rows[0][0], "reason": rows[0][1]} if rows else {}


def _stack(graph: Graph, key: object) -> list[str]:
    try:
        rows = graph.result.rows("SELECT stack_info FROM tb_stack WHERE id=?", key)
    except ValueError:  # a file without this table
        return []
    return [str(frame)[:_MOST_TEXT] for frame in json_list(rows[0][0] if rows else None)[:_MOST_FRAMES]]


def links(text: object) -> list[dict[str, Any]]:
    """Communication: to which rank and node, "send", "receive" or "send_receive", with the text beside it."""
    operations = json_list(text) or [json_object(text)]
    found = []
    for operation in operations:
        peers = operation.get("nodes_info") if isinstance(operation, dict) else None
        for rank, entry in peers.items() if isinstance(peers, dict) else ():
            if isinstance(entry, list) and len(entry) == 2 and str(rank).isdigit():
                kind = str(operation.get("communications_type", ""))
                found.append({"rank": int(rank), "node": str(entry[1]), "text": str(entry[0]), "kind": kind})
    return found


def _tensors(target: dict[str, Any] | None, golden: dict[str, Any] | None) -> dict[str, Any]:
    """One row per tensor: of both sides, and how far they are apart."""
    rows = []
    name = (target or golden or {}).get("name", "")
    ours = (target["input"], target["output"]) if target else ({}, {})
    theirs = (golden["input"], golden["output"]) if golden else None
    for group, cell_name, cell, peer_name, other in pairs(
        ours, theirs, gradients=name.endswith("parameters_grad")
    ):
        distance = ulps(cell, other) if cell is not None and other is not None else None
        rows.append(
            {
                "group": group,
                "name": cell_name,
                "peer": peer_name,
                "target": _cut(cell),
                "golden": _cut(other),
                "ulps": plain(distance),
            }
        )
    return {"rows": rows[:_MOST_ROWS], "total": len(rows)}


def _cut(cell: dict[str, str] | None) -> dict[str, str] | None:
    return None if cell is None else {str(name): str(text)[:_MOST_TEXT] for name, text in cell.items()}
