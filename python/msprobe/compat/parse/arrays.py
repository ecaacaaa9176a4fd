# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""pt and cn: one array printed, two compared."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import text_writer
from msprobe.native import InvalidArgument, core
from msprobe.tensors.content import Content, open_tensor_file
from msprobe.tensors.measuring import measure
from msprobe.tensors.pairing import Paired, pair
from msprobe.tensors.text import number

if TYPE_CHECKING:
    from collections.abc import Callable

    Print = Callable[[str], None]

_MOST_TEXT = 100_000_000  # elements of a .txt
_PIECE = 1 << 16
_PER_LINE = 8
_MOST_LINES = 16


def print_array(path: str, say: Print) -> None:
    """Its first elements and statistics; writes {path}.txt. Raises IoError, FormatError, InvalidArgument."""
    content = _open(path)
    values = core.tensor_values(content.memory, dtype=content.dtype, count=_PER_LINE * _MOST_LINES)
    say(f"{'Index':>8}  Data")
    for at in range(0, len(values), _PER_LINE):
        say(f"{at:>8}  {' '.join(map(number, values[at : at + _PER_LINE]))}")
    say(spec(content))
    say(f"Path: {path}")
    text = write_text_file(content, path)
    if text:
        say(text)


def compare_arrays(
    left: str, right: str, say: Print, *, count: int = 20, atol: float = 0.001, rtol: float = 0.001,
    save: bool = False,
) -> None:  # fmt: skip
    """The first elements that are not close, the first elements at all, and a summary."""
    ours, theirs = _open(left), _open(right)
    if ours.shape != theirs.shape:
        say(f"The shapes differ: {ours.shape} and {theirs.shape}; compared one element after the other")
    a, b = _flat(ours), _flat(theirs)
    size = max(a.elements, b.elements)
    if a.elements != b.elements:
        say(f"The shorter array is filled up with zeros: {a.elements} and {b.elements} elements")
        a, b = _filled(a, size), _filled(b, size)
    found = pair(a, b, relative=rtol, absolute=atol, most=count)
    top = zip(*(core.tensor_values(one.memory, dtype=one.dtype, count=count) for one in (a, b)))
    _table("Error Item Table", found.first, say)
    _table("Top Item Table", [(i, l, r) for i, (l, r) in enumerate(top)], say)  # noqa: E741
    for label, path, content in (("Left:", left, ours), ("Right:", right, theirs)):
        say(label)
        say(f"  NpyFile: {path}")
        if save:
            say(f"  {write_text_file(content, path)}")
        say(f"  NpySpec: {spec(content)}")
    _summary(found, size, say)


def _summary(found: Paired, size: int, say: Print) -> None:
    share = found.not_close / size if size else 0.0
    say(f"NumCnt:   {size}")
    say(f"AllClose: {found.not_close == 0}")
    say(f"CosSim:   {'nan' if found.cosine is None else number(found.cosine)}")
    say(f"ErrorPer: {share}  (rl= {found.relative}, al= {found.absolute})")


def spec(content: Content) -> str:
    """Shape, dtype, max, min and mean, as mindstudio-probe puts them into one line."""
    found = measure(content, bins=0, first=0).statistics
    most, least, mean = (number(found[key]) for key in ("max", "min", "mean"))
    return f"[Shape: {content.shape}] [Dtype: {content.dtype}] [Max: {most}] [Min: {least}] [Mean: {mean}]"


def write_text_file(content: Content, path: str) -> str:
    """Writes {path}.txt, a line for each row of the last dimension; one that is there stays. Returns what was
    done.
    """
    target = Path(f"{path}.txt")
    if target.exists():
        return f"TextFile: {target} (it was there already)"
    if content.elements > _MOST_TEXT:
        return f"TextFile: not written, the array has more than {_MOST_TEXT} elements"
    row = content.shape[-1] if content.shape else 1
    with text_writer(target) as file:
        for at in range(0, content.elements, _PIECE):
            values = core.tensor_values(content.memory, dtype=content.dtype, first=at, count=_PIECE)
            ends = ("\n" if (at + i + 1) % row == 0 else " " for i in range(len(values)))
            file.write("".join("%g%s" % pair for pair in zip(values, ends)))  # noqa: UP031  # as numpy.savetxt
    return f"TextFile: {target}"


def _open(path: str) -> Content:
    if not os.path.isfile(path):
        raise InvalidArgument(f"{path}: expected a .npy file, or a .pt file with one tensor")
    return open_tensor_file(path)


def _flat(content: Content) -> Content:
    import numpy as np

    memory: Any = np.asarray(content.memory).reshape(-1)
    return Content(content.name, content.dtype, (content.elements,), memory)


def _filled(content: Content, size: int) -> Content:
    import numpy as np

    memory: Any = np.pad(content.memory, (0, size - content.elements))
    return Content(content.name, content.dtype, (size,), memory)


def _table(title: str, rows: list[tuple[int, float, float]], say: Print) -> None:
    say(title)
    cells = [["Index", "Left", "Right", "Diff"]]
    cells += [[str(i), number(a), number(b), number(abs(a - b))] for i, a, b in rows]
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    for row in cells:
        say("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip())
