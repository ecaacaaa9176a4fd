# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pages that need nothing but a browser: data for the script that the viewer's build makes
(viewer/src/report); or, without a script, cards.
"""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path

from msprobe.native import __version__
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable


def file_beside(module_file: str, name: str) -> str:
    """The text of a file in or below the folder of a module, by its `__file__`. Without
    importlib.resources: it loads much of the standard library.
    """
    return Path(module_file).parent.joinpath(name).read_text("utf-8")


def base_style() -> str:
    """The style that pages share: colours, light and dark, header, cards."""
    return file_beside(__file__, "page.css")


POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Of a page without a script."""


def _page(title: str, style: str, body: str, policy: str) -> str:
    return f"""<!DOCTYPE html>
<!-- Copyright 2026 The msprobe authors. SPDX-License-Identifier: Apache-2.0 -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{base_style()}{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def scriptless_page(title: str, cards: Iterable[str], style: str, *, policy: str = POLICY) -> str:
    """A whole page of cards, of which empty ones are left out. style: what it has beside base_style().
    policy: its content security policy.
    """
    content = "\n".join(filter(None, cards))
    foot = f"<footer>Made by msprobe {shown(__version__)}</footer>"
    return _page(title, style, f"<main>\n{content}\n{foot}\n</main>", policy)


def report_page(kind: str, title: str, data: dict[str, object], blocks: Iterable[str] = ()) -> str:
    """A whole page that viewer/src/report shows. kind: its name there. blocks: JSON that is read when it is
    looked at, of the elements rows0, rows1, ...; "" where there is none.
    """
    content = {"kind": kind, "version": __version__, **data}
    text = json.dumps(strict(content), allow_nan=False, separators=(",", ":"))
    scripts = [
        f'<script type="application/json" id="{name}">{for_script(json_text)}</script>'
        for name, json_text in (("data", text), *((f"rows{i}", block) for i, block in enumerate(blocks)))
        if json_text
    ]
    built = [file_beside(__file__, f"report/report.{ending}") for ending in ("css", "js")]
    scripts.append(f"<script>\n{built[1]}</script>")
    policy = f"{POLICY}; script-src 'unsafe-inline'; img-src data:"
    return _page(title, built[0], "\n".join(scripts), policy)


def badge(word: str, kind: str) -> str:
    """kind: agree, differ, incomplete."""
    return f'<span class="badge {kind}">{shown(word)}</span>'


def shown(text: str) -> str:
    """A text of anybody's in HTML."""
    return escape(printable(text))


def card(title: str, lines: list[str]) -> str:
    """Of lines of HTML; nothing where there are none."""
    if not lines:
        return ""
    return "\n".join(['<section class="card">', f"<h2>{title}</h2>", *lines, "</section>"])


def bullets(texts: Iterable[str], *, kind: str = "") -> list[str]:
    """Lines for a card. kind: class of the list."""
    items = [f"<li>{shown(text)}</li>" for text in texts]
    opening = f'<ul class="{kind}">' if kind else "<ul>"
    return [opening, *items, "</ul>"] if items else []


def for_script(text: str) -> str:
    """JSON that can stand in a <script> element whatever the names hold: nothing in it can end the element.
    These characters occur in texts only, where each has an escape.
    """
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def strict(value: object) -> object:
    """JSON has no NaN and no infinities: they become text. What JSON does not know becomes its text too."""
    if isinstance(value, dict):
        return {str(key): strict(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def strict_json(value: object) -> str:
    """The text of a JSON file for programs, with strict() numbers."""
    return json.dumps(strict(value), indent=1, allow_nan=False) + "\n"
