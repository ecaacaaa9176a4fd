# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes as they go over the wire: a third of their size, as the names of members are not repeated.

A list of nodes becomes {"keys": [..], "rows": [[..], ..]}. In a row a counterpart of the same name is `true`,
and what is below a module a list in the order of BELOW. The page undoes it: viewer/src/source.ts."""

from __future__ import annotations

import json
from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEYS = (
    *("side", "pos", "name", "depth", "kind", "children", "micro", "index", "overflow", "peer", "peerPos"),
    *("how", "links", "merged", "ulps", "value", "class", "below"),
)
BELOW = ("nodes", "counts", "unmatched", "worst", "worstAt", "strip")
_NAME, _PEER = KEYS.index("name"), KEYS.index("peer")
_head, _below = itemgetter(*KEYS[:-1]), itemgetter(*BELOW)


def packed(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer of the API with its lists of nodes packed; everything else as it is."""
    found = dict(answer)
    if isinstance(answer.get("nodes"), list):
        found["nodes"] = _nodes(answer["nodes"])
    if isinstance(answer.get("lists"), list):
        found["lists"] = [{**one, "nodes": _nodes(one["nodes"])} for one in answer["lists"]]
    if isinstance(answer.get("tree"), dict):
        found["tree"] = packed(answer["tree"])
    return found


def encoded(answer: dict[str, Any]) -> bytes:
    """An answer of the API as the body of a response."""
    text = json.dumps(packed(answer), separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")  # names may hold what is no UTF-8


def _nodes(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"keys": KEYS, "below": BELOW, "rows": [_row(node) for node in nodes]}


def _row(node: dict[str, Any]) -> list[Any]:
    row = [*_head(node)]
    if row[_PEER] is not None and row[_PEER] == row[_NAME]:
        row[_PEER] = True
    below = node.get("below")
    if below is not None:  # most nodes are leaves
        row.append(_below(below))
    return row
