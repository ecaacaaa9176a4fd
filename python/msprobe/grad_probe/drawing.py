# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of a comparison. This module is the whole program of a worker process, see pictures.py.

It reads one job per line of its standard input and answers with one line each:
    job     {"directory": D, "steps": [...], "pictures": [[title, file name, [similarity or null, ...]], ...]}
    answer  {"drawn": number of pictures, "problem": null or why the others are not}

One figure serves all pictures. What does not change from picture to picture (axes, ticks, labels) is drawn
once for each range of the y axis and kept; a picture is that background, one line and a title. The title is
set with matplotlib's font by Pillow, because matplotlib would spend three quarters of the time of a picture
on it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from typing import Any, TextIO

SIZE = (640, 480)
_DPI = 100
_LINE_COLOUR = (31, 119, 180)
_RULE = 0.97  # what the first step should reach at least
# The y axis begins at one of these, so that pictures can be compared by eye and their backgrounds are few.
_LOWEST = (0.99, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.0)
_MOST_BACKGROUNDS = 32
_MOST_MARKED_STEPS = 60
_TITLE_CENTRE = (328, 44)
_TITLE_WIDTH = 620
_TITLE_SIZES = (17, 13, 10)  # pixels; a long name is set smaller


class Painter:
    """Draws one picture at a time on one figure."""

    def __init__(self) -> None:
        from matplotlib import get_data_path
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
        from PIL import Image, ImageFont

        self._figure = Figure(figsize=(SIZE[0] / _DPI, SIZE[1] / _DPI), dpi=_DPI)
        self._canvas: Any = FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_subplot()
        self._axes.set_xlabel("steps")
        self._axes.set_ylabel("similarities")
        self._axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        self._axes.axhline(_RULE, color="0.6", linewidth=0.8, linestyle=":")
        (self._line,) = self._axes.plot([], [], color=[part / 255 for part in _LINE_COLOUR])
        self._backgrounds: dict[tuple[float, ...], Any] = {}
        self._palette = Image.new("P", (1, 1))
        self._palette.putpalette(_palette())
        font = os.path.join(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
        self._fonts = [
            ImageFont.truetype(font, size, layout_engine=ImageFont.Layout.BASIC) for size in _TITLE_SIZES
        ]

    def draw(self, title: str, steps: list[int], values: list[float | None], path: str) -> None:
        """Writes one picture. Raises OSError."""
        self._canvas.restore_region(self._background(steps, values))
        self._line.set_data(steps, [float("nan") if value is None else value for value in values])
        # Without marks, a value between two gaps, or of the only step, would not be seen.
        self._line.set_marker("." if len(steps) <= _MOST_MARKED_STEPS or None in values else "")
        self._axes.draw_artist(self._line)
        self._save(title, path)

    def _background(self, steps: list[int], values: list[float | None]) -> Any:
        least = min((value for value in values if value is not None), default=1.0)
        lowest = next((edge for edge in _LOWEST if edge <= least), 0.0)
        for set_limits, first, last in (
            (self._axes.set_ylim, lowest, 1.0),
            (self._axes.set_xlim, steps[0], steps[-1]),
        ):
            margin = 0.05 * (last - first) or 0.5
            set_limits(first - margin, last + margin)
        key = (lowest, steps[0], steps[-1])
        if key not in self._backgrounds:
            if len(self._backgrounds) >= _MOST_BACKGROUNDS:
                self._backgrounds.clear()
            self._line.set_data([], [])
            self._canvas.draw()
            self._backgrounds[key] = self._canvas.copy_from_bbox(self._figure.bbox)
        return self._backgrounds[key]

    def _save(self, title: str, path: str) -> None:
        """Sets the title and writes a PNG with few colours: a quarter of the bytes to compress."""
        from PIL import Image, ImageDraw

        pixels = Image.frombuffer("RGBA", SIZE, self._canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
        picture = pixels.convert("RGB")
        text = "".join(char if char.isprintable() else "?" for char in title)
        font = next((font for font in self._fonts if font.getlength(text) <= _TITLE_WIDTH), self._fonts[-1])
        while font.getlength(text) > _TITLE_WIDTH:
            text = f"{text[: len(text) // 2 - 4]}\u2026{text[len(text) // 2 + 4 :]}"
        ImageDraw.Draw(picture).text(_TITLE_CENTRE, text, fill=(0, 0, 0), font=font, anchor="mm")
        reduced = picture.quantize(palette=self._palette, dither=Image.Dither.NONE)
        temporary = os.path.join(os.path.dirname(path), f".{os.getpid()}.tmp")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "wb") as file:
                reduced.save(file, "PNG", compress_level=1)
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise


def _palette() -> list[int]:
    """Shades from black to white for the text, and from the line's colour to white for the line."""
    colours: list[int] = []
    for shade in range(16):
        colours += [17 * shade] * 3
    for shade in range(12):
        colours += [round(part + (255 - part) * shade / 15) for part in _LINE_COLOUR]
    return colours


def serve(jobs: TextIO, answers: TextIO) -> None:
    """Does every job of `jobs`."""
    painter = Painter()
    for line in jobs:
        job = json.loads(line)
        drawn, problem = 0, None
        for title, name, values in job["pictures"]:
            try:
                painter.draw(title, job["steps"], values, os.path.join(job["directory"], name))
                drawn += 1
            except OSError as error:
                problem = f"{name}: {error.strerror}"
        answers.write(json.dumps({"drawn": drawn, "problem": problem}) + "\n")
        answers.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    warnings.simplefilter("ignore")  # e.g. a sign that the font does not have
    serve(sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
