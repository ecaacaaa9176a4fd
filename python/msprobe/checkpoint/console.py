# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison for a terminal: a sentence, the layers and the parameters, the worst first."""

from __future__ import annotations

from msprobe.checkpoint.layers import Layer, layers_of
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.checkpoint.limits import Failure
    from msprobe.checkpoint.result import CheckpointResult, CheckpointSide, ParameterRow

_MOST_ROWS = 20
_MOST_LAYERS = 8
_MOST_NAMES = 8
_LONGEST_NAME = 72


def console_text(
    result: CheckpointResult, failing: Sequence[Failure], files: Sequence[Path], paint: Paint = PLAIN
) -> str:
    answer = paint.answer(result.answer(within_limits=not failing), good=not failing)
    lines = [answer, _side("reference", result.reference), _side("target   ", result.target)]
    lines += [f"  note: {printable(note)}" for note in result.notes]
    for side, names in (("reference", result.reference_only), ("target", result.target_only)):
        lines += _some(f"only in the {side}", names)
    lines += _some("not compared", [f"{name} ({reason})" for name, reason in result.not_compared])
    differing = result.differing
    if differing:
        lines += _layer_lines(layers_of(differing))
        lines += _row_lines(differing)
    gigabytes = (result.reference.bytes + result.target.bytes) / 1e9
    lines.append(f"  {gigabytes:.2f} GB in {result.seconds:.2f} s")
    lines += [f"  {printable(str(path))}" for path in files]
    return "\n".join(lines) + "\n"


def _side(label: str, side: CheckpointSide) -> str:
    sizes = " x ".join(
        f"{name}{size}" for name, size in zip(("TP", "PP", "EP", "VPP"), side.parallel_sizes) if size > 1
    )
    iteration = "" if side.iteration is None else f", iteration {side.iteration}"
    details = f"{side.kind}{', ' + sizes if sizes else ''}{iteration}, {side.parameters} parameters"
    return f"  {label} {printable(side.path)} ({details})"


def _some(label: str, names: Sequence[str]) -> list[str]:
    lines = [f"  {label}: {printable(name)}" for name in names[:_MOST_NAMES]]
    return lines + ([f"  {label}: {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else [])


def _layer_lines(layers: list[Layer]) -> list[str]:
    lines = ["", f"  {'layer':40}  parameters that differ   relative l2"]
    for layer in layers[:_MOST_LAYERS]:
        lines.append(
            f"  {_cut(layer.name, 40):40}  {len(layer.rows):22}   {_number(layer.relative_distance)}"
        )
    return lines + ([f"  {len(layers) - _MOST_LAYERS} more"] if len(layers) > _MOST_LAYERS else [])


def _row_lines(rows: list[ParameterRow]) -> list[str]:
    shown = rows[:_MOST_ROWS]
    width = min(max(len(row.name) for row in shown), _LONGEST_NAME)
    lines = ["", f"  {'parameter':{width}}  {'l2':>11} {'cos':>11} {'max abs':>11} {'max rel':>11}  equal"]
    for row in shown:
        name = f"{_cut(row.name, width):{width}}"
        if row.reshaped:
            lines.append(f"  {name}  the shapes are {row.shapes[0]} and {row.shapes[1]}")
        elif not row.compared:
            lines.append(f"  {name}  the hashes differ")
        else:
            numbers = " ".join(
                f"{_number(value):>11}" for value in (row.l2, row.cos, row.max_absolute, row.max_relative)
            )
            lines.append(f"  {name}  {numbers}  {_share(row)}")
    return lines + ([f"  {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else [])


def _share(row: ParameterRow) -> str:
    """Never "100.0%" for less than all."""
    share = 100 * (row.equal_bits or 0) / max(row.count, 1)
    return f"{min(share, 99.9):.1f}%"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _cut(text: str, width: int) -> str:
    text = printable(text)
    return text if len(text) <= width else f"...{text[3 - width :]}"
