# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison as JUnit XML: one test case for each key, pair of keys, and for the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.files.junit_xml import case, document, failure

if TYPE_CHECKING:
    from msprobe.rl.result import RlResult


def junit_xml(result: RlResult) -> str:
    reasons: dict[tuple[str, str], str] = {}
    for finding in result.findings:
        group = _GROUPS.get(finding.kind, "key")
        known = any(finding.key == one.reference for one in result.within)
        reasons.setdefault(("rollout" if known else group, finding.key), finding.sentence)
    names = [("key", key.name) for key in result.keys]
    names += [("rollout", one.reference) for one in result.within]
    names += [] if result.weights is None else [("weights", "")]
    cases = [_case(group, key, reasons.get((group, key))) for group, key in names]
    return document("msprobe rl_compare", cases, result.sentence, result.seconds)


_GROUPS = {"weights": "weights", "rollout": "rollout"}


def _case(group: str, key: str, reason: str | None) -> str:
    body = "" if reason is None else failure("different", reason, reason)
    return case(f"rl_compare.{group}", key or "weights", body)
