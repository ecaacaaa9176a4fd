# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""index.html of a diagnosis: the answer, its source lines, what to do next, the losses, the graph around the
cause, the stages, and links to the reports of the parts. It needs nothing but a browser, and runs no script
itself.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msprobe.diagnose.answer import STAGES, stage_status
from msprobe.diagnose.answer_file import MOST_NOTICED, relative
from msprobe.diagnose.curves import curves
from msprobe.files.left_out import lines as missing_lines
from msprobe.files.page import POLICY, bullets, card, file_beside, scriptless_page, shown
from msprobe.terminal.printable import beside

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from msprobe.diagnose.answer import Answer
    from msprobe.diagnose.cause import Cause

_POLICY = f"{POLICY}; frame-src 'self' file:"
_BADGES = {"equal": "agree", "rounding": "agree", "differ": "differ", "incomplete": "incomplete"}


def page_html(answer: Answer, a: Path, b: Path, output: Path) -> str:
    """The whole text."""
    cards = [
        _header(answer, a, b),
        card("Source lines", _source(answer.cause)),
        card("What to try next", _next(answer, output)),
        card("Losses", _losses(answer)),
        card("Place in the model", _graph(answer, output)),
        card("Stage by stage", ["<table>", *_walk(answer), "</table>"]),
        card("Reports", ["<table>", *_reports(answer, output), "</table>"]),
        card("Less likely, or a consequence", bullets(one.line for one in answer.others)),
        card("Notes", bullets(answer.notes)),
    ]
    return scriptless_page("Diagnosis", cards, file_beside(__file__, "page.css"), policy=_POLICY)


def _header(answer: Answer, a: Path, b: Path) -> str:
    lines = [
        '<header class="card top">',
        f'<span class="badge {_BADGES[answer.status]}">{answer.status}</span>',
        f'<h1 id="sentence">{shown(answer.sentence)}</h1>',
    ]
    lines += [
        f'<p class="reason">not compared: {shown(one)}</p>'
        for one in missing_lines(answer.not_compared, beside=answer.sentence)
    ]
    lines += [f'<p class="reason">noticed: {shown(one)}</p>' for one in answer.noticed[:MOST_NOTICED]]
    if answer.cause is not None:
        sure = f'<span class="soft">(confidence {answer.cause.confidence:.0%})</span>'
        lines.append(f'<p class="reason">{shown(beside(answer.sentence, answer.cause.reason))} {sure}</p>')
    lines += [
        f'<dl class="inputs"><dt>reference</dt><dd><code>{shown(str(a))}</code></dd>',
        f"<dt>target</dt><dd><code>{shown(str(b))}</code></dd></dl>",
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
            f'<span class="outer">{shown(frame)}</span>' if place else f"<b>{shown(frame)}</b>"
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
        lines.append(f"<p>Record {shown(missing.what)}: {shown(missing.why)}.</p>")
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
    return [f"<p>{shown(part.sentence[:1].upper() + part.sentence[1:])}.</p>", curves(part.curves)]


def _walk(answer: Answer) -> list[str]:
    rows = []
    for stage, title, _ in STAGES:
        word, sentence = stage_status(stage, answer)
        kind = word if word in ("cause", "equal", "rounding", "failed") else "other"
        if sentence and answer.sentence.endswith(sentence):
            sentence = "named above"
        rows.append(
            f'<tr class="{kind}"><td class="name">{shown(title)}</td><td class="word">{shown(word)}</td>'
            f"<td>{shown(sentence)}</td></tr>"
        )
    return rows


def _reports(answer: Answer, output: Path) -> list[str]:
    rows = []
    for part in answer.parts:
        name = shown(part.part)
        if part.report is not None:
            name = f'<a href="{escape(relative(part.report, output), quote=True)}">{name}</a>'
        sentence = "the answer above" if part.sentence == answer.sentence else part.sentence
        evidence = "".join(f'<br><span class="soft">{shown(line)}</span>' for line in part.evidence)
        rows.append(
            f'<tr><td class="name">{name}</td><td class="word">{shown(part.status)}</td>'
            f"<td>{shown(sentence)}{evidence}</td></tr>"
        )
    return rows


def _commands(commands: Iterable[str]) -> list[str]:
    return ["<pre>" + "\n".join(shown(command) for command in commands) + "</pre>"]
