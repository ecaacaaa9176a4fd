# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: a comparison as one page that needs nothing but a browser, and no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msprobe.config_check.checks.check_result import ERROR, Cell, CheckResult, shown
from msprobe.files.left_out import lines as missing_lines
from msprobe.files.page import badge, file_beside, scriptless_page

if TYPE_CHECKING:
    from msprobe.config_check.checks.likelihood import Ranked
    from msprobe.config_check.comparison import ConfigComparison

# More would make a page that is slow to open; result.xlsx has all rows.
_MOST_ROWS = 500
_MOST_RANKED = 300
_LONGEST_CELL = 1000


def report_html(result: ConfigComparison) -> str:
    """The text of the page."""
    cards = [
        _header(result),
        '<section class="card">\n<h2>What differs, reference &rarr; target</h2>\n<p class="soft">'
        "The likeliest explanation of a numeric difference first: a cause explains one by itself. Red: a "
        f"check fails because of it.</p>\n{_ranked(result.ranked)}\n</section>",
        *map(_check, result.checks),
    ]
    return scriptless_page("Config check", cards, file_beside(__file__, "report.css"))


def _header(result: ConfigComparison) -> str:
    missing = [f"not compared: {one}" for one in missing_lines(result.left_out, _MOST_RANKED)]
    return "\n".join(
        [
            '<header class="card top">',
            badge("equal" if result.agree else result.status, result.status),
            f"<h1>{escape(result.sentence)}</h1>",
            f'<dl class="inputs">{_inputs(result)}</dl>',
            f"<ul>{_list([*missing, *result.problems, *result.notes])}</ul>",
            "</header>",
        ]
    )


def _inputs(result: ConfigComparison) -> str:
    sides = (("reference", result.reference), ("target", result.target))
    return "".join(f"<dt>{name}</dt><dd><code>{escape(str(path))}</code></dd>" for name, path in sides)


def _list(texts: list[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def _ranked(ranked: list[Ranked]) -> str:
    if not ranked:
        return '<p class="soft">Nothing differs.</p>'
    items = []
    for one in ranked[:_MOST_RANKED]:
        difference = one.difference
        values = ""
        if difference.reference or difference.target:
            sides = " &rarr; ".join(
                f"<code>{_text(side)}</code>" for side in (difference.reference, difference.target)
            )
            values = f"<div>{sides}</div>"
        detail = f'<div class="soft">{_text(difference.detail)}</div>' if difference.detail else ""
        items.append(
            f'<li class="{"bad" if difference.level == ERROR else "minor"}">'
            f'<span class="likelihood">{one.likelihood}</span>'
            f"<div><b>{_text(difference.name)}</b> "
            f'<span class="soft">{escape(difference.check)}, {escape(difference.level)}</span>'
            f"{values}{detail}<div>{escape(one.reason)}</div></div></li>"
        )
    more = len(ranked) - _MOST_RANKED
    return f"<ol>{''.join(items)}</ol>" + (
        f'<p class="soft">{more} more in result.json</p>' if more > 0 else ""
    )


def _check(check: CheckResult) -> str:
    rows = [row for row in check.rows if _differs(check, row)]
    head = "".join(f"<th>{escape(name)}</th>" for name in check.columns)
    body = "".join(f"<tr>{''.join(map(_cell, check.columns, row))}</tr>" for row in rows[:_MOST_ROWS])
    word = badge("pass", "agree") if check.passed else badge("fail", "differ")
    count = f"{len(check.rows)} rows, {len(rows)} differ"
    if len(rows) > _MOST_ROWS:
        count += f"; the first {_MOST_ROWS} are shown, result.xlsx has all"
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    table = f'<div class="scroll" tabindex="0">{inner}</div>'
    return (
        f'<details class="card"{"" if check.passed else " open"}><summary><b>{escape(check.name)}</b> '
        f'{word} <span class="soft">{count}</span></summary>'
        f"{table if rows else ''}</details>"
    )


def _differs(check: CheckResult, row: list[Cell]) -> bool:
    """Sheets with a column of Booleans hold rows that agree, too."""
    for name in ("equal", "check_result"):
        if name in check.columns:
            return row[check.columns.index(name)] is not True
    return True


def _cell(column: str, cell: Cell) -> str:
    """Numbers with the digits that a person reads; result.xlsx has all."""
    if isinstance(cell, float):
        return f'<td class="n">{cell:{".3g" if "diff" in column else ".6g"}}</td>'
    return f"<td>{'' if cell is None else _text(shown(cell))}</td>"


def _text(text: str) -> str:
    return escape(text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + " ...")
