# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes first_hour.svg: a minute of terminal, of a run that really takes place.

    python docs/images/first_hour.py [-o docs/images/first_hour.svg]

The three commands of the first hour run in a temporary folder; their lines become an SVG that is animated by
CSS alone: no script, no font. Without animation (a printer, "reduced motion") it shows its end: the answer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAIN = HERE.parents[1] / "examples/first_hour/train.py"

SECONDS = 60.0
COLUMNS, ROWS = 106, 23
CHAR, LINE, MARGIN = 8.43, 20.0, 16.0  # pixels, of a monospaced font of 14
TOP, FOOT = 34.0, 46.0

# Command, what the caption says meanwhile, seconds between two lines of its output.
SCENES = (
    ("msprobe run -o run_a train.py", "1. Record the run that you trust. The script does not change.", 0.45),
    (
        "msprobe run -o run_b train.py --fault",
        "2. Record the other one. From step 1 on the loss is off by 0.0001.",
        0.45,
    ),
    ("msprobe diagnose run_a run_b -o answer", "3. Ask where they diverge.", 0.8),
)
END = (
    (2.0, "The first line is the cause: one layer computes with another eps."),
    (8.0, "What lies before it is equal; what differs behind it follows from it."),
    (14.0, "answer/index.html has the evidence, msprobe view shows the graph."),
)
TYPING = 0.075  # seconds a character


@dataclass
class Film:
    """Text with the second at which it appears."""

    lines: list[tuple[float, str, str]] = field(default_factory=list)  # second, text, class
    typed: list[tuple[float, str]] = field(default_factory=list)  # second, command; its line is in `lines`
    captions: list[tuple[float, str]] = field(default_factory=list)
    now: float = 0.5


def output_of(command: str, folder: Path) -> list[str]:
    words = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"first_hour.py: {command}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout.replace(f"{folder}/", "").rstrip().splitlines()


def filmed(folder: Path) -> Film:
    (folder / "train.py").write_bytes(TRAIN.read_bytes())
    film = Film()
    for command, caption, pause in SCENES:
        film.captions.append((film.now, caption))
        film.typed.append((film.now, command))
        film.lines.append((film.now, f"$ {command}", "command"))
        film.now += len(command) * TYPING + 0.8
        for line in output_of(command, folder):
            film.lines.append((film.now, shortened(line), kind(line)))
            film.now += pause if line.strip() else 0.1
        film.now += 1.2
    film.captions += [(min(film.now + after, SECONDS - 4), text) for after, text in END]
    return film


def shortened(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def kind(line: str) -> str:
    words = line.split()
    if line.startswith("The runs"):
        return "answer"
    if "cause" in words and "follows" not in words:
        return "cause"
    return "equal" if words and words[-1] == "equal" else "plain"


def drawn(film: Film) -> str:
    width, height = 2 * MARGIN + COLUMNS * CHAR, TOP + ROWS * LINE + 10 + FOOT
    style, body = [STYLE], []
    for number, (second, text, name) in enumerate(film.lines):
        y = TOP + (number + 1) * LINE - 5
        if name == "command":
            body.append(typed_line(number, second, text, y, style))
        else:
            body.append(f'<text class="{name} l{number}" x="{MARGIN}" y="{y:g}">{escape(text)}</text>')
            style.append(appearing(f"l{number}", second))
    style.append(scrolling(film))
    captions = []
    for number, (second, text) in enumerate(film.captions):
        until = film.captions[number + 1][0] if number + 1 < len(film.captions) else None
        y = height - FOOT / 2 + 5
        captions.append(f'<text class="caption c{number}" x="{width / 2:g}" y="{y:g}">{escape(text)}</text>')
        style.append(appearing(f"c{number}", second, until))
    commands = "; ".join(command for _, command in film.typed)
    window = f"{width:g} {ROWS * LINE + 6:g}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>Three commands from a wrong loss to its cause: {escape(commands)}</title>
<style>
{chr(10).join(style)}
</style>
<rect width="100%" height="100%" rx="10" fill="#15181e"/>
<circle cx="20" cy="17" r="5" fill="#555c68"/><circle cx="38" cy="17" r="5" fill="#555c68"/>
<circle cx="56" cy="17" r="5" fill="#555c68"/>
<svg x="0" y="{TOP:g}" width="{width:g}" height="{ROWS * LINE + 6:g}" viewBox="0 {TOP:g} {window}">
<g class="page">
{chr(10).join(body)}
</g>
</svg>
{chr(10).join(captions)}
</svg>
"""


STYLE = f"""text {{ font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace }}
text {{ fill: #d3d7de; white-space: pre }}
.command {{ fill: #ffffff; font-weight: bold }} .equal {{ fill: #6fcf8f }}
.answer {{ fill: #ff8a7a; font-weight: bold }} .cause {{ fill: #ff8a7a; font-weight: bold }}
.caption {{ font: 17px system-ui, "DejaVu Sans", sans-serif; fill: #ffd479; text-anchor: middle }}
[class*=" "], .page {{ animation: {SECONDS:g}s infinite step-end }}
@media (prefers-reduced-motion: reduce) {{ [class*=" "], .page {{ animation: none }} }}"""


def percent(second: float) -> str:
    return f"{100 * second / SECONDS:.2f}%"


def appearing(name: str, second: float, until: float | None = None) -> str:
    """Without animation what disappears again is not seen."""
    gone = "" if until is None else f" {percent(until)} {{ opacity: 0 }}"
    still = "" if until is None else f".{name} {{ opacity: 0 }} "
    return (
        f"{still}.{name} {{ animation-name: {name} }} "
        f"@keyframes {name} {{ 0% {{ opacity: 0 }} {percent(second)} {{ opacity: 1 }}{gone} }}"
    )


def typed_line(number: int, second: float, text: str, y: float, style: list[str]) -> str:
    """A command of which some characters appear at a time."""
    prompt, words = text[:2], text[2:]
    style.append(appearing(f"l{number}", second))
    pieces = [f'<text class="command l{number}" x="{MARGIN}" y="{y:g}">{prompt}</text>']
    for at in range(0, len(words), 2):
        name = f"l{number}x{at}"
        x = MARGIN + (2 + at) * CHAR
        pieces.append(
            f'<text class="command {name}" x="{x:.1f}" y="{y:g}">{escape(words[at : at + 2])}</text>'
        )
        style.append(appearing(name, second + 0.4 + at * TYPING))
    return "".join(pieces)


def scrolling(film: Film) -> str:
    """The page moves up as a terminal does once it is full. Its place without animation is the last one."""
    frames = ["0% { transform: none }"]
    moved = 0.0
    for number, (second, _, _) in enumerate(film.lines):
        if number >= ROWS:
            moved = (number - ROWS + 1) * LINE
            frames.append(f"{percent(second)} {{ transform: translateY({-moved:g}px) }}")
    return (
        f".page {{ transform: translateY({-moved:g}px); animation-name: page }} "
        f"@keyframes page {{ {' '.join(frames)} }}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=HERE / "first_hour.svg", help="the picture")
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as name:
        film = filmed(Path(name).resolve())
    if film.now > SECONDS - 8:
        raise SystemExit(
            f"first_hour.py: the lines take {film.now:.0f} s, expected at most {SECONDS - 8:.0f}"
        )
    out.write_text(drawn(film), encoding="utf-8")
    print(f"{out}: {out.stat().st_size / 1024:.0f} KiB, {len(film.lines)} lines in {film.now:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
