# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them: with the digits that say something."""

from __future__ import annotations

import re

# A number with many decimals; not a part of a name.
_LONG = re.compile(r"(?<![\w.])[0-9]+\.[0-9]{5,}(?:e[-+]?[0-9]+)?(?![\w.]*\w)")
_DIGITS = 3


def rounded(text: str) -> str:
    """`text` with its long numbers to three digits. What is nearly 1, a share, does not become 1."""
    return _LONG.sub(lambda found: _short(float(found[0])), text)


def _short(value: float) -> str:
    text = f"{value:.{_DIGITS}g}"
    if 0.9 < value < 1:  # how much is missing to 1 counts
        text = f"{1 - float(f'{1 - value:.2g}'):.15g}"
    return text


def told_apart(a: float, b: float) -> str:
    """Both, with a digit more than it takes to tell them apart."""
    for digits in range(1, 18):
        if f"{a:.{digits}g}" != f"{b:.{digits}g}":
            digits = max(4, min(digits + 1, 17))
            return f"{a:.{digits}g} and {b:.{digits}g}"
    return f"{a:.9g} and {b:.9g}"
