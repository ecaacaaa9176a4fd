# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the functions of msprobe return has one face: a sentence, a table in a notebook, rows for pandas."""

from __future__ import annotations

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Union

    Cell = Union[str, int, float, bool, None]

_MOST_ROWS = 20  # in a notebook
_LONGEST = 300  # of a cell there


class Result:
    """The base of every answer. It stands for itself in a prompt and a notebook, and gives its rows away."""

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
        parts = [f"<p><strong>{html.escape(self.sentence)}</strong></p>"]
        if rows:
            head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
            lines = [
                "<tr>" + "".join(f"<td>{html.escape(_text(cell))}</td>" for cell in row.values()) + "</tr>"
                for row in rows[:_MOST_ROWS]
            ]
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>")
        if len(rows) > _MOST_ROWS:
            parts.append(f"<p>and {len(rows) - _MOST_ROWS} more: to_pandas() has all</p>")
        return "".join(parts)


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
