# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Questions about one graph (one step and rank, both sides), answered from its digest a page at a time."""

from __future__ import annotations

import re
import sqlite3
import threading
from dataclasses import dataclass, field

from msprobe.native import InvalidArgument
from msprobe.viewer.colouring import (
    UNMATCHED,
    Colours,
    Frame,
    class_sql,
    plain,
    scale_of,
    series,
    value_sql,
)
from msprobe.viewer.digest import METRIC_COLUMNS, SERIES
from msprobe.viewer.regex_literals import literals
from msprobe.viewer.regex_search import regex_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from msprobe.viewer.colouring import Scale
    from msprobe.viewer.result_file import ResultFile

MOST_NODES = 9000  # in one answer
MOST_BYTES = 930_000  # of one answer, about: see weight
PAGE = 500  # children of one node in one answer
_PART = 2000  # nodes read at once where their size decides how many there are
_MOST_COLOURS = 8
_TEXT_TABLES = ("shape", "stack")  # a node has the number of its text
_COLUMNS = (
    *("side", "pos", "name", "parent", "depth", "kind", "children", "micro", "value", "overflow"),
    *("peer", "how", "links", "merged"),
)
_SORTS = {
    "order": "n.pos",
    "name": "n.name",
    "kind": "n.kind",
    "index": "n.value",
    "overflow": "n.overflow",
    "difference": "n.worst_ulps",
    "outputs": "n.output_ulps",
    "inputs": "n.input_ulps",
    "weights": "n.weight_ulps",
    "gradients": "n.gradient_ulps",
    **{name: f"n.{column}" for name, column in METRIC_COLUMNS.items()},
}


@dataclass(frozen=True)
class Wanted:
    """A list of nodes: search, filter and ranking in one."""

    text: str = ""
    within: str = "name"  # name, regex, shape, stack
    side: int | None = None
    kind: int | None = None
    micro: int = -1
    classes: tuple[int, ...] = ()  # of the colouring; UNMATCHED too
    only: str = ""  # leaves, modules, suspicious, overflowing, added, removed, moved, manual
    sort: str = "order"
    ascending: bool = True
    offset: int = 0
    limit: int = 100


@dataclass
class Graph:
    """Thread-safe. `table`: "node", or a view of it that knows the manual matches of one workspace."""

    result: ResultFile
    step: int
    rank: int
    path: Path
    _local: threading.local = field(default_factory=threading.local)
    _colours: dict[Any, Colours] = field(default_factory=dict)
    _frames: dict[str, Any] = field(default_factory=dict)
    _last_values: tuple[Any, Any] = (None, None)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    versions: dict[str, int] = field(default_factory=dict)  # workspace -> changes of its manual matches
    findings: dict[tuple[str, int, int], list[dict[str, Any]]] = field(default_factory=dict)  # known ones

    def connection(self) -> sqlite3.Connection:
        found = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self.path, check_same_thread=False, timeout=20)
            found.execute("PRAGMA cache_size=-4000")
            self._local.connection = found
        return found

    def table(self, workspace: str) -> str:
        if not self.versions.get(workspace):
            return "node"
        name = f"node_{workspace}"
        self.connection().execute(_view(name, workspace))
        return name

    def scale(self, by: str, bounds: list[float] | None = None) -> Scale:
        return scale_of(self.result.config, by, bounds)

    def colours(self, scale: Scale, side: int, workspace: str) -> Colours:
        version = (workspace, self.versions.get(workspace, 0))
        key = (scale, side, version)
        with self._lock:
            found = self._colours.get(key)
            if found is None:
                frame = self._frame(workspace, version)
                values = self._values(scale, side, workspace, frame)
                compare = self.result.config.is_compare
                found = Colours(frame, values, scale, side, compare)
                while len(self._colours) >= _MOST_COLOURS:
                    self._colours.pop(next(iter(self._colours)))
                self._colours[key] = found
        return found

    def forget_values(self) -> None:
        """Own data was replaced."""
        with self._lock:
            self._last_values = (None, None)
            self._colours = {
                key: one for key, one in self._colours.items() if not key[0].by.startswith("own:")
            }

    def warm_up(self) -> None:
        """The colouring that the page begins with."""
        config = self.result.config
        scale = self.scale("index" if config.is_compare else "overflow" if config.has_overflow else "kind")
        for side in (0, 1) if self.result.config.is_compare else (0,):
            self.colours(scale, side, "")

    def _frame(self, workspace: str, version: tuple[str, int]) -> Frame:
        if "" not in self._frames:
            self._frames[""] = ("", 0), Frame(self.connection())
        if not version[1]:
            return self._frames[""][1]  # type: ignore[no-any-return]
        if self._frames.get(workspace, (None,))[0] != version:
            sql = "SELECT side, pos, ifnull(peer, -1) FROM manual WHERE workspace=?"
            changes = self.connection().execute(sql, (workspace,)).fetchall()
            kept = {"": self._frames[""]}  # of the workspaces only the last one that was asked for
            self._frames = {**kept, workspace: (version, self._frames[""][1].changed(changes))}
        return self._frames[workspace][1]  # type: ignore[no-any-return]

    def _values(self, scale: Scale, side: int, workspace: str, frame: Frame) -> Any:
        """An array: of the reference side the values of the counterparts, but for overflow and own data."""
        import numpy as np

        own = scale.is_own
        source = side if own else 0
        if self._last_values[0] != (scale.column, source):
            self._last_values = ((scale.column, source), self._column(scale.column, source))
        values = self._last_values[1]
        if self.versions.get(workspace) and not own:
            sql = f"SELECT n.pos, {scale.column} FROM manual n WHERE n.workspace=? AND n.side=0"
            values = values.copy()
            for pos, value in self.connection().execute(sql, (workspace,)):
                values[pos] = np.nan if value is None else value
        if side == 0 or own:
            return values
        peers = frame.peers[1]
        found = np.full(len(peers), np.nan)
        found[peers >= 0] = values[peers[peers >= 0]]
        return found

    def _column(self, column: str, side: int) -> Any:
        import numpy as np

        if column.removeprefix("n.") in SERIES:
            return series(self.connection(), side, column.removeprefix("n."))
        rows = self.connection().execute(
            f"SELECT {column} FROM node n WHERE n.side=? ORDER BY n.pos", (side,)
        )
        return np.fromiter((np.nan if row[0] is None else row[0] for row in rows), np.float64)

    # ---- nodes

    def coloured(
        self, side: int, places: Sequence[int], scale: Scale, workspace: str, micro: int = -1
    ) -> dict[str, Any]:
        """What depends on the colouring, of nodes that are known: the class, the value and, of those with
        something inside, [which of `places`, what is below]. `micro`: what is below the root is of this one.
        """
        colours = self.colours(scale, side, workspace)
        places = [min(max(0, place), len(colours.classes) - 1) for place in places]
        inner = [at for at, place in enumerate(places) if colours.firsts[place] < place]
        below = colours.below([places[at] for at in inner])
        root = len(colours.classes) - 1
        if micro >= 0 and root in places and colours.firsts[root] < root:
            below[inner.index(places.index(root))] = colours.below_of(self._shown(side, root, micro))
        return {
            "classes": colours.classes_at(places),
            "values": colours.values_at(places),
            "below": list(zip(inner, below)),
        }

    def node(self, side: int, name: str, scale: Scale, workspace: str) -> dict[str, Any] | None:
        found = self._nodes("n.side=? AND n.name=?", (side, name), scale, workspace, limit=1)
        return found[0] if found else None

    def at(self, side: int, pos: int, scale: Scale) -> dict[str, Any]:
        return self._nodes("n.side=? AND n.pos=?", (side, pos), scale, "", limit=1)[0]

    def root(self, side: int, scale: Scale, workspace: str, micro: int = -1) -> dict[str, Any] | None:
        """With what is below it, of one micro step or of all (-1)."""
        found = self._nodes("n.side=? AND n.parent IS NULL", (side,), scale, workspace, limit=1)
        if found and micro >= 0 and "below" in found[0]:
            shown = self._shown(side, found[0]["pos"], micro)
            found[0]["below"] = self.colours(scale, side, workspace).below_of(shown)
        return found[0] if found else None

    def _shown(self, side: int, root: int, micro: int) -> Any:
        """The places of the nodes of a micro step, and of the root, which is last."""
        import numpy as np

        sql = "SELECT first, pos FROM node WHERE side=? AND parent=? AND micro=? ORDER BY pos"
        rows = self.connection().execute(sql, (side, root, micro)).fetchall()
        return np.concatenate([*(np.arange(first, pos + 1) for first, pos in rows), [root]]).astype(np.int64)

    def children(
        self,
        side: int,
        pos: int,
        scale: Scale,
        workspace: str,
        *,
        micro: int = -1,
        offset: int = 0,
        limit: int = PAGE,
    ) -> list[dict[str, Any]]:
        """In order of execution. `micro`: of the children of the root, only those of this micro step."""
        where, values = "n.side=? AND n.parent=?", [side, pos]
        if micro >= 0:
            where += " AND (n.micro=? OR n.depth<>1)"
            values.append(micro)
        return self._nodes(where, values, scale, workspace, limit=min(limit, MOST_NODES), offset=offset)

    def ancestors(self, side: int, pos: int) -> list[int]:
        """From the root down to the parent."""
        found: list[int] = []
        sql = "SELECT parent FROM node WHERE side=? AND pos=?"
        while (row := self.connection().execute(sql, (side, pos)).fetchone()) and row[0] is not None:
            pos = row[0]
            found.append(pos)
        return found[::-1]

    def nearest_peer(self, side: int, pos: int, workspace: str) -> int | None:
        """On the other side: the counterpart of the nearest module around a node that has one."""
        sql = f"SELECT peer FROM {self.table(workspace)} WHERE side=? AND pos=?"
        for above in reversed(self.ancestors(side, pos)):
            peer: int | None = self.connection().execute(sql, (side, above)).fetchone()[0]
            if peer is not None:
                return peer
        return None

    def pos_of(self, side: int, name: str) -> int | None:
        row = (
            self.connection().execute("SELECT pos FROM node WHERE side=? AND name=?", (side, name)).fetchone()
        )
        return row[0] if row else None

    def source_of(self, side: int, name: str) -> int | None:
        """Where the node is in the result file."""
        row = (
            self.connection()
            .execute("SELECT source FROM node WHERE side=? AND name=?", (side, name))
            .fetchone()
        )
        return row[0] if row else None

    def peer_of(self, side: int, name: str, workspace: str) -> str | None:
        sql = (
            f"SELECT o.name FROM {self.table(workspace)} n JOIN node o ON o.side=1-n.side AND o.pos=n.peer "
            "WHERE n.side=? AND n.name=?"
        )
        row = self.connection().execute(sql, (side, name)).fetchone()
        return row[0] if row else None

    def expanded(
        self, scale: Scale, workspace: str, level: int, micro: int
    ) -> tuple[list[dict[str, Any]], bool]:
        """The nodes of both sides down to `level`; False: they are not all."""
        where, values = "n.depth<=?", [level]
        if micro >= 0:
            where += " AND n.micro=? OR n.parent IS NULL"
            values.append(micro)
        found: list[dict[str, Any]] = []
        room = MOST_BYTES
        while True:
            part = self._nodes(
                *(where, values, scale, workspace),
                limit=min(_PART, MOST_NODES - len(found) + 1),
                offset=len(found),
                order="n.depth, n.side, n.pos",
            )
            for node in part:
                room -= weight(node)
                if room < 0 or len(found) == MOST_NODES:
                    return found, False
                found.append(node)
            if len(part) < _PART:
                return found, True

    # ---- lists

    def listed(self, wanted: Wanted, scale: Scale, workspace: str) -> tuple[int, list[dict[str, Any]]]:
        """How many nodes are wanted, and a page of them."""
        where, values = self._where(wanted, scale, workspace)
        table = self.table(workspace)
        order = _SORTS.get(wanted.sort)
        if wanted.sort == "colour":
            order = value_sql(scale, 0, table)
        if order is None:
            raise InvalidArgument(f"sort: expected one of {', '.join(_SORTS)}, found {wanted.sort!r}")
        direction = "" if wanted.ascending else " DESC"
        if wanted.sort not in ("order", "name"):
            where = f"({where}) AND {order} IS NOT NULL"
        if self._is_plain(wanted, scale, workspace):
            return self._ranked(wanted, scale, workspace)
        if wanted.within == "regex" and wanted.text:
            return self._by_regex(wanted, where, values, scale, workspace, order + direction)
        order += f"{direction}, n.side, n.pos"
        limit = max(0, min(wanted.limit, PAGE))
        found = self._nodes(where, values, scale, workspace, limit=limit, offset=wanted.offset, order=order)
        if len(found) < limit and (found or wanted.offset <= 0):
            return max(0, wanted.offset) + len(found), found  # these are the last ones: no second search
        count = self.connection().execute(f"SELECT count(*) FROM {table} n WHERE {where}", values).fetchone()
        return int(count[0]), found

    def _is_plain(self, wanted: Wanted, scale: Scale, workspace: str) -> bool:
        """Whether classes, a shape or a stack, and a ranking are all that counts, as with a click on the
        legend: the arrays know them."""
        column = _SORTS.get(wanted.sort, "")
        plain_sort = wanted.sort == "order" or column.removeprefix("n.") in SERIES
        if UNMATCHED in wanted.classes and scale.is_own:
            return False  # it is no class of this colouring
        plain_text = not wanted.text or wanted.within in _TEXT_TABLES
        others = not plain_text or wanted.only or wanted.kind is not None or wanted.micro >= 0
        asks = bool(wanted.classes or wanted.text) or wanted.sort != "order"
        return asks and plain_sort and not others and not self.versions.get(workspace)

    def _ranked(self, wanted: Wanted, scale: Scale, workspace: str) -> tuple[int, list[dict[str, Any]]]:
        import numpy as np

        sides = [wanted.side] if wanted.side is not None else [0, 1] if self.result.config.is_compare else [0]
        places, owners, keys = [], [], []
        for side in sides:
            classes = self.colours(scale, side, workspace).classes
            fits = np.isin(classes, wanted.classes) if wanted.classes else np.ones(len(classes), bool)
            if wanted.classes and len(classes) and classes[-1] == UNMATCHED:
                fits[-1] = False  # the root; it stands for no node of the model
            if wanted.text:
                fits &= np.isin(series(self.connection(), side, wanted.within), self._texts(wanted))
            here = np.flatnonzero(fits)
            places.append(here)
            owners.append(np.full(len(here), side))
            if wanted.sort != "order":
                values = series(self.connection(), side, _SORTS[wanted.sort].removeprefix("n."))[here]
                keys.append(values if wanted.ascending else -values)
        place, owner = np.concatenate(places), np.concatenate(owners)
        if keys:
            key = np.concatenate(keys)
            order = np.lexsort((place, owner, key))[: np.count_nonzero(~np.isnan(key))]
        else:
            order = np.lexsort((owner, place if wanted.ascending else -place))
        limit = max(0, min(wanted.limit, PAGE))
        shown = order[max(0, wanted.offset) :][:limit]
        pairs = list(zip(owner[shown].tolist(), place[shown].tolist()))
        return len(order), self._at_all(pairs, scale, workspace)

    def _texts(self, wanted: Wanted) -> list[int]:
        """The shapes or stacks, by their numbers, that hold the text."""
        found = self.connection().execute(_holding(wanted.within), (_like(wanted.text),))
        return [number for (number,) in found]

    def following(
        self, start: int | None, backwards: bool, wanted: Wanted, scale: Scale, workspace: str
    ) -> dict[str, Any] | None:
        """The next node of the target (or of wanted.side) that is wanted, as one reads the graph: a module,
        then what is inside. `start`: None for the first one, or the last."""
        where, values = self._where(wanted, scale, workspace)
        side = wanted.side or 0
        order = "n.first DESC, n.pos" if backwards else "n.first, n.pos DESC"
        where = f"({where}) AND n.side=?"
        values.append(side)
        if start is not None:
            sql = "SELECT first, pos FROM node WHERE side=? AND pos=?"
            first, pos = self.connection().execute(sql, (side, start)).fetchone()
            after, inside = ("<", ">") if backwards else (">", "<")
            where += f" AND n.first{after}=? AND (n.first{after}? OR n.pos{inside}?)"
            values += [first, first, pos]
        found = self._nodes(where, values, scale, workspace, limit=1, order=order)
        return found[0] if found else None

    def _where(self, wanted: Wanted, scale: Scale, workspace: str) -> tuple[str, list[Any]]:
        terms: list[str] = ["1"]
        values: list[Any] = []

        def add(term: str, *more: Any) -> None:
            terms.append(f"({term})")
            values.extend(more)

        if wanted.side is not None:
            add("n.side=?", wanted.side)
        if wanted.kind is not None:
            add("n.kind=?", wanted.kind)
        if wanted.micro >= 0:
            add("n.micro=?", wanted.micro)
        if wanted.text:
            self._add_text(wanted, add)
        if wanted.classes:
            add(self._class_term(wanted, scale, workspace))
        if wanted.only:
            add(_only(wanted.only, self.table(workspace)))
        return " AND ".join(terms), values

    def _add_text(self, wanted: Wanted, add: Any) -> None:
        pattern = _like(wanted.text)
        if wanted.within == "name":
            add("n.name LIKE ? ESCAPE '\\'", pattern)
        elif wanted.within == "regex":
            try:
                re.compile(wanted.text)
            except (re.error, RecursionError, OverflowError) as error:
                raise InvalidArgument(f"this is no regular expression: {error}") from error
            for text in literals(wanted.text)[:3]:
                add("n.name LIKE ? ESCAPE '\\'", _like(text))
            add("n.name REGEXP ?", wanted.text)
        elif wanted.within in _TEXT_TABLES:
            add(f"n.{wanted.within} IN ({_holding(wanted.within)})", pattern)
        else:
            raise InvalidArgument(f"search in: expected name, regex, shape or stack, found {wanted.within!r}")

    def _class_term(self, wanted: Wanted, scale: Scale, workspace: str) -> str:
        table = self.table(workspace)
        numbers = ",".join(str(int(number)) for number in wanted.classes if number != UNMATCHED) or "NULL"
        alone = "n.peer IS NULL AND n.parent IS NOT NULL"
        terms = []
        for side in (0, 1) if wanted.side is None else (wanted.side,):
            inside = f"{class_sql(scale, side, table)} IN ({numbers})"
            if scale.by not in ("overflow", "kind") and self.result.config.is_compare:
                inside = f"n.peer IS NOT NULL AND {inside}"
            terms.append(f"(n.side={side} AND ({inside}))")
        if UNMATCHED in wanted.classes:
            terms.append(f"({alone})")
        return " OR ".join(terms)

    def _by_regex(
        self, wanted: Wanted, where: str, values: list[Any], scale: Scale, workspace: str, order: str
    ) -> tuple[int, list[dict[str, Any]]]:
        table = self.table(workspace)
        sql = f"SELECT n.side, n.pos FROM {table} n WHERE {where} ORDER BY {order}, n.side, n.pos"
        before = [] if table == "node" else [_view(table, workspace)]
        begin = max(0, wanted.offset)
        page = slice(begin, begin + max(0, min(wanted.limit, PAGE)))
        total, shown = regex_rows(self.path, before, sql, values, wanted.text, page)
        return total, self._at_all(shown, scale, workspace)

    def _at_all(self, shown: list[tuple[int, int]], scale: Scale, workspace: str) -> list[dict[str, Any]]:
        """Nodes by side and place, in this order."""
        if not shown:
            return []
        chosen = ", ".join(f"({int(side)}, {int(pos)})" for side, pos in shown)
        found = self._nodes(f"(n.side, n.pos) IN (VALUES {chosen})", (), scale, workspace, limit=len(shown))
        in_order = {(side, pos): at for at, (side, pos) in enumerate(shown)}
        return sorted(found, key=lambda node: in_order[node["side"], node["pos"]])

    def _nodes(
        self,
        where: str,
        values: Any,
        scale: Scale,
        workspace: str,
        *,
        limit: int,
        offset: int = 0,
        order: str = "n.pos",
    ) -> list[dict[str, Any]]:
        table = self.table(workspace)
        columns = ", ".join(f"n.{name}" for name in _COLUMNS)
        # A reference node has the difference of its counterpart. Not by a join with a view, which would be
        # written out as a table first.
        theirs = f"(SELECT t.worst_ulps FROM {table} t WHERE t.side=0 AND t.pos=n.peer)"
        worst = f"CASE n.side WHEN 0 THEN n.worst_ulps ELSE {theirs} END"
        # The inner query sorts places only; what belongs to them is read for the page alone.
        sql = (
            f"WITH page AS (SELECT n.side AS side, n.pos AS pos FROM {table} n WHERE {where} ORDER BY "
            f"{order} LIMIT ? OFFSET ?) SELECT {columns}, {worst}, o.name "
            f"FROM page JOIN {table} n ON n.side=page.side AND n.pos=page.pos "
            f"LEFT JOIN node o ON o.side=1-n.side AND o.pos=n.peer ORDER BY {order}"
        )
        rows = self.connection().execute(sql, (*values, limit, max(0, offset))).fetchall()
        nodes = [_wire(row) for row in rows]
        for side in (0, 1):
            here = [node for node in nodes if node["side"] == side]
            if not here:
                continue
            colours = self.colours(scale, side, workspace)
            places = [node["pos"] for node in here]
            for node, value, number in zip(here, colours.values_at(places), colours.classes_at(places)):
                node["value"], node["class"] = value, number
            inner = [node for node in here if node["children"]]
            for node, below in zip(inner, colours.below([node["pos"] for node in inner])):
                node["below"] = below
        return nodes


def _holding(table: str) -> str:
    """SQL: the numbers of the texts that hold what is given for `?`."""
    return f"SELECT id FROM {table} WHERE text LIKE ? ESCAPE '\\'"


def _like(text: str) -> str:
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def weight(node: dict[str, Any]) -> int:
    """Of a node in an answer: how many bytes it takes, about."""
    names = len(node["name"]) + (len(node["peer"]) if node["peer"] not in (None, node["name"]) else 0)
    return 60 + names + (190 if node["children"] else 0)


def _wire(row: tuple[Any, ...]) -> dict[str, Any]:
    """A node as the page gets it."""
    (side, pos, name, up, depth, kind, children, micro, value, overflow) = row[:10]
    peer, how, links, merged, worst, peer_name = row[10:]
    return {
        "side": side,
        "pos": pos,
        "name": name,
        "up": up,
        "depth": depth,
        "kind": kind,
        "children": children,
        "micro": micro,
        "index": plain(value),
        "overflow": overflow,
        "peer": peer_name,
        "peerPos": peer,
        "how": how,
        "links": links,
        "merged": merged,
        "ulps": plain(worst),
    }


def _only(what: str, table: str) -> str:
    terms = {
        "leaves": "n.children=0",
        "modules": "n.children>0",
        "suspicious": "n.worst_ulps > 64",
        "overflowing": "n.overflow > 0",
        "added": "n.side=0 AND n.peer IS NULL AND n.parent IS NOT NULL",
        "removed": "n.side=1 AND n.peer IS NULL AND n.parent IS NOT NULL",
        "moved": _MOVED,
        "manual": "n.side=0 AND n.how='manual'",
        "structure": f"n.parent IS NOT NULL AND (n.peer IS NULL AND EXISTS (SELECT 1 FROM {table} p WHERE "
        f"p.side=n.side AND p.pos=n.parent AND (p.peer IS NOT NULL OR p.parent IS NULL)) OR {_MOVED})",
    }
    if what not in terms:
        raise InvalidArgument(f"only: expected one of {', '.join(terms)}, found {what!r}")
    return terms[what]


_MOVED = "(n.side=0 AND n.how='moved')"

_REPLACED = (
    *("peer", "how", "value", "input_ulps", "weight_ulps", "gradient_ulps", "output_ulps", "worst_ulps"),
    *METRIC_COLUMNS.values(),
)
_KEPT = (
    *("side", "pos", "name", "parent", "first", "depth", "kind", "children", "micro", "source", "overflow"),
    *("stack", "shape", "links", "merged"),
)
MANUAL_TABLE = (
    "CREATE TABLE IF NOT EXISTS manual (workspace TEXT, side INTEGER, pos INTEGER, "
    + ", ".join(_REPLACED)
    + ", PRIMARY KEY (workspace, side, pos)) WITHOUT ROWID"
)
MANUAL_COLUMNS = _REPLACED


def _view(name: str, workspace: str) -> str:
    kept = ", ".join(f"n.{column}" for column in _KEPT)
    replaced = ", ".join(f"CASE WHEN m.pos IS NULL THEN n.{c} ELSE m.{c} END AS {c}" for c in _REPLACED)
    return (
        f"CREATE TEMP VIEW IF NOT EXISTS {name} AS SELECT {kept}, {replaced} FROM node n LEFT JOIN manual m "
        f"ON m.workspace='{workspace}' AND m.side=n.side AND m.pos=n.pos"
    )
