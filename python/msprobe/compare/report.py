# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: a comparison as one page that needs nothing but a browser.

The page is report.html of this folder with report.css, the data and report.js in place of marks. What the data looks
like is the concern of these files and of the native report_rows() only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from msprobe.compare.verdict import SMALL
from msprobe.compare.verdict_file import count, culprit_content, sentence, status, strict
from msprobe.native import __version__, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe._core import DumpPair
    from msprobe.compare.result import CompareResult, PairResult
    from msprobe.compare.verdict_file import Culprit

# A page beyond this would be slow to open. What is left out is in the result tables, and the page says so.
_MOST_ROWS = 300_000
_LEAST_ROWS_OF_PAIR = 200
_MOST_TEXT = 96 << 20
_MOST_LEFT_OUT = 1000


@dataclass(frozen=True)
class PairRows:
    """The rows of one pair for the page. Plain values, so that one process can send them to another."""

    differing: int
    unmeasured: int
    """Of these: without a measure, such as NaN on one side, flags and integers."""
    worst: float
    """In rounding errors; of what has a measure."""
    shown: int
    text: str
    """JSON, see native report_rows()."""


def rows_of(pair: DumpPair, pairs: int) -> PairRows:
    """`pairs`: how many share the page."""
    most = max(_MOST_ROWS // max(pairs, 1), _LEAST_ROWS_OF_PAIR)
    rows = core.report_rows(pair, most)
    return PairRows(rows.differing, rows.unmeasured, rows.worst, rows.shown, rows.json)


def report_html(result: CompareResult, culprits: list[Culprit], rows: list[PairRows | None]) -> str:
    """The text of the page. `rows`: for each of `result.pairs`; None: there are none."""
    embedded = _embedded(result, culprits, rows)
    texts = [rows[index].text for index in embedded]  # type: ignore[union-attr]
    blocks = "\n".join(
        f'<script type="application/json" id="rows{block}">{_for_script(text)}</script>'
        for block, text in enumerate(texts)
    )
    data = json.dumps(strict(_data(result, culprits, rows, embedded)), allow_nan=False, separators=(",", ":"))
    return _filled(
        {"STYLE": _file("report.css"), "DATA": _for_script(data), "ROWS": blocks, "SCRIPT": _file("report.js")}
    )


def _filled(values: dict[str, str]) -> str:
    """The page, taken apart at its marks first: a value may hold what looks like one."""
    rest = _file("report.html")
    parts = []
    for name, value in values.items():
        before, mark, rest = rest.partition(f"@@{name}@@")
        assert mark, f"report.html has no mark {name}"
        parts += [before, value]
    return "".join([*parts, rest])


def _file(name: str) -> str:
    return resources.files("msprobe.compare").joinpath(name).read_text("utf-8")


def _for_script(text: str) -> str:
    """JSON that can stand in a <script> element whatever the names hold: nothing in it can end the element. The
    characters stand in texts only, so each has an escape.
    """
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _embedded(result: CompareResult, culprits: list[Culprit], rows: list[PairRows | None]) -> list[int]:
    """The pairs whose rows stand in the page, in order. With room for some only: those with a culprit, then those with
    the most failing rows.
    """
    blamed = {(culprit.step, culprit.rank) for culprit in culprits}

    def importance(index: int) -> tuple[bool, int, int]:
        pair = result.pairs[index]
        return (pair.step, pair.rank) not in blamed, -pair.summary.failing, index

    room = _MOST_TEXT
    chosen = []
    for index in sorted((i for i, one in enumerate(rows) if one is not None), key=importance):
        one = rows[index]
        if one is not None and len(one.text) <= room:
            room -= len(one.text)
            chosen.append(index)
    return sorted(chosen)


def _data(
    result: CompareResult, culprits: list[Culprit], rows: list[PairRows | None], embedded: list[int]
) -> dict[str, object]:
    blocks = {index: block for block, index in enumerate(embedded)}
    return {
        "version": __version__,
        "status": status(result),
        "sentence": sentence(result),
        "noisy": result.verdict.noisy,
        "small": SMALL,
        "culprits": [{**culprit_content(culprit), "record": culprit.record} for culprit in culprits],
        "notes": result.verdict.notes,
        "counts": count(result),
        "leftOut": [[one.what, one.reason] for one in result.left_out[:_MOST_LEFT_OUT]],
        "leftOutTotal": len(result.left_out),
        "inputs": {"target": str(result.target), "golden": str(result.golden)},
        "pairs": [
            _pair(pair, one, blocks.get(index))
            for index, (pair, one) in enumerate(zip(result.pairs, rows))
        ],
    }


def _pair(pair: PairResult, rows: PairRows | None, block: int | None) -> dict[str, object]:
    return {
        "step": pair.step,
        "rank": pair.rank,
        "debug": pair.is_debug,
        "mode": pair.mode,
        "table": None if pair.table is None else pair.table.name,
        "rows": pair.summary.rows,
        "matched": pair.summary.matched,
        "failing": pair.summary.failing,
        "onlyInGolden": pair.summary.right_only,
        "differing": rows.differing if rows else 0,
        "unmeasured": rows.unmeasured if rows else 0,
        "worst": rows.worst if rows else 0,
        "shown": rows.shown if rows else 0,
        "block": block,
    }
