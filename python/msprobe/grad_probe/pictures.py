# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of similarities: one line over the steps for each parameter."""

from __future__ import annotations

import hashlib
import os
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from msprobe.files.regular_file import open_to_write
from msprobe.native import core, log

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.terminal.progress import Progress

SUFFIX = "_similarities.png"
SUMMARY = "summary"

_LONGEST_FILE_NAME = 255  # bytes
_LONGEST_TITLE = 74  # characters
_RULE = 0.97  # what the first step should reach at least
# The y axis begins at one of these, so that pictures can be compared by eye.
_LOWEST = (0.99, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.0)
_MOST_MARKED_STEPS = 60


class Picture(NamedTuple):
    title: str
    file_name: str
    values: list[float | None]


def picture_of(name: str, values: list[float | None]) -> Picture:
    """The picture of a parameter."""
    # A parameter called "summary" must not take the file of the summary; "%" at the start of no other name is
    # followed by 73, because the native function escapes "%" itself.
    stem = "%73ummary" if name == SUMMARY else core.direction_file_name(name)[: -len(".npy")]
    if len((stem + SUFFIX).encode("utf-8", "surrogateescape")) > _LONGEST_FILE_NAME:
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        stem = f"{stem.encode('ascii', 'replace').decode()[:200]}~{digest}"
    return Picture(f"{name}_similarities", stem + SUFFIX, values)


def picture_of_summary(values: list[float | None]) -> Picture:
    return Picture(f"{SUMMARY}_similarities", SUMMARY + SUFFIX, values)


def painter() -> Painter | None:
    """None, and a warning, where matplotlib cannot be used."""
    try:
        return Painter()
    except ImportError:
        log.warning(
            "matplotlib is not installed: the comparison is written without pictures; "
            "pip install 'msprobe[pictures]' installs it"
        )
        return None


class Painter:
    """Draws one picture at a time on one figure.

    Axes, ticks and labels are drawn once for each range of the axes; a picture is that, one line and a title.
    A whole figure for each would take three times as long, and pictures take most of a comparison.
    """

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        self._figure = Figure(figsize=(6.4, 4.8), dpi=100)
        self._canvas: Any = FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_subplot()
        self._axes.set_xlabel("steps")
        self._axes.set_ylabel("similarities")
        self._axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        self._axes.axhline(_RULE, color="0.6", linewidth=0.8, linestyle=":")
        (self._line,) = self._axes.plot([], [])
        self._title = self._axes.set_title("", parse_math=False)
        self._range: tuple[float, ...] = ()
        self._background: Any = None

    def draw(self, directory: Path, steps: list[int], pictures: list[Picture], progress: Progress) -> None:
        """Into `directory`, which exists. What goes wrong becomes one warning."""
        drawn, problem = 0, ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # e.g. a sign that the font does not have
            for picture in pictures if steps else ():
                try:
                    self._draw(picture, steps, directory / picture.file_name)
                    drawn += 1
                except OSError as error:
                    problem = f"{picture.file_name}: {error.strerror}"
                progress(drawn, len(pictures))
        if problem:
            missing = len(pictures) - drawn
            log.warning("%d of %d pictures could not be drawn: %s", missing, len(pictures), problem)

    def _draw(self, picture: Picture, steps: list[int], path: Path) -> None:
        self._set_range(steps, picture.values)
        self._canvas.restore_region(self._background)
        self._line.set_data(steps, [float("nan") if value is None else value for value in picture.values])
        # Without marks, a value between two gaps, or of the only step, would not be seen.
        self._line.set_marker("." if len(steps) <= _MOST_MARKED_STEPS or None in picture.values else "")
        self._axes.draw_artist(self._line)
        self._title.set_text(_shown(picture.title))
        self._axes.draw_artist(self._title)
        _write_png(self._canvas, path)

    def _set_range(self, steps: list[int], values: list[float | None]) -> None:
        least = min((value for value in values if value is not None), default=1.0)
        lowest = next((edge for edge in _LOWEST if edge <= least), 0.0)
        if self._range == (lowest, steps[0], steps[-1]):
            return
        self._range = (lowest, steps[0], steps[-1])
        for set_limits, first, last in (
            (self._axes.set_ylim, lowest, 1.0),
            (self._axes.set_xlim, steps[0], steps[-1]),
        ):
            margin = 0.05 * (last - first) or 0.5
            set_limits(first - margin, last + margin)
        self._line.set_data([], [])
        self._title.set_text("")
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)


def _shown(title: str) -> str:
    text = "".join(char if char.isprintable() else "?" for char in title)
    half = _LONGEST_TITLE // 2
    return text if len(text) <= _LONGEST_TITLE else f"{text[:half]}\u2026{text[-half:]}"


def _write_png(canvas: Any, path: Path) -> None:
    """Whole, or not at all."""
    from PIL import Image

    pixels = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    temporary = path.with_name(f".{os.getpid()}.tmp")
    try:
        with open_to_write(temporary) as file:
            pixels.convert("RGB").save(file, "PNG", compress_level=1)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
