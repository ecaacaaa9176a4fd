# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The losses of two runs as a picture of a page: lines in SVG, labels in HTML, which keep their size on a
narrow screen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msprobe.diagnose.losses import relative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.diagnose.losses import LossComparison

    Points = Sequence[tuple[int, float]]

_WIDTH, _HEIGHT = 1000, 220
_LOW = 70  # height of the picture of the differences
_MOST_POINTS = 600  # of a line, in pairs of the smallest and the largest of a stretch


def curves(result: LossComparison) -> str:
    """Both losses, and below them the relative difference, over the steps; the first differing one marked."""
    a, b = sorted(result.a.items()), sorted(result.b.items())
    steps = [step for step, _ in (*a, *b)]
    if not steps:
        return ""
    first, last = min(steps), max(steps)
    apart = [(step, relative(value, result.b[step])) for step, value in a if step in result.b]
    marked = result.first_beyond
    parts = [_losses(a, b, (first, last), marked)]
    if any(0 < value < math.inf for _, value in apart):
        parts.append(_differences(apart, (first, last), marked))
    place = 0.0 if marked is None or first == last else (marked - first) / (last - first)
    side = "end" if place > 0.5 else "start"
    mark = (
        ""
        if marked is None
        else f'<p class="marked {side}" style="--at:{place:.2%}">first differing step: {marked}</p>'
    )
    return f"""<figure class="curves">
<p class="legend"><span><i class="reference"></i>reference</span>
<span><i class="target"></i>target</span></p>
{mark}
{"".join(parts)}
<p class="steps"><span>step {first}</span><span>step {last}</span></p>
</figure>"""


def _losses(a: Points, b: Points, steps: tuple[int, int], marked: int | None) -> str:
    finite = [value for _, value in (*a, *b) if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    lines = [
        _line(points, steps, (low, high), _HEIGHT, name) for points, name in ((a, "reference"), (b, "target"))
    ]
    label = "Loss of the reference and of the target over the steps"
    return _picture("loss", (f"{low:.3g}", f"{high:.3g}"), lines, _HEIGHT, label, steps, marked)


def _differences(apart: Points, steps: tuple[int, int], marked: int | None) -> str:
    """On a logarithmic scale: a difference that the losses do not show to the eye."""
    logs = [(step, math.log10(value)) for step, value in apart if 0 < value < math.inf]
    low = math.floor(min(value for _, value in logs))
    high = max(math.ceil(max(value for _, value in logs)), low + 1)
    equal_or_log = [
        (step, low if value == 0 else math.log10(value) if value < math.inf else math.inf)
        for step, value in apart
    ]
    line = _line(equal_or_log, steps, (low, high), _LOW, "apart")
    label = "Relative difference of the losses over the steps, on a logarithmic scale"
    return _picture(
        "relative difference, logarithmic",
        (f"{10.0**low:.0e}", f"{10.0**high:.0e}"),
        [line],
        _LOW,
        label,
        steps,
        marked,
    )


def _picture(
    name: str,
    ends: tuple[str, str],
    lines: list[str],
    height: int,
    label: str,
    steps: tuple[int, int],
    marked: int | None,
) -> str:
    mark = ""
    if marked is not None:
        x = _place(marked, steps, _WIDTH)
        mark = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
    low, high = ends
    return f"""<p class="axis"><span>{name}</span><span>{low} to {high}</span></p>
<svg viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none" height="{height}" role="img"
  aria-label="{label}">
{mark}{"".join(lines)}
</svg>
"""


def _line(points: Points, steps: tuple[int, int], ends: tuple[float, float], height: int, name: str) -> str:
    """A path that is interrupted where a value is not finite."""
    low, high = ends
    path, draws = [], False
    for step, value in _thinned(points):
        if not math.isfinite(value):
            draws = False
            continue
        share = 0.5 if high == low else value / (high - low) - low / (high - low)
        y = 4 + (height - 8) * (1 - share)
        path.append(f"{'L' if draws else 'M'}{_place(step, steps, _WIDTH):.1f} {y:.1f}")
        if not draws:
            path.append("h0.1")  # a single point is seen, too
        draws = True
    return f'<path class="{name}" d="{"".join(path)}"/>'


def _place(step: int, steps: tuple[int, int], width: int) -> float:
    first, last = steps
    return width * ((step - first) / (last - first) if last > first else 0.5)


def _thinned(points: Points) -> Points:
    """Of each stretch of a long line the smallest and the largest value, and one that is not finite."""
    if len(points) <= _MOST_POINTS:
        return points
    result: list[tuple[int, float]] = []
    size = -(-len(points) // (_MOST_POINTS // 2))
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        finite = [point for point in stretch if math.isfinite(point[1])]
        ends = {min(finite, key=_value), max(finite, key=_value)} if finite else set()
        odd = next((point for point in stretch if not math.isfinite(point[1])), None)
        result += sorted(ends | ({odd} if odd is not None else set()), key=lambda point: point[0])
    return result


def _value(point: tuple[int, float]) -> float:
    return point[1]
