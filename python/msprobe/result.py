# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the functions of msprobe return has one face: a sentence, a table in a notebook, rows for pandas."""

from __future__ import annotations

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any, TypeVar, Union

    Cell = Union[str, int, float, bool, None]
    _R = TypeVar("_R", bound="Result")

_MOST_ROWS = 20  # in a notebook
_LONGEST = 300  # of a cell there


class Result:
    """The base of every answer. It stands for itself in a prompt and a notebook, and gives its rows away."""

    page: Path | None = None
    """What was written for a browser, when something was."""

    if TYPE_CHECKING:  # a subclass may have a field of this name

        @property
        def sentence(self) -> str:
            """The answer in one sentence."""

    def table(self) -> Sequence[dict[str, Cell]]:
        """What the answer lists, the most important first; all rows have the same keys."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame. Raises UnsupportedError where pandas is not installed."""
        from importlib import import_module

        try:
            pandas: Any = import_module("pandas")
        except ImportError:
            from msprobe.native import UnsupportedError

            raise UnsupportedError(
                "to_pandas(): pandas is not installed: pip install pandas; table() gives the same as dicts"
            ) from None
        return pandas.DataFrame(list(self.table()))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence}>"

    def _repr_html_(self) -> str:
        """Of a notebook."""
        import html

        rows = self.table()
        parts = [f"<p style='margin:.3em 0'><strong>{html.escape(self.sentence)}</strong></p>"]
        if rows:
            head = "".join(f"<th style='{_CELL}'>{html.escape(_words(name))}</th>" for name in rows[0])
            lines = [
                "<tr>" + "".join(_cell(_text(cell)) for cell in row.values()) + "</tr>"
                for row in rows[:_MOST_ROWS]
            ]
            body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
            parts.append(f"<table style='{_TABLE}'>{body}</table>")
        if len(rows) > _MOST_ROWS:
            parts.append(f"<p>and {len(rows) - _MOST_ROWS} more: to_pandas() has all</p>")
        if self.page is not None:
            address, shown = _address(self.page)
            parts.append(f"<p><a href='{address}' target='_blank'>{shown}</a></p>")
        return f"<div style='{_BOX}'>{''.join(parts)}</div>"


def with_page(result: _R, page: Path) -> _R:
    """The result, which knows what was written of it. Results are frozen for everybody else."""
    object.__setattr__(result, "page", page)
    return result


# Styles stand in the elements: a notebook takes those of a page away, and has light and dark ones of its own.
_BOX = "max-width:900px;overflow-x:auto;font-size:13px"
_TABLE = "border-collapse:collapse;max-width:900px"
_CELL = "text-align:left;vertical-align:top;padding:2px 8px;overflow-wrap:anywhere"
_COLOURS = {
    "cause": "#b3261e",
    "differ": "#b3261e",
    "wrong": "#b3261e",
    "error": "#b3261e",
    "warning": "#8a5a00",
    "consequence": "#8a5a00",
    "equal": "#1a7f37",
    "good": "#1a7f37",
}


def _cell(text: str) -> str:
    import html

    colour = f";color:{_COLOURS[text]};font-weight:600" if text in _COLOURS else ""
    return f"<td style='{_CELL}{colour}'>{html.escape(text)}</td>"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _address(page: Path) -> tuple[str, str]:
    """Of a link, from the folder of the notebook where the page lies below it; and its text."""
    import html
    from pathlib import Path
    from urllib.parse import quote

    whole = page.absolute()
    try:
        shown = whole.relative_to(Path.cwd()).as_posix()
        address = quote(shown)
    except ValueError:
        shown, address = str(page), whole.as_uri()
    return html.escape(address, quote=True), html.escape(shown)


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
