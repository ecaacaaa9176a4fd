# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""All ranks and steps at a glance, and who sends what to whom."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass, field

from msprobe.native import FormatError
from msprobe.viewer.colouring import plain
from msprobe.viewer.detail import links
from msprobe.viewer.difference import number
from msprobe.viewer.result_file import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.result_file import ResultFile

_MOST_CELLS = 20_000
_MOST_PARTNERS = 4096
_MOST_OPERATIONS = 500


@dataclass
class Overview:
    """The heat map of a file, filled in behind the server: the cells of a large file take a while."""

    result: ResultFile
    cells: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False
    fault: str = ""
    _thread: threading.Thread | None = None

    def state(self) -> dict[str, Any]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._fill, daemon=True)
            self._thread.start()
            self._thread.join(0.1)  # a small file is answered at once
        if self.fault:
            raise FormatError(self.fault)
        return {"cells": list(self.cells), "done": self.done}

    def _fill(self) -> None:
        config = self.result.config
        connection = connect(self.result.source)
        try:
            for step in config.steps:
                for rank in config.ranks:
                    if len(self.cells) < _MOST_CELLS:
                        self.cells.append(self._cell(connection, step, rank))
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            self.fault = f"{self.result.path.name} is damaged: {error}"
        finally:
            self.done = True
            connection.close()

    def _cell(self, connection: Any, step: int, rank: int) -> dict[str, Any]:
        columns = self.result.columns
        down = self.result.config.small_index_is_bad
        intervals = self.result.config.colours
        top = max((high for _, _, high in intervals), default=1.0)
        index = columns["precision_index"]
        counts = [
            f"sum({index} >= {low!r} AND {index} {'<=' if high in (low, top) else '<'} {high!r})"
            for _, low, high in intervals
        ]
        level = columns["overflow_level"]
        sql = (
            f"SELECT count(*), sum({columns['matched_node_link']} IN ('[]', '')), "
            f"{'min' if down else 'max'}({index}), "
            f"max(CASE {level} WHEN 'medium' THEN 1 WHEN 'high' THEN 2 WHEN 'critical' THEN 3 ELSE 0 END)"
            f"{''.join(', ' + count for count in counts)} "
            "FROM tb_nodes WHERE step=? AND rank=? AND data_source='NPU'"
        )
        total, unmatched, worst, overflow, *found = connection.execute(sql, (step, rank)).fetchone()
        return {
            "step": step,
            "rank": rank,
            "nodes": total,
            "unmatched": unmatched or 0,
            "worst": plain(number(worst)),
            "overflow": overflow or 0,
            "counts": [count or 0 for count in found],
            "ulps": self._own(connection, step, rank),
        }

    def _own(self, connection: Any, step: int, rank: int) -> Any:
        if not self.result.has_own_tables:
            return None
        sql = (
            "SELECT m.worst_ulps FROM tb_nodes t JOIN msprobe_nodes m ON m.id=t.id WHERE t.step=? "
            "AND t.rank=? "
            "AND t.data_source='NPU' AND t.up_node='' ORDER BY t.node_order DESC LIMIT 1"
        )
        row = connection.execute(sql, (step, rank)).fetchone()
        return plain(number(row[0])) if row else None


def communication(result: ResultFile, step: int) -> dict[str, Any]:
    """Who sends to whom in the target: for each pair of ranks the number of operations and the worst
    index."""
    found: dict[tuple[int, int], list[Any]] = {}
    for rank in result.config.ranks:
        for name, text in _operations(result, step, rank):
            for link in links(text)[:_MOST_PARTNERS]:
                if link["kind"] == "receive":  # counted at the rank that sends
                    continue
                pair = (rank, link["rank"])
                cell = found.setdefault(pair, [0, None, None])
                cell[0] += 1
                value = number(link["text"])
                if (
                    value is not None
                    and value == value
                    and (cell[1] is None or _is_worse(result, value, cell[1]))
                ):
                    cell[1], cell[2] = value, name
    return {
        "ranks": result.config.ranks,
        "cells": [
            {"from": source, "to": target, "count": count, "worst": worst, "node": node}
            for (source, target), (count, worst, node) in sorted(found.items())[:_MOST_CELLS]
        ],
    }


def operations_between(result: ResultFile, step: int, source: int, target: int) -> list[dict[str, Any]]:
    """The operations of one cell of the communication overview, from the side of `source`."""
    found = []
    for name, text in _operations(result, step, source):
        for link in links(text):
            if link["rank"] == target and link["kind"] != "receive":
                found.append({**link, "node": name, "peer": link["node"]})
    return found[:_MOST_OPERATIONS]


def _operations(result: ResultFile, step: int, rank: int) -> list[tuple[str, str]]:
    column = result.columns["matched_distributed"]
    sql = (
        f"SELECT node_name, {column} FROM tb_nodes WHERE step=? AND rank=? AND data_source='NPU' "
        f"AND node_name >= 'Distributed' AND node_name < 'Distributee' AND {column} NOT IN ('{{}}', '[]', '')"
    )
    return result.rows(sql, step, rank)


def _is_worse(result: ResultFile, value: float, than: float) -> bool:
    return value < than if result.config.small_index_is_bad else value > than
