# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The losses in the folder of a run (docs/formats/run.md): a file for each process, and one of all that have
ended. Whoever reads one reads both.
"""

from __future__ import annotations

import os
import re

from msprobe.files.append_file import append_in_turn
from msprobe.files.regular_file import open_text, read_text

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

HEADER = "step,loss,backward_calls\n"
JOINED = "losses.ranks.csv"
"""Of several processes: the rows of each one, behind a first column with its rank."""

_OWN = re.compile(r"losses\.rank([0-9]{1,9})\.csv")
_NUMBER = re.compile("[0-9]{1,18}")
_LARGEST = 1 << 30  # bytes: a thousand ranks and ten thousand steps are a quarter of it


def own_file(rank: int) -> str:
    """The name of the file of a process while it runs, and of the only one of a run."""
    return f"losses.rank{rank}.csv"


def is_loss_file(name: str) -> bool:
    return name == JOINED or _OWN.fullmatch(name) is not None


def join(folder: Path, rank: int) -> str:
    """Moves the rows of this process into the file of all; returns the name of that. A process that is killed
    on the way leaves its own file. Raises IoError and OSError, and then has moved nothing.
    """
    own = folder / own_file(rank)
    rows = read_text(own, _LARGEST).splitlines()[1:]
    append_in_turn(folder / JOINED, "".join(f"{rank},{row}\n" for row in rows), f"rank,{HEADER}")
    own.unlink()
    return JOINED


def losses_in(paths: Iterable[Path]) -> dict[int, dict[int, str]]:
    """By rank and step, as they are written: exact, and empty where a step had none. What a killed process
    left half is left out. paths: other files are passed by. Raises OSError.
    """
    result: dict[int, dict[int, str]] = {}
    for path in sorted(paths, key=lambda path: (path.name != JOINED, path.name)):  # its own file counts more
        match = _OWN.fullmatch(path.name)
        if match is None and path.name != JOINED:
            continue
        with open_text(path) as file:
            lines = file.read(_LARGEST).splitlines()
        own = None if match is None else match[1]
        for rank, step, loss in _rows(lines, own):
            result.setdefault(rank, {})[step] = loss
        if own is not None:
            result.setdefault(int(own), {})
    return result


def losses_of(folder: Path) -> dict[int, dict[int, str]]:
    """losses_in() of the folder of a run. Raises OSError."""
    return losses_in([folder / name for name in os.listdir(folder)])


def begins_at(target: Path, reference: Path) -> int:
    """The step of the reference at which the target begins, which was resumed: the only one from which on all
    losses that both have, of two steps or more, are equal to the last digit. 0: there is none. Both are
    folders of runs.
    """
    try:
        ours, theirs = losses_of(target), losses_of(reference)
    except OSError:
        return 0
    both = [(ours[rank], theirs[rank]) for rank in ours if theirs.get(rank) and ours[rank]]
    if not both:
        return 0
    first, loss = next(iter(both[0][0].items()))
    shifts = [step - first for step, other in both[0][1].items() if other == loss != ""]
    found = [shift for shift in shifts if all(_follows(one, other, shift) for one, other in both)]
    return found[0] if len(found) == 1 else 0


def _follows(target: dict[int, str], reference: dict[int, str], shift: int) -> bool:
    common = [step for step in target if step + shift in reference]
    return len(common) > 1 and all(target[step] == reference[step + shift] for step in common)


def _rows(lines: list[str], rank: str | None) -> Iterator[tuple[int, int, str]]:
    for line in lines[1:]:
        cells = line.split(",")
        if rank is not None:
            cells.insert(0, rank)
        if len(cells) == 4 and all(
            cell.isascii() and cell.isdigit() and len(cell) < 19 for cell in cells[:2]
        ):
            yield int(cells[0]), int(cells[1]), cells[2]
