# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html of a perturbed training: one page that needs nothing but a browser, and runs no script."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msprobe.files.page import bullets, card, file_beside, scriptless_page, shown
from msprobe.perturb.console import notes_of

if TYPE_CHECKING:
    from msprobe.perturb.result import PerturbedCall, PerturbResult

_MOST_FRAGILE = 200
_MOST_CALLS = 500  # of the healthy ones; calls.csv has all

_BADGES = {"healthy": "agree", "fragile": "differ", "nothing": "incomplete"}


def report_html(result: PerturbResult) -> str:
    """The whole text."""
    cards = [
        _header(result),
        card("Fragile calls", _fragile(result.fragile)),
        card("What rounding in each module does to the loss", _modules(result)),
        card("What two healthy runs may differ by", _expected(result)),
        card("All calls, the most amplifying first", _calls(result)),
        card("Notes", bullets(notes_of(result), kind="notes")),
    ]
    return scriptless_page("Fragile calls", cards, file_beside(__file__, "report.css"))


def _header(result: PerturbResult) -> str:
    most = max((call.forward or 0 for call in result.calls.values()), default=0)
    margins = [call.margin_bits for call in result.calls.values() if call.margin_bits is not None]
    tiles = [
        ("calls measured", str(len(result.calls))),
        ("fragile", str(len(result.fragile))),
        ("bits lost at most", f"{max(0.0, math.log2(most)) if most else 0:.0f}"),
        ("bits to overflow", f"{min(margins):.0f}" if margins else "-"),
        ("steps", ", ".join(map(str, result.steps)) or "-"),
    ]
    return "\n".join(
        [
            '<header class="card top">',
            f'<span class="badge {_BADGES[result.status]}">{result.status}</span>',
            f'<h1 id="sentence">{shown(result.sentence)}</h1>',
            '<dl class="tiles">',
            *(f"<div><dt>{shown(name)}</dt><dd>{shown(value)}</dd></div>" for name, value in tiles),
            "</dl>",
            "</header>",
        ]
    )


def _fragile(calls: list[PerturbedCall]) -> list[str]:
    lines = []
    for call in calls[:_MOST_FRAGILE]:
        lines += [
            "<li>",
            f"<p><b>{shown(call.name)}</b> <code>{shown(call.module)}</code>"
            f' <span class="kind">{shown((call.kind or "").replace("_", " "))}, {call.stage}</span></p>',
            f"<p>{shown(call.reason)}</p>",
            *(["<pre>" + "\n".join(map(_frame, call.stack)) + "</pre>"] if call.stack else []),
            "</li>",
        ]
    if not lines:
        return []
    rest = len(calls) - _MOST_FRAGILE
    more = [f'<p class="soft">{rest} more are in calls.csv.</p>'] if rest > 0 else []
    return ['<ol class="fragile">', *lines, "</ol>", *more]


def _frame(frame: str) -> str:
    """Place and source line."""
    return "\n    ".join(shown(line.strip()) for line in frame.split("\n"))


def _modules(result: PerturbResult) -> list[str]:
    modules = sorted(result.modules, key=lambda one: -one.loss)
    if not modules:
        return []
    most = modules[0].loss or 1.0
    rows = [
        f"<tr><td><code>{shown(one.name)}</code></td><td>{shown(one.dtype)}</td>"
        f'<td class="number">{one.loss:.2g}</td><td class="number">{one.roundings:.2g}</td>'
        f'<td class="number">{one.output:.2g}</td>'
        f'<td class="bar"><span style="width:{100 * one.loss / most:.1f}%"></span></td></tr>'
        for one in modules
    ]
    return [
        '<div class="scroll" tabindex="0"><table><tr><th>module</th><th>dtype</th>'
        '<th class="number">loss moves by</th>'
        '<th class="number">in roundings</th><th class="number">output moves by</th>'
        "<th>of the largest</th></tr>",
        *rows,
        "</table></div>",
        '<p class="soft hint">Every call of the module is off by one rounding, up or down at random. What '
        "stands first gains most from more digits, as those of float32.</p>",
    ]


def _expected(result: PerturbResult) -> list[str]:
    if not result.expected_loss:
        return []
    rows = [
        f'<tr><td class="number">{step}</td><td class="number">{value:.2g}</td></tr>'
        for step, value in sorted(result.expected_loss.items())
    ]
    return [
        '<table class="narrow"><tr><th class="number">step</th><th class="number">of the loss</th></tr>',
        *rows,
        "</table>",
        '<p class="soft hint">Give this folder to <code>msprobe compare --noise</code> or '
        "<code>msprobe diagnose --noise</code> in place of a second run.</p>",
    ]


def _calls(result: PerturbResult) -> list[str]:
    calls = sorted(result.calls.values(), key=lambda call: (-call.severity, -(call.forward or 0)))
    rows = [
        f"<tr{' class=bad' if call.kind else ''}><td>{shown(call.name)}</td>"
        f"<td><code>{shown(call.module)}</code></td><td>{shown(call.place)}</td><td>{shown(call.dtype)}</td>"
        + "".join(
            f'<td class="number">{"-" if value is None else f"{value:.3g}"}</td>'
            for value in (call.forward, call.condition, call.backward, call.margin_bits)
        )
        + "</tr>"
        for call in calls[:_MOST_CALLS]
    ]
    if not rows:
        return []
    rest = len(calls) - _MOST_CALLS
    more = [f'<p class="soft">{rest} more are in calls.csv.</p>'] if rest > 0 else []
    return [
        '<div class="scroll" tabindex="0"><table><tr><th>call</th><th>module</th><th>line</th><th>dtype</th>'
        '<th class="number">amplification</th><th class="number">allowed</th>'
        '<th class="number">of gradients</th>'
        '<th class="number">bits to overflow</th></tr>',
        *rows,
        "</table></div>",
        *more,
    ]
