# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""index.html of a diagnosis: the answer, the walk, and links to the reports of the parts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msprobe.diagnose.answer import STAGES, stage_status
from msprobe.diagnose.answer_file import relative
from msprobe.native import __version__
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from msprobe.diagnose.answer import Answer, Cause

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --red: #c2321f; --green: #1d7a3d; --soft: #8888; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.3; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.differ h1 { color: var(--red); } .equal h1, .rounding h1 { color: var(--green); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top;
  padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
pre { overflow-x: auto; padding: .6rem; border: 1px solid var(--line); border-radius: .4rem; }
.cause td { font-weight: 600; } .cause .word { color: var(--red); } .equal .word { color: var(--green); }
.soft { opacity: .7; } code { overflow-wrap: anywhere; }
"""


def page_html(answer: Answer, a: Path, b: Path, output: Path) -> str:
    """The whole text; it needs nothing but a browser."""
    body = [f"<h1>{_text(answer.sentence)}</h1>"]
    if answer.cause is not None:
        body += _cause(answer.cause)
    if answer.graph is not None:
        link = escape(relative(answer.graph, output), quote=True)
        body.append(f'<p><a href="{link}">The step of the cause as a graph</a></p>')
    body += ["<h2>The walk</h2>", "<table>", *_walk(answer), "</table>"]
    body += ["<h2>Reports</h2>", "<table>", *_reports(answer, output), "</table>"]
    if answer.others:
        body += ["<h2>Also, and less likely</h2>", "<ul>"]
        body += [f"<li>{_text(cause.where)}: {_text(cause.reason)}</li>" for cause in answer.others]
        body.append("</ul>")
    for missing in answer.missing:
        body += [f"<h2>Missing: {_text(missing.what)}</h2>", f"<p>{_text(missing.why)}</p>"]
        body += _commands(missing.commands)
    if answer.next_commands:
        body += ["<h2>Next</h2>", *_commands(answer.next_commands)]
    if answer.notes:
        body += ["<h2>Notes</h2>", "<ul>", *(f"<li>{_text(note)}</li>" for note in answer.notes), "</ul>"]
    body.append(
        f'<p class="soft">Reference <code>{_text(str(a))}</code>, under test '
        f"<code>{_text(str(b))}</code>; msprobe {_text(__version__)}</p>"
    )
    content = "\n".join(body)
    return f"""<!DOCTYPE html>
<!-- Copyright 2026 The msprobe authors. SPDX-License-Identifier: Apache-2.0 -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Diagnosis</title>
<style>{_STYLE}</style>
</head>
<body class="{answer.status}">
{content}
</body>
</html>
"""


def _text(text: str) -> str:
    return escape(printable(text))


def _cause(cause: Cause) -> list[str]:
    lines = [f"<p>{_text(cause.reason)} <span class=soft>(confidence {cause.confidence:.0%})</span></p>"]
    if cause.stack:
        lines.append("<pre>" + "\n".join(_text(frame) for frame in cause.stack) + "</pre>")
    return lines


def _walk(answer: Answer) -> list[str]:
    rows = []
    for stage, title, _ in STAGES:
        word, sentence = stage_status(stage, answer)
        kind = word if word in ("cause", "equal") else "other"
        rows.append(
            f'<tr class="{kind}"><td>{_text(title)}</td><td class="word">{_text(word)}</td>'
            f"<td>{_text(sentence)}</td></tr>"
        )
    return rows


def _reports(answer: Answer, output: Path) -> list[str]:
    rows = []
    for part in answer.parts:
        name = _text(part.part)
        if part.report is not None:
            name = f'<a href="{escape(relative(part.report, output), quote=True)}">{name}</a>'
        evidence = "".join(f"<br><span class=soft>{_text(line)}</span>" for line in part.evidence)
        rows.append(
            f"<tr><td>{name}</td><td>{_text(part.status)}</td><td>{_text(part.sentence)}{evidence}</td></tr>"
        )
    return rows


def _commands(commands: Iterable[str]) -> list[str]:
    return ["<pre>" + "\n".join(_text(command) for command in commands) + "</pre>"]
