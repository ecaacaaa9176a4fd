# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The code of a notebook (.ipynb, nbformat 4), cell by cell, as a script without IPython would run it."""

from __future__ import annotations

import json
import linecache
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.regular_file import read_text
from msprobe.native import FormatError, log

if TYPE_CHECKING:
    import types
    from collections.abc import Iterator

_MARKS = ("%", "!", "?")
_MAGICS_WITH_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun")


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def compile_notebook(path: str) -> list[types.CodeType]:
    """One for each cell with code, in order: its lines in a traceback are those of "PATH, cell N", as a
    notebook counts them. Lines for IPython (%matplotlib, !pip) do nothing, and a warning names them.

    Raises FormatError for what is no notebook, and lets the SyntaxError of a cell through.
    """
    codes = []
    if sys.excepthook is sys.__excepthook__:  # looks for lines in files only
        sys.excepthook = traceback.print_exception
    for number, source in _cells(path):
        name = f"{path}, cell {number}"
        text = _without_magics(source, name)
        lines = [f"{line}\n" for line in text.splitlines()]
        # No file has these lines: a traceback finds them here.
        linecache.cache[name] = (len(text), None, lines, name)
        codes.append(compile(text, name, "exec", dont_inherit=True))
    return codes


def _cells(path: str) -> Iterator[tuple[int, str]]:
    """Number, from 1, and source of the cells with code."""
    try:
        content = json.loads(read_text(Path(path)))
        cells = content["cells"]
        sources = [(cell["cell_type"], cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{path}: expected a notebook of nbformat 4, with cells") from error
    for number, (kind, source) in enumerate((one for one in sources if one[0] == "code"), 1):
        assert kind == "code"
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise FormatError(f'{path}: cell {number}: "source": expected text')
        yield number, source


def _without_magics(source: str, name: str) -> str:
    """Line by line, so that the numbers of lines stay."""
    lines = source.splitlines()
    first = lines[0].split()[0] if lines and lines[0].split() else ""
    if first.startswith("%%") and first not in _MAGICS_WITH_PYTHON:
        log.warning("%s: left out, as it is no Python: %s", name, first)
        return ""
    left_out = [line.strip() for line in lines if line.lstrip().startswith(_MARKS)]
    if left_out:
        log.warning("%s: for IPython only, left out: %s", name, "; ".join(left_out[:5]))
    return "\n".join(
        f"{line[: len(line) - len(line.lstrip())]}pass" if line.lstrip().startswith(_MARKS) else line
        for line in lines
    )
