# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison as JUnit XML: one test case for each step and rank."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from msprobe.compare.verdict_file import sentence

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compare.result import CompareResult, LeftOut, PairResult
    from msprobe.compare.verdict_file import Culprit

# All that XML 1.0 has no way to write.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(result: CompareResult, culprits: list[Culprit]) -> str:
    """A pair fails when a culprit is in it, or when the runs differ and rows of it fail; what only one run
    has fails. Where the runs agree by the verdict, single rows beyond a threshold are no failure.
    """
    cases = [_pair_case(result, pair, culprits) for pair in result.pairs]
    cases += [_left_out_case(one) for one in result.left_out]
    failures = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0"'
    time = f'time="{result.seconds:.3f}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="msprobe compare" {counts} {time}>',
        f'<testsuite name="msprobe compare" {counts} skipped="{skipped}" {time}>',
        *cases,
        f"<system-out>{_text(sentence(result))}</system-out>",
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _pair_case(result: CompareResult, pair: PairResult, culprits: list[Culprit]) -> str:
    suffix = " (debug)" if pair.is_debug else ""
    name = f"rank {pair.rank}{suffix}"
    here = [culprit for culprit in culprits if (culprit.step, culprit.rank) == (pair.step, pair.rank)]
    rows = f"{pair.summary.failing} of {pair.summary.rows} rows fail"
    if here:
        body = "\n".join(_lines(culprit) for culprit in here) + f"\n{rows}"
        return _case(f"step {pair.step}", name, _failure(here[0].kind, _message(here[0]), body))
    if culprits and pair.summary.failing:
        return _case(f"step {pair.step}", name, _failure("inherited", rows, f"{rows}; {sentence(result)}"))
    return _case(f"step {pair.step}", name, "")


def _left_out_case(one: LeftOut) -> str:
    if one.is_difference:
        return _case("not compared", one.what, _failure("not_compared", one.reason, one.reason))
    return _case("not compared", one.what, f"<skipped message={_attribute(one.reason)}/>")


def _case(group: str, name: str, body: str) -> str:
    start = f"<testcase classname={_attribute('compare.' + group)} name={_attribute(name)}"
    return f"{start}>{body}</testcase>" if body else f"{start}/>"


def _failure(kind: str, message: str, body: str) -> str:
    return f"<failure type={_attribute(kind)} message={_attribute(message)}>{_text(body)}</failure>"


def _message(culprit: Culprit) -> str:
    return f"{culprit.where}: {culprit.reason}"


def _lines(culprit: Culprit) -> str:
    lines = [f"{_message(culprit)} (confidence {culprit.confidence:.0%})"]
    return "\n".join(lines + [f"  at {frame.text}" for frame in culprit.stack])


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
