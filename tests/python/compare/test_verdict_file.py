# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.json: strict JSON with the answer, its confidence and the lines of code."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from msprobe.compare.finding import Phase
from msprobe.compare.result import LeftOut
from msprobe.compare.verdict import Tolerance
from msprobe.compare.verdict_file import (
    Frame,
    confidence,
    culprits_of,
    parse_frame,
    sentence,
    verdict_json,
    write_verdict,
)
from report_samples import STACK, finding, pair, result

DOCUMENT = Path(__file__).parents[3] / "docs/formats/verdict.md"


def refuse(word):
    raise AssertionError(f"{word} is no JSON")


def content(compared, culprits=None):
    culprits = culprits_of(compared, lambda _: STACK) if culprits is None else culprits
    return json.loads(verdict_json(compared, culprits), parse_constant=refuse)


def a_difference(**changes):
    blamed = finding(**changes)
    return result([pair(findings=[blamed], failing=3), pair(1)], [blamed])


def test_the_file_of_runs_that_differ():
    found = content(a_difference())
    assert found["format"] == 1
    assert found["status"] == "differ"
    assert found["sentence"] == (
        "The runs part at step 0, rank 0: operator Functional.gelu.3.forward in blocks.0.mlp"
    )
    (culprit,) = found["culprits"]
    assert culprit["kind"] == "operator"
    assert culprit["metrics"]["rounding_errors_out"] == 1000
    assert culprit["stack"][1] == {
        "file": "/home/me/my model/net.py",
        "line": 12,
        "function": "forward",
        "code": "y = self.fc(x)",
    }
    assert found["counts"] == {
        "steps": 2,
        "ranks": 1,
        "pairs": 2,
        "rows": 20,
        "matched": 20,
        "unmatched": 0,
        "only_in_golden": 0,
        "failing": 3,
    }
    assert [one["first_finding"] and one["first_finding"]["name"] for one in found["pairs"]] == [
        "Functional.gelu.3.forward",
        None,
    ]
    assert (found["first_step"], found["worst_rank"]) == (0, 0)
    assert found["inputs"]["golden"] == "/run/a"


def test_every_key_is_documented():
    text = DOCUMENT.read_text("utf-8")
    documented = set(re.findall(r"`([a-z_]+)`", text))

    def keys(value):
        if isinstance(value, dict):
            yield from value
            for name, entry in value.items():
                if name != "metrics":  # what is measured depends on the kind
                    yield from keys(entry)
        elif isinstance(value, list):
            for entry in value:
                yield from keys(entry)

    compared = a_difference()
    compared.left_out.append(LeftOut("step 3", "only in the reference"))
    assert set(keys(content(compared))) <= documented


def test_numbers_that_json_has_not_become_text():
    blamed = finding(metrics={"a": math.nan, "b": [math.inf, -math.inf], "c": {"d": Path("/x")}, "e": None})
    found = content(result([pair(findings=[blamed])], [blamed]))
    assert found["culprits"][0]["metrics"] == {
        "a": "NaN",
        "b": ["Infinity", "-Infinity"],
        "c": {"d": "/x"},
        "e": None,
    }


@pytest.mark.parametrize("name", ["\udc80", "\x00\x1b[31m\n", "</script>", "\u2028", '"\\'])
def test_hostile_names_stay_names(name):
    found = content(a_difference(name=name, module=name, reason=name))
    assert found["culprits"][0]["name"] == name
    assert found["sentence"].isprintable()


def test_runs_that_agree():
    found = content(result([pair(), pair(0, 1)]))
    assert (found["status"], found["culprits"], found["first_step"]) == ("agree", [], None)
    assert found["sentence"] == "The runs agree: 20 rows of 1 step and 2 ranks compared, all equal"


def test_the_sentence_tells_noise_and_what_is_missing():
    small = finding(distance=3.0)
    noisy = result([pair(findings=[small])], noisy=True)
    assert "rounding noise, and nothing stands out" in sentence(noisy)
    missing = [LeftOut(f"step {step}", "only in the reference") for step in range(5)]
    apart = result([pair()], left_out=missing)
    assert not apart.agree
    assert content(apart)["status"] == "differ"
    assert sentence(apart).endswith("step 2 (only in the reference) and 2 more")
    alone = result([pair(rows=10, matched=7, right_only=2)])
    assert sentence(alone).startswith("The runs agree: 7 rows of 1 step")
    assert sentence(alone).endswith("; 5 more items are in one run only")
    harmless = result([pair()], left_out=[LeftOut("rank 3", "not asked for", is_difference=False)])
    assert sentence(harmless).startswith("The runs agree")


def test_the_file_is_written_completely(tmp_path):
    compared = a_difference()
    path = tmp_path / "verdict.json"
    write_verdict(path, compared, culprits_of(compared))
    assert path.read_text("ascii") == verdict_json(compared, culprits_of(compared))
    assert list(tmp_path.iterdir()) == [path]


# ---- confidence


def sure(noisy=False, place=0, **changes):
    return confidence(finding(**changes), place, noisy, Tolerance())


def test_what_is_compared_exactly_is_almost_certain():
    assert sure(kind="argument", distance=math.inf) == 0.95
    assert sure(phase=Phase.OPTIMIZER_SETTING, distance=math.inf) == 0.95
    assert sure(distance=2.0, equal_before=True) == 0.95  # not another kernel


def test_after_an_exact_origin_the_size_decides():
    assert sure(distance=64.0) == pytest.approx(0.725)
    assert 0.5 < sure(distance=1.0) < sure(distance=100.0) < sure(distance=1e9) <= 0.95


def test_in_noise_it_counts_how_far_a_culprit_stands_out():
    just = sure(noisy=True, distance=500.0, before=1.0)
    assert just == 0.5
    assert sure(noisy=True, distance=5000.0, before=100.0) < sure(noisy=True, distance=5000.0, before=10.0)
    assert sure(noisy=True, distance=1e9, before=1.0) <= 0.9
    assert sure(noisy=False, exact_before=False, distance=500.0) == just


def test_later_candidates_are_less_sure_and_none_is_impossible():
    assert sure(place=1, distance=math.inf) == 0.475
    assert all(0 < sure(place=place, distance=1.0) <= 1 for place in range(40))


# ---- frames


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STACK[1], Frame("/home/me/my model/net.py", 12, "forward", "y = self.fc(x)")),
        ("File a, b.py, line 3, in <lambda>, \n x", Frame("a, b.py", 3, "<lambda>", "x")),
        ("File a.py, line 3, in f", Frame("a.py", 3, "f", "")),
        ("something else", Frame(None, None, "", "something else")),
        ("File a.py, line many, in f, \n", Frame(None, None, "", "File a.py, line many, in f,")),
    ],
)
def test_frames_are_taken_apart(text, expected):
    assert parse_frame(text) == expected


def test_the_frames_of_the_user_come_first():
    (culprit,) = culprits_of(a_difference(), lambda _: STACK)
    assert [frame.line for frame in culprit.top_frames(2)] == [12, 90]
    (elsewhere,) = culprits_of(a_difference(), lambda _: STACK[:1])
    assert [frame.line for frame in elsewhere.top_frames(2)] == [7]
