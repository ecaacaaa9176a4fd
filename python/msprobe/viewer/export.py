# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One graph as one page that needs nothing but a browser, for a mail or an issue tracker.

A graph with up to MOST_WHOLE nodes on both sides together is exported whole, a larger one with its suspicious
part: what differs most, what has no counterpart, where the difference begins, and the modules around all
that."""

from __future__ import annotations

import base64
import gzip
import json
import re
import tempfile
from pathlib import Path

from msprobe.files.atomic_file import write_text
from msprobe.files.page import file_beside
from msprobe.native import InvalidArgument
from msprobe.viewer.api import Api
from msprobe.viewer.colouring import UNMATCHED
from msprobe.viewer.detail import detail
from msprobe.viewer.digest import build
from msprobe.viewer.findings import findings
from msprobe.viewer.graph_query import Graph, Wanted
from msprobe.viewer.library import Library
from msprobe.viewer.result_file import answering, open_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msprobe.viewer.result_file import ResultFile

MOST_WHOLE = 6000
_LONGEST = 600.0  # seconds that all queries may take
_MOST_PART = 2500  # suspicious nodes of a larger graph; the modules around them come on top
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'"
)
_SCALES = ("index", "difference", "outputs", "inputs", "weights", "gradients", "overflow", "kind")


def export(path: Path, out: Path, *, step: int | None, rank: int | None) -> str:
    """Writes `out`, complete or absent, and says what is in it. Raises what open_result raises, IoError, and
    InvalidArgument for a step or rank that the file does not have.
    """
    with answering(_LONGEST):
        return _export(open_result(path), out, step, rank)


def _export(result: ResultFile, out: Path, step: int | None, rank: int | None) -> str:
    path = result.path
    config = result.config
    step = config.steps[0] if step is None else step
    rank = config.ranks[0] if rank is None else rank
    if step not in config.steps or rank not in config.ranks:
        raise InvalidArgument(f"{path.name} has no step {step} with a rank {rank}")
    with tempfile.TemporaryDirectory(prefix="msprobe-view-") as scratch:
        digest = Path(scratch) / "digest"
        build(result, step, rank, digest)
        content, shown, of = _content(path, Graph(result, step, rank, digest))
    write_text(out, page(content))
    part = "the whole graph" if shown == of else "its suspicious part"
    return f"{out}: {part}, {shown} of {of} nodes of step {step}, rank {rank}"


def page(content: dict[str, Any]) -> str:
    """The built page with its style, its program and `content` in it."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    data = base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()
    program = re.sub(r"</(script)", r"<\\/\1", _file("app.js"), flags=re.IGNORECASE)
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<style>{_file('app.css')}</style>\n"
        f'<script type="text/plain" id="exported">{data}</script>\n'
    )
    html = re.sub(r"\s*<(script|link)[^>]*app\.(js|css)[^>]*>(</script>)?", "", _file("index.html"))
    html = html.replace("</head>", head + "</head>")
    return html.replace("</body>", f'<script type="module">{program}</script>\n</body>')


def _file(name: str) -> str:
    return file_beside(__file__, f"page/{name}")


def _content(path: Path, graph: Graph) -> tuple[dict[str, Any], int, int]:
    places = _places(graph)
    of = graph.connection().execute("SELECT count(*) FROM node").fetchone()[0]
    library = Library(path)
    try:
        asked = {"file": path.name, "step": graph.step, "rank": graph.rank}
        api = Api(library)
        info = api.answer("open", asked)
        answers = {name: api.answer(name, asked) for name in ("overview", "communication")}
    finally:
        library.close()
    info["scales"] = {name: scale for name, scale in info["scales"].items() if name in _SCALES}
    info |= {"steps": [graph.step], "ranks": [graph.rank], "microSteps": 1, "metrics": []}
    info["exported"] = {"nodes": len(places), "of": of, "step": graph.step, "rank": graph.rank}
    content = {
        "file": path.name,
        "info": info,
        **_nodes(graph, places, list(info["scales"])),
        "details": _details(graph, places),
        "findings": findings(graph, ""),
        **answers,
    }
    return content, len(places), of


def _places(graph: Graph) -> list[tuple[int, int]]:
    """Side and place of the nodes that are exported, parents with their children."""
    connection = graph.connection()
    every = connection.execute("SELECT side, pos FROM node ORDER BY side, pos").fetchall()
    if len(every) <= MOST_WHOLE:
        return every
    chosen = {(0, node["pos"]) for node in _worst(graph)}
    for finding in findings(graph, ""):
        pos = graph.pos_of(finding["side"], finding["node"])
        if pos is not None:
            chosen.add((finding["side"], pos))
    sql = "SELECT peer FROM node WHERE side=? AND pos=? AND peer IS NOT NULL"
    for side, pos in list(chosen):
        chosen |= {(1 - side, row[0]) for row in connection.execute(sql, (side, pos))}
    for side, pos in list(chosen):
        chosen |= {(side, above) for above in graph.ancestors(side, pos)}
    return sorted(chosen)


def _worst(graph: Graph) -> list[dict[str, Any]]:
    """Of each kind of trouble the worst, in equal parts."""
    scale = graph.scale("difference")
    wanted = [
        Wanted(sort="difference", ascending=False, side=0, only="suspicious"),
        Wanted(sort="overflow", ascending=False, side=0),
        Wanted(classes=(UNMATCHED,), side=0),
        Wanted(sort="order", side=0, only="suspicious"),
    ]
    found: list[dict[str, Any]] = []
    for one in wanted:
        for offset in range(0, _MOST_PART // len(wanted), 500):
            page_wanted = Wanted(**{**one.__dict__, "offset": offset, "limit": 500})
            found += graph.listed(page_wanted, scale, "")[1]
    return found


def _nodes(graph: Graph, places: list[tuple[int, int]], scales: list[str]) -> dict[str, Any]:
    """The nodes, and for each colouring what depends on it, in the same order."""
    nodes: list[dict[str, Any]] = []
    by: dict[str, list[Any]] = {}
    for name in scales:
        scale = graph.scale(name)
        rows = []
        for side, pos in places:
            node = graph.at(side, pos, scale)
            if name == scales[0]:
                parent = graph.ancestors(side, pos)[-1:]
                nodes.append({**node, "parent": parent[0] if parent else None})
            rows.append([node["class"], node["value"], node.get("below")])
        by[name] = rows
    for node in nodes:
        node.pop("below", None)
    return {"nodes": nodes, "scales": by}


def _details(graph: Graph, places: list[tuple[int, int]]) -> dict[str, Any]:
    """By side and name; of matched nodes once, under the target."""
    found: dict[str, Any] = {}
    known = set(places)
    for side, pos in places:
        name, peer = (
            graph.connection()
            .execute("SELECT name, peer FROM node WHERE side=? AND pos=?", (side, pos))
            .fetchone()
        )
        if side == 0 or peer is None or (0, peer) not in known:
            found[f"{side}:{name}"] = detail(graph, side, name, "")
    return found
