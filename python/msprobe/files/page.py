# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pages that need nothing but a browser: a file of HTML with marks, and data in place of these."""

from __future__ import annotations

import math
from pathlib import Path


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
