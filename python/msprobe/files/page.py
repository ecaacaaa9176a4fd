# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pages that need nothing but a browser: a file of HTML with marks, and data in place of these; or, without
a script, cards.
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


def filled(page: str, values: dict[str, str]) -> str:
    """`page` with each `@@NAME@@` replaced, in the order of `values`. It is taken apart at its marks first: a
    value may hold what looks like one.
    """
    rest = page
    parts = []
    for name, value in values.items():
        before, mark, rest = rest.partition(f"@@{name}@@")
        assert mark, f"the page has no mark {name}"
        parts += [before, value]
    return "".join([*parts, rest])


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


def scriptless_page(title: str, cards: Iterable[str], style: str, *, policy: str = POLICY) -> str:
    """A whole page of cards, of which empty ones are left out. style: what it has beside base_style().
    policy: its content security policy.
    """
    content = "\n".join(filter(None, cards))
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
<main>
{content}
<footer>Made by msprobe {shown(__version__)}</footer>
</main>
</body>
</html>
"""


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
