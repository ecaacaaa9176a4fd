# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The questions of the page: `POST /api/NAME` with a JSON object, answered by a JSON object below 1 MB.

A wrong question or a file that cannot be shown is answered with status 400 and `{"error": sentence}`, a
fault of the server with 500. Sides are 0 (target) and 1 (reference); nodes are named by side and name. Every
question but `files` has `file`; those about one graph also `step`, `rank`, and may have `micro` (-1: all),
`workspace`, `colour`: `{"by": .., "bounds": [..]}`.

| name | members | answer |
|---|---|---|
| files | | `root`, `files`: name, size, time; `more`: these are not all; `dumps`: names |
| make, made | of dumps: `target`, `reference` or null | whether the graph is `done`, and its `file` |
| open | | kind of graph, task, steps, ranks, colours, metrics |
| tree | `nodes`: [[side, name, offset]], `reveal`: [side, name], `level`, `known` | `roots`, `lists` |
| nodes | `names`: [[side, name]] | `nodes`: these nodes as they are now |
| values | `places`: [[place, ..] of each side] | `sides`: what depends on the colouring, see Graph.coloured |
| list | search, filter, rank: members of graph_query.Wanted | `total`, `nodes` |
| next | the same, `from`, `backwards`, `reveal`: true | `node` or null, `tree` |
| detail | `side`, `name` | both nodes with stacks, links, `rows` of tensors |
| findings | | `findings`: where a difference begins, of the micro step |
| overview | | `cells` step x rank, `done` |
| communication | | `ranks`, `cells` rank x rank |
| operations | `from`, `to` | `operations` between two ranks |
| match | `do`: list, match, cancel, undo, redo, load, save; its members | the matches |
| own | `data`: name -> number; `key`, made of the data | `by`, for `colour` |

While the digest of a large graph is being made, `tree` (`ready` false) and `detail` answer from the file and
the others with `{"pending": progress}`."""

from __future__ import annotations

import re
from typing import Any

from msprobe.native import InvalidArgument, __version__
from msprobe.viewer import members, preview
from msprobe.viewer.colouring import ROUNDING, scale_of
from msprobe.viewer.detail import detail, detail_from_file
from msprobe.viewer.difference import METRICS
from msprobe.viewer.findings import findings
from msprobe.viewer.graph_of_dumps import DumpFolders
from msprobe.viewer.graph_query import MOST_BYTES, MOST_NODES, PAGE, Graph, weight
from msprobe.viewer.library import MOST_FILES
from msprobe.viewer.matching import Matching
from msprobe.viewer.overview import communication, operations_between
from msprobe.viewer.result_file import answering, damage, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from msprobe.viewer.colouring import Scale
    from msprobe.viewer.library import Library, Making, OpenFile
    from msprobe.viewer.result_file import ResultFile

Answer = dict[str, Any]
_MOST_OWN = 400_000
_MOST_LISTS = 400


class Api:
    """Keeps nothing of a user: what a question needs is in it. Thread-safe."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._dumps = DumpFolders(library)
        self._of_file = {"open": _open, "overview": _overview, "communication": _communication}
        self._of_file["operations"] = _operations
        self._of_graph = {
            "nodes": _nodes,
            "values": _values,
            "list": _list,
            "next": _next,
            "detail": _detail,
            "findings": _findings,
            "match": _match,
            "own": _own,
        }

    def answer(self, name: str, asked: Answer) -> Answer:
        """Raises msprobe.Error with a sentence for the page."""
        if name == "files":
            found = self._library.files()
            return {
                "root": self._library.root.name,
                "files": found[:MOST_FILES],
                "more": len(found) > MOST_FILES,
                "dumps": self._dumps.names(),
                "version": __version__,
            }
        if name == "make":
            reference = None if asked.get("reference") is None else members.text(asked, "reference")
            self._dumps.make(members.text(asked, "target"), reference)
            return {}
        if name == "made":
            return self._dumps.state()
        opened = self._library.open(members.text(asked, "file"), anew=name == "open")
        with damage(opened.result.path), answering():
            return self._about(opened, name, asked)

    def _about(self, opened: OpenFile, name: str, asked: Answer) -> Answer:
        if name in self._of_file:
            return self._of_file[name](opened, asked)
        step, rank = members.integer(asked, "step"), members.integer(asked, "rank")
        making = opened.graph(step, rank)
        if name == "tree":
            return _tree(opened, making, asked)
        if name not in self._of_graph:
            raise InvalidArgument(f"there is no question {name!r}")
        graph = making.wait(0.0)
        if graph is None and name == "detail":
            place = (
                asked["step"],
                asked["rank"],
                members.side(asked.get("side")),
                members.text(asked, "name"),
            )
            return detail_from_file(opened.result, *place)
        if graph is None:
            return {"pending": making.progress}
        _make_known(graph, asked)
        return self._of_graph[name](graph, asked)


# ---- about a file


def _start(result: ResultFile) -> list[int] | None:
    """Step and rank of the likeliest cause that the file names; None: it names none."""
    if not result.has_own_tables:
        return None
    try:
        rows = result.rows("SELECT step, rank FROM msprobe_findings ORDER BY number LIMIT 1")
    except ValueError:  # without this table
        return None
    names = ("msprobe_findings.step", "msprobe_findings.rank")
    return [whole_number(value, result.path, name) for value, name in zip(rows[0], names)] if rows else None


_MODEL_KEYS = ("target_model", "golden_model")  # docs/formats/graph.md


def _models(result: ResultFile) -> list[str]:
    """Classes of the models, of the target and the reference; empty where the file does not say them."""
    if not result.has_own_tables:
        return []
    found = dict(result.rows("SELECT key, value FROM msprobe_info WHERE key IN (?, ?)", *_MODEL_KEYS))
    named = [found[key] for key in _MODEL_KEYS if isinstance(found.get(key), str)]
    return named if len(named) == 1 + result.config.is_compare else []


def _open(opened: OpenFile, asked: Answer) -> Answer:
    result = opened.result
    config = result.config
    return {
        "version": __version__,
        "compare": config.is_compare,
        "task": config.task,
        "steps": config.steps,
        "ranks": config.ranks,
        "microSteps": config.micro_steps,
        "start": _start(result),
        "models": _models(result),
        "overflow": config.has_overflow,
        "levels": config.has_overflow or result.has_statistics(),  # of which they can be told
        "colours": [colour for colour, _, _ in config.colours],
        "intervals": [[low, high] for _, low, high in config.colours],
        "unmatchedColour": config.unmatched_colour,
        "metrics": _metrics_of(result),
        "scales": _scales_of(result),
        "rounding": ROUNDING,
        "size": result.size,
    }


def _metrics_of(result: ResultFile) -> list[str]:
    """Those that the cells of this file hold."""
    known = list(METRICS)
    if not result.config.is_compare or result.config.task in ("structure", "md5"):
        return []
    return known[:8] if result.config.task == "summary" else ["MaxRelativeErr", *known[8:]]


def _scales_of(result: ResultFile) -> dict[str, Answer]:
    names = ["index", "difference", "outputs", "inputs", "weights", "gradients", *_metrics_of(result)]
    if not result.config.is_compare:
        names = []
    scales = {name: scale_of(result.config, name) for name in [*names, "overflow", "kind"]}
    return {
        name: {"bounds": list(scale.bounds), "classes": scale.classes, "smallIsBad": scale.small_is_bad}
        for name, scale in scales.items()
    }


def _overview(opened: OpenFile, asked: Answer) -> Answer:
    return opened.overview.state()


def _communication(opened: OpenFile, asked: Answer) -> Answer:
    return communication(opened.result, members.integer(asked, "step"))


def _operations(opened: OpenFile, asked: Answer) -> Answer:
    places = (members.integer(asked, "step"), members.integer(asked, "from"), members.integer(asked, "to"))
    return {"operations": operations_between(opened.result, *places)}


# ---- about a graph


def _tree(opened: OpenFile, making: Making, asked: Answer) -> Answer:
    graph = making.wait(0.0)
    scale = scale_of(opened.result.config, *members.colour(asked))
    wanted = members.nodes(asked, "nodes", _MOST_LISTS)
    if graph is None:
        answer = _preview(opened.result, asked, scale, wanted)
        return {**answer, "ready": False, "progress": making.progress}
    _make_known(graph, asked)
    return {**_from_digest(graph, asked, scale, wanted), "ready": True, "progress": 1.0}


def _preview(result: ResultFile, asked: Answer, scale: Scale, wanted: list[tuple[int, str, int]]) -> Answer:
    step, rank, micro = asked["step"], asked["rank"], members.integer(asked, "micro", -1)
    sides = (0, 1) if result.config.is_compare else (0,)
    roots = [preview.root(result, step, rank, side, scale) for side in sides]
    wanted = wanted or [(root["side"], root["name"], 0) for root in roots if root]
    lists = []
    for side, name, offset in wanted:
        nodes = preview.children(result, step, rank, side, name, scale, micro=micro, offset=offset)
        lists.append({"side": side, "name": name, "offset": offset, "nodes": nodes, "total": None})
    return {"roots": roots, "lists": lists}


def _from_digest(graph: Graph, asked: Answer, scale: Scale, wanted: list[tuple[int, str, int]]) -> Answer:
    workspace, micro = members.workspace(asked), members.integer(asked, "micro", -1)
    sides = (0, 1) if graph.result.config.is_compare else (0,)
    roots = [graph.root(side, scale, workspace, micro) for side in sides]
    if asked.get("level") is not None:
        level = max(1, min(members.integer(asked, "level"), 100))
        nodes, whole = graph.expanded(scale, workspace, level, micro)
        return {"roots": roots, "lists": _as_lists(graph, nodes, micro), "whole": whole}
    answer: Answer = {"roots": roots}
    if asked.get("reveal"):
        side, name, _ = members.node(asked["reveal"], "reveal")
        wanted = [*wanted, *_on_the_way(graph, side, name, workspace, answer)]
        if answer["revealed"]:
            answer["detail"] = detail(graph, side, name, workspace)
    if not wanted:
        wanted = [(root["side"], root["name"], 0) for root in roots if root]
    lists, left, room = [], MOST_NODES, MOST_BYTES
    known = {(side, name) for side, name, _ in members.nodes(asked, "known", MOST_NODES)}
    for side, name, offset in dict.fromkeys(wanted):
        pos = graph.pos_of(side, name)
        if pos is None or left <= 0 or room <= 0 or (side, name) in known:
            continue
        limit = min(PAGE, left)
        nodes = graph.children(side, pos, scale, workspace, micro=micro, offset=offset, limit=limit)
        left -= len(nodes)
        room -= sum(map(weight, nodes))
        total = _children_of(graph, side, pos, micro)
        lists.append({"side": side, "name": name, "offset": offset, "nodes": nodes, "total": total})
    return {**answer, "lists": lists}


def _children_of(graph: Graph, side: int, pos: int, micro: int) -> int:
    sql = "SELECT count(*) FROM node WHERE side=? AND parent=?"
    values = [side, pos]
    if micro >= 0:
        sql += " AND (micro=? OR depth<>1)"
        values.append(micro)
    return int(graph.connection().execute(sql, values).fetchone()[0])


def _as_lists(graph: Graph, nodes: list[Answer], micro: int) -> list[Answer]:
    """Nodes of several levels, by parent; the parents are among them."""
    parents = {(node["side"], node["pos"]): node for node in nodes if node["children"]}
    lists: dict[tuple[int, int], Answer] = {}
    for node in nodes:
        key = (node["side"], node["up"])
        parent = parents.get(key)
        if parent is None:
            continue
        found = lists.get(key)
        if found is None:
            total = parent["children"] if micro < 0 else _children_of(graph, *key, micro)
            found = {"side": key[0], "name": parent["name"], "offset": 0, "nodes": [], "total": total}
            lists[key] = found
        if len(found["nodes"]) < PAGE:
            found["nodes"].append(node)
    return list(lists.values())


def _on_the_way(
    graph: Graph, side: int, name: str, workspace: str, answer: Answer
) -> list[tuple[int, str, int]]:
    """What must be open so that a node and its counterpart, or the place where that is missing, can be
    seen."""
    wanted: list[tuple[int, str, int]] = []
    answer["revealed"] = []
    own = graph.pos_of(side, name)
    if own is None:
        return []
    peer = graph.peer_of(side, name, workspace)
    other = graph.pos_of(1 - side, peer) if peer is not None else None
    is_around = other is None
    if other is None:  # what is around it on the other side
        other = graph.nearest_peer(side, own, workspace)
    for here, pos in ((side, own), (1 - side, other)):
        if pos is None:
            continue
        chain = [*graph.ancestors(here, pos), pos]
        for parent, child in zip(chain, chain[1:]):
            sql = "SELECT count(*) FROM node WHERE side=? AND parent=? AND pos<?"
            before = graph.connection().execute(sql, (here, parent, child)).fetchone()[0]
            wanted.append((here, _name_at(graph, here, parent), before // PAGE * PAGE))
        if is_around and here != side:
            wanted.append((here, _name_at(graph, here, pos), 0))
        names = [_name_at(graph, here, place) for place in chain]
        answer["revealed"].append({"side": here, "path": names})
    return wanted


def _name_at(graph: Graph, side: int, pos: int) -> str:
    sql = "SELECT name FROM node WHERE side=? AND pos=?"
    return str(graph.connection().execute(sql, (side, pos)).fetchone()[0])


def _nodes(graph: Graph, asked: Answer) -> Answer:
    scale, workspace = graph.scale(*members.colour(asked)), members.workspace(asked)
    names = members.nodes(asked, "names", MOST_NODES)
    found = [graph.node(side, name, scale, workspace) for side, name, _ in names]
    return {"nodes": [node for node in found if node is not None]}


def _values(graph: Graph, asked: Answer) -> Answer:
    scale, workspace = graph.scale(*members.colour(asked)), members.workspace(asked)
    asked_for = members.places(asked, "places")[: 2 if graph.result.config.is_compare else 1]
    micro = members.integer(asked, "micro", -1)
    return {
        "sides": [
            graph.coloured(side, places[:MOST_NODES], scale, workspace, micro)
            for side, places in enumerate(asked_for)
        ]
    }


def _list(graph: Graph, asked: Answer) -> Answer:
    total, nodes = graph.listed(
        members.wanted(asked), graph.scale(*members.colour(asked)), members.workspace(asked)
    )
    return {"total": total, "nodes": nodes}


def _next(graph: Graph, asked: Answer) -> Answer:
    wanted = members.wanted(asked)
    side = wanted.side or 0
    start = graph.pos_of(side, members.text(asked, "from")) if asked.get("from") else None
    backwards = bool(asked.get("backwards"))
    scale, workspace = graph.scale(*members.colour(asked)), members.workspace(asked)
    node = graph.following(start, backwards, wanted, scale, workspace)
    answer: Answer = {"node": node}
    if node is not None and asked.get("reveal"):
        way = {**asked, "reveal": [node["side"], node["name"]], "level": None}
        answer["tree"] = {**_from_digest(graph, way, scale, []), "ready": True, "progress": 1.0}
    return answer


def _detail(graph: Graph, asked: Answer) -> Answer:
    return detail(
        graph, members.side(asked.get("side")), members.text(asked, "name"), members.workspace(asked)
    )


def _findings(graph: Graph, asked: Answer) -> Answer:
    return {"findings": findings(graph, members.workspace(asked), members.integer(asked, "micro", -1))}


def _match(graph: Graph, asked: Answer) -> Answer:
    matching = Matching(graph, members.workspace(asked) or "default")
    do = members.text(asked, "do")
    answer: Answer = {}
    if do == "match":
        target, reference = members.text(asked, "target"), members.text(asked, "reference")
        answer["matched"] = matching.match(target, reference, children=bool(asked.get("children")))
    elif do == "cancel":
        answer["cancelled"] = matching.cancel(
            members.text(asked, "target"), children=bool(asked.get("children"))
        )
    elif do in ("undo", "redo"):
        matching.move(-1 if do == "undo" else 1)
    elif do == "load":
        answer["matched"], answer["failed"] = matching.load(members.text(asked, "text"))
    elif do == "save":
        return {"text": matching.save_text()}
    elif do != "list":
        raise InvalidArgument(f"do: expected list, match, cancel, undo, redo, load or save, found {do!r}")
    described = matching.describe()
    return {**answer, **described, "pairs": described["pairs"][:1000], "count": len(described["pairs"])}


def _own(graph: Graph, asked: Answer) -> Answer:
    """Values of the user, as a colouring of this graph. They are kept with the digest, so the page asks this
    of each graph, and again after a new start; other data has another key."""
    data = asked.get("data")
    if not isinstance(data, dict) or len(data) > _MOST_OWN:
        raise InvalidArgument(
            f"own data: expected a JSON object, node -> number, with up to {_MOST_OWN} members"
        )
    name = re.sub(r"[^a-z0-9]", "", members.text(asked, "key", ""))[:16] or "data"
    known = {node: members.number(value) for node, value in data.items() if members.is_unicode(node)}
    rows = [(name, node, value) for node, value in known.items() if value is not None]
    if not rows:
        raise InvalidArgument("own data: none of its members is a number")
    connection = graph.connection()
    connection.execute("DELETE FROM own WHERE data=?", (name,))
    connection.executemany("INSERT INTO own VALUES (?, ?, ?)", rows)
    connection.commit()
    graph.forget_values()
    values = [value for _, _, value in rows]
    low, high = min(values), max(values)
    bounds = [low + (high - low) * part / 5 for part in range(1, 5)] if high > low else [low]
    return {"by": f"own:{name}", "bounds": bounds, "count": len(rows), "low": low, "high": high}


# ---- members of a question


def _make_known(graph: Graph, asked: Answer) -> None:
    """The matches that were kept for this workspace, when the server sees it for the first time."""
    workspace = members.workspace(asked)
    if workspace and workspace not in graph.versions:
        graph.versions[workspace] = 0
        matching = Matching(graph, workspace)
        if matching.pairs:
            matching.apply()
