# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Reports in the form of JUnit, which systems for automatic checks read."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

# All that XML 1.0 has no way to write.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(name: str, cases: Sequence[str], summary: str, seconds: float) -> str:
    """The whole file: one suite with these test cases."""
    failures = sum("<failure" in one for one in cases)
    left_out = sum("<skipped" in one for one in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0"'
    time = f'time="{seconds:.3f}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_attribute(name)} {counts} {time}>",
        f'<testsuite name={_attribute(name)} {counts} skipped="{left_out}" {time}>',
        *cases,
        f"<system-out>{_text(summary)}</system-out>",
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def case(group: str, name: str, body: str = "") -> str:
    """A test case; `body` says how it failed or why it was left out."""
    start = f"<testcase classname={_attribute(group)} name={_attribute(name)}"
    return f"{start}>{body}</testcase>" if body else f"{start}/>"


def failure(kind: str, message: str, body: str) -> str:
    return f"<failure type={_attribute(kind)} message={_attribute(message)}>{_text(body)}</failure>"


def skipped(message: str) -> str:
    return f"<skipped message={_attribute(message)}/>"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
