# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison as SARIF 2.1.0: each culprit a result at the line of code that called it."""

from __future__ import annotations

from urllib.parse import quote

from msprobe.files.left_out import joined
from msprobe.files.page import strict_json
from msprobe.native import __version__

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compare.culprit import Culprit, Frame
    from msprobe.compare.result import CompareResult
    from msprobe.files.left_out import LeftOut

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_RULES = {
    "input_data": "The input data of the runs differs",
    "weight": "A parameter differs before the step",
    "buffer": "A buffer differs before the step",
    "argument": "An argument or flag differs",
    "module_attribute": "A setting of a module differs",
    "operator": "An operator gives another result for equal inputs",
    "in_place": "A tensor was changed between two uses of it",
    "missing_call": "A call of the reference is missing",
    "extra_call": "There is a call that the reference has not",
    "gradient": "A gradient differs by more than what it is computed from explains",
    "reduction": "A communication between ranks gives another result",
    "clipping": "The clipping of gradients differs",
    "optimizer_setting": "A setting of the optimizer differs",
    "optimizer_state": "The state of the optimizer differs",
    "update": "The optimizer steps by another rule",
    "randomness": "Random numbers differ",
    "unexplained": "The runs differ by more than rounding, and no call explains it",
    "not_compared": "A part of the runs was not compared",
}


def sarif_json(result: CompareResult, culprits: list[Culprit]) -> str:
    """The first culprit is an error, the others are warnings."""
    rules = list(_RULES)
    results = [_result(place, culprit, rules) for place, culprit in enumerate(culprits)]
    if not culprits and result.verdict.status == "differ":
        results.append(_plain_result("unexplained", "error", result.answer(culprits), rules))
    results += [_left_out(one, rules) for one in joined(result.left_out)]
    content = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "msprobe",
                        "version": __version__,
                        "rules": [
                            {"id": rule, "shortDescription": {"text": text}} for rule, text in _RULES.items()
                        ],
                    }
                },
                "invocations": [{"executionSuccessful": True}],
                "results": results,
            }
        ],
    }
    return strict_json(content)


def _result(place: int, culprit: Culprit, rules: list[str]) -> dict[str, object]:
    text = f"{culprit.where}: {culprit.reason} (step {culprit.step}, rank {culprit.rank})"
    content: dict[str, object] = {
        "ruleId": culprit.kind,
        "ruleIndex": rules.index(culprit.kind),
        "level": "error" if place == 0 else "warning",
        "message": {"text": text},
        "rank": culprit.confidence * 100,  # SARIF's word for priority, from 0 to 100
        "locations": [_location(culprit)],
        "properties": {
            "name": culprit.name,
            "module": culprit.module,
            "operator": culprit.operator,
            "step": culprit.step,
            "rank": culprit.rank,
            "confidence": culprit.confidence,
            "metrics": culprit.metrics,
        },
    }
    frames = [{"location": _of_frame(frame)} for frame in culprit.stack if frame.file]
    if frames:
        content["stacks"] = [{"message": {"text": "the call, innermost first"}, "frames": frames}]
    return content


def _location(culprit: Culprit) -> dict[str, object]:
    logical: dict[str, object] = {"fullyQualifiedName": culprit.name}
    if culprit.module:
        logical = {"fullyQualifiedName": f"{culprit.module}.{culprit.name}", "name": culprit.name}
    location: dict[str, object] = {"logicalLocations": [logical]}
    own = [frame for frame in culprit.stack if frame.is_of_user]  # a library is no part of what is looked at
    for frame in own[:1] or culprit.top_frames(1):
        if frame.file:
            location.update(_of_frame(frame))
    return location


def _of_frame(frame: Frame) -> dict[str, object]:
    region: dict[str, object] = {"startLine": max(frame.line or 1, 1)}
    if frame.code:
        region["snippet"] = {"text": frame.code}
    location: dict[str, object] = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(frame.file or "")}, "region": region}
    }
    if frame.function:
        location["message"] = {"text": f"in {frame.function}"}
    return location


def _uri(path: str) -> str:
    """A relative path stays relative to wherever the viewer looks for the sources."""
    quoted = quote(path, errors="replace")
    return f"file://{quoted}" if path.startswith("/") else quoted


def _left_out(one: LeftOut, rules: list[str]) -> dict[str, object]:
    level = "error" if one.is_difference else "note"
    return _plain_result("not_compared", level, f"{one.what} was not compared: {one.reason}", rules)


def _plain_result(rule: str, level: str, text: str, rules: list[str]) -> dict[str, object]:
    return {"ruleId": rule, "ruleIndex": rules.index(rule), "level": level, "message": {"text": text}}
