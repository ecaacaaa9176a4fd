# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a check as JUnit XML: one test case for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.files.junit_xml import case, document, failure, skipped

if TYPE_CHECKING:
    from msprobe.check.result import CheckedCall, CheckResult


def junit_xml(result: CheckResult) -> str:
    """A wrong call fails; one that could not be run again is skipped."""
    return document("msprobe check", [_case(call) for call in result.calls], result.sentence, result.seconds)


def _case(call: CheckedCall) -> str:
    judgement = call.judgement
    body = ""
    if call.is_bad:
        lines = [f"{output.place}: {output.reason}" for output in judgement.outputs if output.reason]
        body = failure(judgement.status, judgement.reason, "\n".join(lines))
    elif judgement.status == "skipped":
        body = skipped(judgement.reason)
    return case(f"check.step {call.step}.rank {call.rank}", call.name, body)
