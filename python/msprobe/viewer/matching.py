# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes matched by hand. The result file is never changed: what a user matches is kept in the state folder of
the user (`$XDG_STATE_HOME/msprobe/view`, usually `~/.local/state/msprobe/view`), a file per result file and
workspace. A workspace is a name that the page makes and keeps in its address, so users do not disturb each
other and a link shows what its sender saw."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.regular_file import read_text
from msprobe.native import FormatError, InvalidArgument
from msprobe.viewer.detail import node_cells
from msprobe.viewer.difference import METRICS, number, pairs, summary_index, ulps
from msprobe.viewer.digest import FIRST
from msprobe.viewer.graph_query import MANUAL_COLUMNS, MANUAL_TABLE
from msprobe.viewer.members import is_unicode
from msprobe.viewer.surroundings import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.graph_query import Graph

_MOST_FILE = 32 << 20
_MOST_PAIRS = 200_000
_MOST_UNDO = 500
_LOCK = threading.Lock()
# The last part of a name that is one of these words; a module may be called forward_net, or even forward.
_DIRECTION = re.compile(r"(.*\.)(forward|backward)((?:\..*)?)", re.DOTALL)


class Matching:
    """The manual matches of one graph in one workspace, with their history."""

    def __init__(self, graph: Graph, workspace: str) -> None:
        if not re.fullmatch(r"[a-z0-9]{1,16}", workspace):
            raise InvalidArgument("workspace: expected up to 16 small letters and digits")
        self._graph, self._workspace = graph, workspace
        self._path = state_folder() / f"{_identity(graph)}-{workspace}.json"
        content = self._read()
        self._history: list[dict[str, str | None]] = content["history"]  # states, the oldest first
        self._place: int = content["place"]

    @property
    def pairs(self) -> dict[str, str | None]:
        return self._history[self._place]

    def describe(self) -> dict[str, Any]:
        return {
            "pairs": [[target, reference] for target, reference in self.pairs.items()],
            "undo": self._place,
            "redo": len(self._history) - 1 - self._place,
        }

    def match(self, target: str, reference: str, *, children: bool) -> int:
        """How many nodes were matched. Nodes of different kinds do not match."""
        chosen = self._pair_up(target, reference, children)
        self._store({**self._without(chosen), **chosen})
        return len(chosen)

    def cancel(self, target: str, *, children: bool) -> int:
        """Takes the match of a node away, also one of the file."""
        names = [target, *(self._below(0, target) if children else [])]
        matched = [name for name in names if self._graph.peer_of(0, name, self._workspace) is not None]
        if not matched:
            raise InvalidArgument(f"{target!r} has no counterpart")
        self._store({**self.pairs, **dict.fromkeys(matched)})
        return len(matched)

    def move(self, steps: int) -> None:
        """Undo (-1) and redo (1)."""
        place = self._place + steps
        if not 0 <= place < len(self._history):
            raise InvalidArgument("there is nothing to undo" if steps < 0 else "there is nothing to redo")
        self._place = place
        self._write()
        self.apply()

    def load(self, text: str) -> tuple[int, list[str]]:
        """A .vis.config: JSON, target -> reference. Files of mindstudio-probe hold each pair in both
        directions: what is no node of the target is passed over when its reverse is there. How many matched,
        and what did not, with the reason."""
        content = _parse(text)
        failed, chosen = [], {}
        for target, reference in content.items():
            try:
                chosen.update(self._pair_up(target, reference, children=False))
            except InvalidArgument as error:
                if content.get(reference) != target:
                    failed.append(str(error))
        self._store({**self._without(chosen), **chosen})
        return len(chosen), failed[:200]

    def save_text(self) -> str:
        """As a .vis.config: target -> reference."""
        content = {target: reference for target, reference in self.pairs.items() if reference is not None}
        return json.dumps(content, indent=4, ensure_ascii=False)

    def apply(self) -> None:
        """Makes the digest know the matches."""
        connection = self._graph.connection()
        with _LOCK:
            connection.execute(MANUAL_TABLE)
            connection.execute("DELETE FROM manual WHERE workspace=?", (self._workspace,))
            rows = []
            for target, reference in self.pairs.items():
                rows += self._rows(target, reference)
            marks = ",".join("?" * (3 + len(MANUAL_COLUMNS)))
            connection.executemany(f"INSERT OR REPLACE INTO manual VALUES ({marks})", rows)
            connection.commit()
            if rows or self._workspace in self._graph.versions:
                versions = self._graph.versions
                versions[self._workspace] = versions.get(self._workspace, 0) + 1

    # ---- which nodes

    def _pair_up(self, target: str, reference: str, children: bool) -> dict[str, str | None]:
        ours, theirs = self._facts(0, target), self._facts(1, reference)
        if ours is None or theirs is None:
            missing, side = (target, "target") if ours is None else (reference, "reference")
            raise InvalidArgument(f"the {side} has no node {missing!r}")
        if (ours[1] == 1) != (theirs[1] == 1):
            raise InvalidArgument(f"{target!r} and {reference!r}: one is a module, the other a call")
        chosen: dict[str, str | None] = {target: reference}
        for mirror in _mirrored(target, reference):
            if self._facts(0, mirror[0]) and self._facts(1, mirror[1]):
                chosen[mirror[0]] = mirror[1]
        if children:
            for top_target, top_reference in list(chosen.items()):
                self._pair_children(top_target, top_reference or "", chosen)
        return chosen

    def _pair_children(self, target: str, reference: str, chosen: dict[str, str | None]) -> None:
        """By kind and equal last name, then by kind and position: fc1 goes with up when nothing else does."""
        waiting = [(target, reference)]
        while waiting and len(chosen) < _MOST_PAIRS:
            target, reference = waiting.pop()
            found = dict(_siblings(self._children(0, target), self._children(1, reference)))
            chosen.update(found)
            waiting += [(ours, theirs) for ours, theirs in found.items()]

    def _facts(self, side: int, name: str) -> tuple[int, int] | None:
        sql = "SELECT pos, kind FROM node WHERE side=? AND name=?"
        return self._graph.connection().execute(sql, (side, name)).fetchone()  # type: ignore[no-any-return]

    def _children(self, side: int, name: str) -> list[tuple[str, int]]:
        facts = self._facts(side, name)
        sql = "SELECT name, kind FROM node WHERE side=? AND parent=? ORDER BY pos"
        return self._graph.connection().execute(sql, (side, facts[0])).fetchall() if facts else []

    def _below(self, side: int, name: str) -> list[str]:
        sql = (
            "SELECT b.name FROM node n JOIN node b ON b.side=n.side AND b.pos>=n.first AND b.pos<n.pos "
            "WHERE n.side=? AND n.name=?"
        )
        return [row[0] for row in self._graph.connection().execute(sql, (side, name))]

    def _without(self, chosen: dict[str, str | None]) -> dict[str, str | None]:
        """The present matches; a reference node that is chosen again loses its old one."""
        taken = set(chosen.values())
        return {t: g for t, g in self.pairs.items() if g is None or g not in taken}

    # ---- what the digest says of them

    def _rows(self, target: str, reference: str | None) -> list[tuple[Any, ...]]:
        connection = self._graph.connection()
        ours = connection.execute("SELECT pos, peer FROM node WHERE side=0 AND name=?", (target,)).fetchone()
        if ours is None:
            return []
        nothing = (None,) * (len(MANUAL_COLUMNS) - 2)
        rows: list[tuple[Any, ...]] = []
        if ours[1] is not None:  # its counterpart of the file is alone now
            rows.append((self._workspace, 1, ours[1], None, None, *nothing))
        if reference is None:
            return [*rows, (self._workspace, 0, ours[0], None, "cancelled", *nothing)]
        theirs = connection.execute(
            "SELECT pos, peer FROM node WHERE side=1 AND name=?", (reference,)
        ).fetchone()
        if theirs is None:
            return []
        if theirs[1] is not None and theirs[1] != ours[0]:
            rows.append((self._workspace, 0, theirs[1], None, None, *nothing))
        rows.append((self._workspace, 1, theirs[0], ours[0], "manual", *nothing))
        rows.append((self._workspace, 0, ours[0], theirs[0], "manual", *self._values(target, reference)))
        return rows

    def _values(self, target: str, reference: str) -> tuple[float | None, ...]:
        """Of MANUAL_COLUMNS, without peer and how: from the statistics of both sides, in every mode."""
        ours, theirs = node_cells(self._graph, 0, target), node_cells(self._graph, 1, reference)
        worst: dict[str, float | None] = dict.fromkeys(FIRST)
        stripped = tuple({n: _plain_cell(c) for n, c in data.items()} for data in ours)
        for group, _, cell, _, other in pairs(
            (stripped[0], stripped[1]), theirs, gradients=target.endswith("parameters_grad")
        ):
            value = ulps(cell, other) if cell is not None and other is not None else None
            if value is not None and (worst[group] is None or value > worst[group]):  # type: ignore[operator]
                worst[group] = value
        found = [worst[group] for group in FIRST]
        largest = max((v for v in found if v is not None), default=None)
        config = self._graph.result.config
        if config.task == "md5":
            index = float(bool(largest) != config.small_index_is_bad)
        else:
            index = summary_index(ours[1], theirs[1])
        metrics = _metrics(ours[1], theirs[1])
        return (index, *found, largest, *(metrics.get(name) for name in METRICS))

    # ---- the file

    def _store(self, state: dict[str, str | None]) -> None:
        if len(state) > _MOST_PAIRS:
            raise InvalidArgument(f"expected at most {_MOST_PAIRS} matches by hand")
        self._history = [*self._history[: self._place + 1], state][-_MOST_UNDO:]
        self._place = len(self._history) - 1
        self._write()
        self.apply()

    def _read(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"history": [{}], "place": 0}
        try:
            if self._path.stat().st_size > _MOST_FILE:
                return empty
            content = json.loads(read_text(self._path))
            history = [dict(state) for state in content["history"]]
            place = int(content["place"])
        except (OSError, ValueError, KeyError, TypeError):
            return empty
        return {"history": history, "place": place} if 0 <= place < len(history) else empty

    def _write(self) -> None:
        make_directory(self._path.parent)
        while len(text := json.dumps({"history": self._history, "place": self._place})) > _MOST_FILE:
            self._history, self._place = self._history[1:], self._place - 1
        write_text(self._path, text)


def _parse(text: str) -> dict[str, str]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this .vis.config is no JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        raise FormatError("this .vis.config holds no object of names: expected target node -> reference node")
    if not all(is_unicode(name) for pair in content.items() for name in pair):
        raise FormatError("this .vis.config holds a name with half a character: expected Unicode text")
    if len(content) > _MOST_PAIRS:
        raise FormatError(f"this .vis.config holds more than {_MOST_PAIRS} pairs")
    return content


def _mirrored(target: str, reference: str) -> list[tuple[str, str]]:
    """Forward and backward of a node are matched together."""
    ours, theirs = _DIRECTION.fullmatch(target), _DIRECTION.fullmatch(reference)
    if ours is None or theirs is None or ours[2] != theirs[2]:
        return []
    other = "backward" if ours[2] == "forward" else "forward"
    return [(f"{ours[1]}{other}{ours[3]}", f"{theirs[1]}{other}{theirs[3]}")]


def _siblings(ours: list[tuple[str, int]], theirs: list[tuple[str, int]]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for by_name in (True, False):

        def key_of(name: str, kind: int, by_name: bool = by_name) -> tuple[int, str]:
            return kind, _short(name) if by_name else ""

        free: dict[tuple[int, str], deque[str]] = {}
        for name, kind in theirs:
            free.setdefault(key_of(name, kind), deque()).append(name)
        left = []
        for name, kind in ours:
            if like := free.get(key_of(name, kind)):
                found.append((name, like.popleft()))
            else:
                left.append((name, kind))
        taken = {reference for _, reference in found}
        ours, theirs = left, [(name, kind) for name, kind in theirs if name not in taken]
    return found


def _short(name: str) -> str:
    """The part that names a child in its parent: `fc1` of a module, `matmul` of a call."""
    parts = name.split(".")
    if parts[0] in ("Module", "Cell"):
        return parts[-4] + parts[-2] if len(parts) >= 5 else name
    return ".".join(part for part in parts if not part.isdigit())


def _plain_cell(cell: dict[str, str]) -> dict[str, str]:
    """Without what was found against another counterpart."""
    return {name: text for name, text in cell.items() if name not in METRICS and name != "Result"}


def _metrics(ours: dict[str, dict[str, str]], theirs: dict[str, dict[str, str]]) -> dict[str, float]:
    """The differences of statistics, the largest over the outputs."""
    found: dict[str, float] = {}
    names = {"Max": "Max diff", "Min": "Min diff", "Mean": "Mean diff", "Norm": "L2norm diff"}
    for cell, other in zip(ours.values(), theirs.values()):
        for statistic, name in names.items():
            target_value, reference_value = number(cell.get(statistic)), number(other.get(statistic))
            if target_value is None or reference_value is None:
                continue
            found[name] = max(found.get(name, 0.0), abs(target_value - reference_value))
            if reference_value:
                relative = f"{statistic}RelativeErr"
                found[relative] = max(
                    found.get(relative, 0.0), abs((target_value - reference_value) / reference_value)
                )
    return found


def _identity(graph: Graph) -> str:
    """The file, by its path and what it is a result of, and the graph."""
    path = str(graph.result.path.resolve())
    name = re.sub(r"[^A-Za-z0-9]+", "_", graph.result.path.name)[:40]
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{name}-{digest}-{graph.step}-{graph.rank}"
