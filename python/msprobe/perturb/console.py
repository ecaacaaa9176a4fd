# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a perturbed training in a few lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.perturb.result import PerturbResult

_MOST_CALLS = 5
_MOST_MODULES = 3


def console_text(result: PerturbResult, files: Sequence[Path] = (), paint: Paint = PLAIN) -> str:
    lines = [paint.answer(printable(result.sentence), good=result.status == "healthy")]
    fragile = result.fragile
    for place, call in enumerate(fragile[:_MOST_CALLS], 1):
        lines.append(f"  {place}. {paint.strong(printable(call.where))} [{call.kind}, {call.stage}]")
        lines.append(f"     {printable(call.reason)}")
        if call.stack:
            lines.append(f"     {printable(call.stack[0].rpartition(chr(10))[2].strip())}")
    if len(fragile) > _MOST_CALLS:
        lines.append(f"  and {len(fragile) - _MOST_CALLS} more")
    modules = sorted(result.modules, key=lambda one: -one.loss)
    if modules:
        lines.append("  Rounding moves the loss most in")
        for one in modules[:_MOST_MODULES]:
            lines.append(
                f"    {printable(one.name)}: by {one.loss:.2g} of it, {one.roundings:.2g} roundings of "
                f"{one.dtype}"
            )
    if result.expected_loss:
        step = max(result.expected_loss)
        lines.append(
            f"  Two healthy runs may differ by {result.expected_loss[step]:.1g} of the loss at step {step}"
        )
    lines += [paint.faint(f"  note: {printable(note)}") for note in notes_of(result)]
    lines += [f"  {printable(str(path))}" for path in files]
    return "\n".join(lines) + "\n"


def notes_of(result: PerturbResult) -> list[str]:
    """What a reader of the answer has to know."""
    notes = list(result.notes)
    for reason, functions in sorted(result.left_out.items(), key=lambda one: -sum(one[1].values()))[:3]:
        names = ", ".join(list(functions)[:3]) + (" ..." if len(functions) > 3 else "")
        notes.append(f"not made again ({sum(functions.values())}), because {reason}: {names}")
    notes += [f"{name}: {fault}" for name, fault in list(result.faults.items())[:3]]
    return notes
