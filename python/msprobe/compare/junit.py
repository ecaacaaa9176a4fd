# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison as JUnit XML: one test case for each step and rank."""

from __future__ import annotations

from msprobe.files.junit_xml import case, document, failure, skipped
from msprobe.files.left_out import joined

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compare.culprit import Culprit
    from msprobe.compare.pair_result import PairResult
    from msprobe.compare.result import CompareResult
    from msprobe.files.left_out import LeftOut


def junit_xml(result: CompareResult, culprits: list[Culprit]) -> str:
    """A pair fails when a culprit is in it, or when the runs differ and rows of it fail, or no culprit is
    known; what only one run has fails. Where the runs agree by the verdict, single rows beyond a threshold
    are no failure.
    """
    cases = [_pair_case(result, pair, culprits) for pair in result.pairs]
    cases += [_left_out_case(one) for one in joined(result.left_out)]
    return document("msprobe compare", cases, result.answer(culprits), result.seconds)


def _pair_case(result: CompareResult, pair: PairResult, culprits: list[Culprit]) -> str:
    suffix = " (debug)" if pair.is_debug else ""
    name = f"rank {pair.rank}{suffix}"
    here = [culprit for culprit in culprits if (culprit.step, culprit.rank) == (pair.step, pair.rank)]
    rows = f"{pair.summary.failing} of {pair.summary.rows} rows fail"
    if here:
        body = "\n".join(_lines(culprit) for culprit in here) + f"\n{rows}"
        return _named_case(f"step {pair.step}", name, failure(here[0].kind, _message(here[0]), body))
    if result.verdict.status == "differ" and (pair.summary.failing or not culprits):
        return _named_case(
            f"step {pair.step}", name, failure("inherited", rows, f"{rows}; {result.answer(culprits)}")
        )
    return _named_case(f"step {pair.step}", name, "")


def _left_out_case(one: LeftOut) -> str:
    if one.is_difference:
        return _named_case("not compared", one.what, failure("not_compared", one.reason, one.reason))
    return _named_case("not compared", one.what, skipped(one.reason))


def _named_case(group: str, name: str, body: str) -> str:
    return case(f"compare.{group}", name, body)


def _message(culprit: Culprit) -> str:
    return f"{culprit.where}: {culprit.reason}"


def _lines(culprit: Culprit) -> str:
    lines = [f"{_message(culprit)} (confidence {culprit.confidence:.0%})"]
    return "\n".join(lines + [f"  at {frame.text}" for frame in culprit.stack])
