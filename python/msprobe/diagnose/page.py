# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""index.html of a diagnosis: the answer, its source lines, what to do next, the losses, the graph around the
cause, the walk, and links to the reports of the parts. It needs nothing but a browser, and runs no script
itself.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msprobe.diagnose.answer import STAGES, stage_status
from msprobe.diagnose.answer_file import relative
from msprobe.diagnose.curves import curves
from msprobe.files.page import base_style, file_beside
from msprobe.native import __version__
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from msprobe.diagnose.answer import Answer, Cause

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self' file:"
_BADGES = {"equal": "agree", "rounding": "agree", "differ": "differ", "incomplete": "incomplete"}


def page_html(answer: Answer, a: Path, b: Path, output: Path) -> str:
    """The whole text."""
    cards = [
        _header(answer, a, b),
        _card("Source lines", _source(answer.cause)),
        _card("What to try next", _next(answer, output)),
        _card("Losses", _losses(answer)),
        _card("Where it stands in the model", _graph(answer, output)),
        _card("The walk", ["<table>", *_walk(answer), "</table>"]),
        _card("Reports", ["<table>", *_reports(answer, output), "</table>"]),
        _card("Less likely, or a consequence", _list(one.line for one in answer.others)),
        _card("Notes", _list(answer.notes)),
    ]
    content = "\n".join(filter(None, cards))
    return f"""<!DOCTYPE html>
<!-- Copyright 2026 The msprobe authors. SPDX-License-Identifier: Apache-2.0 -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Diagnosis</title>
<style>
{base_style()}{file_beside(__file__, "page.css")}</style>
</head>
<body>
<main>
{content}
<footer>Made by msprobe {_text(__version__)}</footer>
</main>
</body>
</html>
"""


def _text(text: str) -> str:
    return escape(printable(text))


def _card(title: str, lines: list[str]) -> str:
    """Nothing where there are no lines."""
    if not lines:
        return ""
    return "\n".join(['<section class="card">', f"<h2>{title}</h2>", *lines, "</section>"])


def _header(answer: Answer, a: Path, b: Path) -> str:
    lines = [
        '<header class="card top">',
        f'<span class="badge {_BADGES[answer.status]}">{answer.status}</span>',
        f'<h1 id="sentence">{_text(answer.sentence)}</h1>',
    ]
    if answer.cause is not None:
        sure = f'<span class="soft">(confidence {answer.cause.confidence:.0%})</span>'
        lines.append(f'<p class="reason">{_text(answer.cause.reason)} {sure}</p>')
    lines += [
        f'<dl class="inputs"><dt>reference</dt><dd><code>{_text(str(a))}</code></dd>',
        f"<dt>target</dt><dd><code>{_text(str(b))}</code></dd></dl>",
        "</header>",
    ]
    return "\n".join(lines)


def _source(cause: Cause | None) -> list[str]:
    """The lines of both runs that called the cause."""
    if cause is None or not (cause.stack or cause.reference_stack):
        return []
    sides = []
    for name, stack in (("Reference", cause.reference_stack), ("Target", cause.stack)):
        lines = [
            f'<span class="outer">{_text(frame)}</span>' if place else f"<b>{_text(frame)}</b>"
            for place, frame in enumerate(stack)
        ]
        what = "<pre>" + "\n".join(lines) + "</pre>" if stack else '<p class="soft">No line was recorded.</p>'
        if not stack and cause.name.startswith(("missing call", "extra call")):
            what = '<p class="soft">This run does not make the call.</p>'
        sides.append(f"<div><h3>{name}</h3>{what}</div>")
    return [
        '<div class="sides">',
        *sides,
        "</div>",
        '<p class="soft hint">The innermost call stands first; below it are the lines that called it.</p>',
    ]


def _next(answer: Answer, output: Path) -> list[str]:
    lines = []
    for missing in answer.missing:
        lines.append(f"<p>Record {_text(missing.what)}: {_text(missing.why)}.</p>")
        lines += _commands(missing.commands)
    if answer.next_commands:
        lines += ["<p>See more of the step in the viewer:</p>", *_commands(answer.next_commands)]
    if answer.again and not answer.missing:
        lines += [
            "<p>Remove the difference from the target, record it again and compare. "
            "A second cause may have been hidden by this one.</p>",
            *_commands(answer.again),
        ]
    return lines


def _graph(answer: Answer, output: Path) -> list[str]:
    """The graph of the viewer, small and opened at the cause."""
    if answer.graph is None:
        return []
    link = escape(relative(answer.graph, output), quote=True)
    return [
        f'<iframe class="graph" src="{link}#little=1" title="Both models side by side, opened at the cause">'
        "</iframe>",
        f'<p class="hint"><a href="{link}">Open the graph in a window of its own</a>: with the tensors, '
        "source lines and data flow of every node.</p>",
    ]


def _losses(answer: Answer) -> list[str]:
    part = next((part for part in answer.parts if part.curves is not None), None)
    if part is None or part.curves is None:
        return []
    return [f"<p>{_text(part.sentence[:1].upper() + part.sentence[1:])}.</p>", curves(part.curves)]


def _walk(answer: Answer) -> list[str]:
    rows = []
    for stage, title, _ in STAGES:
        word, sentence = stage_status(stage, answer)
        kind = word if word in ("cause", "equal", "rounding", "failed") else "other"
        rows.append(
            f'<tr class="{kind}"><td class="name">{_text(title)}</td><td class="word">{_text(word)}</td>'
            f"<td>{_text(sentence)}</td></tr>"
        )
    return rows


def _reports(answer: Answer, output: Path) -> list[str]:
    rows = []
    for part in answer.parts:
        name = _text(part.part)
        if part.report is not None:
            name = f'<a href="{escape(relative(part.report, output), quote=True)}">{name}</a>'
        evidence = "".join(f'<br><span class="soft">{_text(line)}</span>' for line in part.evidence)
        rows.append(
            f'<tr><td class="name">{name}</td><td class="word">{_text(part.status)}</td>'
            f"<td>{_text(part.sentence)}{evidence}</td></tr>"
        )
    return rows


def _list(texts: Iterable[str]) -> list[str]:
    lines = [f"<li>{_text(text)}</li>" for text in texts]
    return ["<ul>", *lines, "</ul>"] if lines else []


def _commands(commands: Iterable[str]) -> list[str]:
    return ["<pre>" + "\n".join(_text(command) for command in commands) + "</pre>"]
