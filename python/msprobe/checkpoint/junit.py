# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison as JUnit XML: one test case for each parameter."""

from __future__ import annotations

from msprobe.checkpoint.layers import place_of
from msprobe.files.junit_xml import case, document, failure

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.checkpoint.limits import Failure
    from msprobe.checkpoint.result import CheckpointResult


def junit_xml(result: CheckpointResult, failing: Sequence[Failure]) -> str:
    reasons = {one.name: one.reason for one in failing}
    names = [row.name for row in result.rows]
    cases = [_case(name, reasons.pop(name, None)) for name in names]
    cases += [_case(name, reason) for name, reason in reasons.items()]
    return document("msprobe ckpt", cases, result.answer(within_limits=not failing), result.seconds)


def _case(name: str, reason: str | None) -> str:
    body = "" if reason is None else failure("different", f"{name}: {reason}", reason)
    return case(f"checkpoint.{place_of(name)[0]}", name, body)
