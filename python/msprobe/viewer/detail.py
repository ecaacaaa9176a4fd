# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""All that the file says about one node and its counterpart."""

from __future__ import annotations

from msprobe.native import InvalidArgument
from msprobe.viewer.colouring import plain
from msprobe.viewer.difference import number, pairs, ulps
from msprobe.viewer.flow import flow
from msprobe.viewer.result_file import SIDES, cells, json_list, json_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.graph_query import Graph
    from msprobe.viewer.result_file import ResultFile

_MOST_ROWS = 1000  # tensors of one node; a foreach call of an optimizer has thousands
_MOST_FRAMES = 200
_MOST_TEXT = 4000  # characters of one cell


def detail(graph: Graph, side: int, name: str, workspace: str) -> dict[str, Any]:
    """Raises InvalidArgument where there is no such node."""
    own = _entry(graph, side, name)
    if own is None:
        raise _no_node(name)
    peer_name = graph.peer_of(side, name, workspace)
    peer = _entry(graph, 1 - side, peer_name) if peer_name is not None else None
    sql = f"SELECT value FROM {graph.table(workspace)} WHERE side=? AND name=?"
    for entry in (own, peer):
        if entry is not None:
            (index,) = graph.connection().execute(sql, (entry["side"], entry["name"])).fetchone()
            entry["precision_index"] = index
            entry["flow"] = flow(graph, entry["side"], entry["name"], entry["input"], entry["output"])
    return _of_both(graph.result, graph.step, graph.rank, own, peer)


def detail_from_file(result: ResultFile, step: int, rank: int, side: int, name: str) -> dict[str, Any]:
    """The same before there is a digest: as the file says it, without data flow."""

    def entry(side: int, name: str) -> dict[str, Any] | None:
        where = "step=? AND rank=? AND data_source=? AND node_name=?"
        return _read(result, side, name, where, (step, rank, SIDES[side], name))

    own = entry(side, name)
    if own is None:
        raise _no_node(name)
    path = json_list(own["matched_node_link"])
    return _of_both(result, step, rank, own, entry(1 - side, str(path[-1])) if path else None)


def _no_node(name: str) -> InvalidArgument:
    return InvalidArgument(f"there is no node {name!r} on this side")


def _of_both(
    result: ResultFile, step: int, rank: int, own: dict[str, Any], peer: dict[str, Any] | None
) -> dict[str, Any]:
    target, reference = (own, peer) if own["side"] == 0 else (peer, own)
    return {
        "target": _shown(result, step, rank, target),
        "reference": _shown(result, step, rank, reference),
        **_tensors(target, reference),
    }


def node_cells(
    graph: Graph, side: int, name: str
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Inputs and outputs; empty where there is no such node."""
    entry = _entry(graph, side, name)
    return (entry["input"], entry["output"]) if entry else ({}, {})


def _entry(graph: Graph, side: int, name: str) -> dict[str, Any] | None:
    source = graph.source_of(side, name)
    return None if source is None else _read(graph.result, side, name, "rowid=?", (source,))


def _read(result: ResultFile, side: int, name: str, where: str, values: Any) -> dict[str, Any] | None:
    wanted = (
        *("input_data", "output_data", "stack_id", "parallel_merge_info", "matched_distributed"),
        *("dump_data_dir", "overflow_level", "precision_index", "node_type", "up_node", "matched_node_link"),
    )
    columns = ", ".join(result.columns[column] for column in wanted)
    rows = result.rows(f"SELECT {columns} FROM tb_nodes WHERE {where}", *values)
    if not rows:
        return None
    entry: dict[str, Any] = dict(zip(wanted, rows[0]))
    entry |= {"name": name, "side": side, "flow": []}
    entry["input"], entry["output"] = cells(entry.pop("input_data")), cells(entry.pop("output_data"))
    return entry


def _shown(result: ResultFile, step: int, rank: int, entry: dict[str, Any] | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "name": entry["name"],
        "side": entry["side"],
        "kind": int(entry["node_type"]) if str(entry["node_type"]).isdecimal() else 0,
        "up": str(entry["up_node"] or ""),
        "index": plain(number(entry["precision_index"])),
        "overflow": entry["overflow_level"],
        "folder": entry["dump_data_dir"],
        "stack": _stack(result, entry["stack_id"]),
        "merged": [str(line)[:_MOST_TEXT] for line in json_list(entry["parallel_merge_info"])],
        "links": links(entry["matched_distributed"]),
        "flow": entry["flow"],
        **_own(result, f"{SIDES[entry['side']]}_{step}_{rank}_{entry['name']}"),
    }


def _own(result: ResultFile, key: str) -> dict[str, Any]:
    """Why there is no counterpart, where msprobe wrote it down."""
    if not result.has_own_tables:
        return {}
    rows = result.rows("SELECT how, reason FROM msprobe_nodes WHERE id=?", key)
    return {"how": rows[0][0], "reason": rows[0][1]} if rows else {}


def _stack(result: ResultFile, key: object) -> list[str]:
    try:
        rows = result.rows("SELECT stack_info FROM tb_stack WHERE id=?", key)
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
            if isinstance(entry, list) and len(entry) == 2 and str(rank).isdecimal():
                kind = str(operation.get("communications_type", ""))
                found.append({"rank": int(rank), "node": str(entry[1]), "text": str(entry[0]), "kind": kind})
    return found


def _tensors(target: dict[str, Any] | None, reference: dict[str, Any] | None) -> dict[str, Any]:
    """One row per tensor: of both sides, and how far they are apart."""
    rows = []
    name = (target or reference or {}).get("name", "")
    ours = (target["input"], target["output"]) if target else ({}, {})
    theirs = (reference["input"], reference["output"]) if reference else None
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
                "reference": _cut(other),
                "ulps": plain(distance),
            }
        )
    return {"rows": rows[:_MOST_ROWS], "total": len(rows)}


def _cut(cell: dict[str, str] | None) -> dict[str, str] | None:
    return None if cell is None else {str(name): str(text)[:_MOST_TEXT] for name, text in cell.items()}
