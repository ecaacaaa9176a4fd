# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer on a terminal, as JUnit XML and as SARIF."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from msprobe.compare.console import console_text
from msprobe.compare.culprit import culprits_of
from msprobe.compare.junit import junit_xml
from msprobe.compare.sarif import sarif_json
from msprobe.files.left_out import LeftOut, only_in
from msprobe.terminal.colour import Paint
from report_samples import KINDS, STACK, finding, pair, result

HOSTILE = ["\udc80\ufffe", "\x00\x1b[31m\r\n", "]]></failure>", "<&\"'>", "\u2028", "日本"]


def of_two_ranks(**changes):
    blamed = finding(rank=1, **changes)
    pairs = [
        pair(0, 0),
        pair(0, 1, [blamed], failing=2),
        pair(1, 0, failing=4),
        pair(1, 1),
    ]
    return result(pairs, [blamed], left_out=[only_in("reference", 2)])


def blamed_in(compared):
    return culprits_of(compared.verdict, lambda _: STACK)


# ---- terminal


def test_the_terminal_shows_the_verdict_the_place_and_the_files():
    compared = of_two_ranks()
    text = console_text(compared, blamed_in(compared), [Path("/out/report.html")])
    assert text.splitlines() == [
        "First difference: step 0, rank 1, gelu in blocks.0.mlp gives another result for equal inputs, "
        "called at net.py:12",
        "  not compared: step 2 (only in the reference)",
        "  1. operator Functional.gelu.3.forward in blocks.0.mlp",
        "     step 0, rank 1, confidence 95%",
        "     the inputs of Functional.gelu.3.forward agree, output.0 does not",
        "     at /home/me/my model/net.py:12 in forward: y = self.fc(x)",
        "     at /home/me/train.py:90 in <module>: main()",
        "  /out/report.html",
    ]


def test_colours_change_nothing_but_colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    compared = of_two_ranks()
    plain = console_text(compared, blamed_in(compared))
    coloured = console_text(compared, blamed_in(compared), paint=Paint(terminal))
    assert "\x1b" not in plain
    assert coloured.startswith("\x1b[1;31m")
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;31m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_does_not_command_the_terminal(name):
    compared = of_two_ranks(name=name, module=name, reason=name)
    lines = console_text(compared, blamed_in(compared)).splitlines()
    assert len(lines) == 7
    assert all(line.isprintable() for line in lines)


# ---- JUnit


def cases_of(text):
    """All that the schema of JUnit asks for, and the cases by their names."""
    suites = ElementTree.fromstring(text.encode())
    assert suites.tag == "testsuites"
    (suite,) = suites.findall("testsuite")
    cases = suite.findall("testcase")
    for node in (suites, suite):
        assert int(node.get("tests")) == len(cases)
        assert int(node.get("failures")) == len(suite.findall("testcase/failure"))
        assert (node.get("errors"), float(node.get("time"))) == ("0", 0)
    assert int(suite.get("skipped")) == len(suite.findall("testcase/skipped"))
    assert {child.tag for child in suite} <= {"testcase", "system-out"}
    return {(case.get("classname"), case.get("name")): case for case in cases}


def test_one_case_for_each_step_and_rank():
    compared = of_two_ranks()
    cases = cases_of(junit_xml(compared, blamed_in(compared)))
    assert {key: [child.get("type") for child in case] for key, case in cases.items()} == {
        ("compare.step 0", "rank 0"): [],
        ("compare.step 0", "rank 1"): ["operator"],
        ("compare.step 1", "rank 0"): ["inherited"],
        ("compare.step 1", "rank 1"): [],
        ("compare.not compared", "step 2"): ["not_compared"],
    }
    failure = cases["compare.step 0", "rank 1"].find("failure")
    assert "output.0 does not" in failure.get("message")
    assert "/home/me/my model/net.py:12" in failure.text


def test_runs_that_agree_pass_whatever_the_thresholds_say():
    harmless = LeftOut("rank 3", "not asked for", is_difference=False)
    cases = cases_of(junit_xml(result([pair(failing=5)], left_out=[harmless]), []))
    assert [[child.tag for child in case] for case in cases.values()] == [[], ["skipped"]]


@pytest.mark.parametrize("name", HOSTILE)
def test_junit_is_xml_whatever_the_names_are(name):
    compared = of_two_ranks(name=name, module=name, reason=name)
    compared.left_out.append(LeftOut(name, name))
    assert len(cases_of(junit_xml(compared, blamed_in(compared)))) == 6


def test_a_difference_that_no_call_explains_fails():
    stretch = {
        "last_agreeing": "Torch.add.3.forward.output.0",
        "first_differing": "Torch.mul.9.forward.output.0",
    }
    compared = result([pair(), pair(1, failing=2)], status="differ", **stretch)
    cases = cases_of(junit_xml(compared, []))
    failures = [case.find("failure") for case in cases.values()]
    found = [failure for failure in failures if failure is not None]
    assert found
    assert "Torch.mul.9.forward.output.0" in found[0].text
    (said,) = run_of(sarif_json(compared, []))["results"]
    assert (said["ruleId"], said["level"]) == ("unexplained", "error")
    assert "Torch.add.3.forward.output.0" in said["message"]["text"]


# ---- SARIF


def run_of(text):
    """Checks what the schema of SARIF 2.1.0 asks of what we write; returns the run."""
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "msprobe"
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    assert all(isinstance(one["executionSuccessful"], bool) for one in run["invocations"])
    for one in run["results"]:
        assert rules[one["ruleIndex"]] == one["ruleId"]
        assert one["level"] in ("none", "note", "warning", "error")
        assert one["message"]["text"]
        assert 0 <= one.get("rank", 0) <= 100
        places = [
            *one.get("locations", []),
            *(f["location"] for s in one.get("stacks", []) for f in s["frames"]),
        ]
        for place in places:
            assert set(place) <= {"physicalLocation", "logicalLocations", "message"}
            if "physicalLocation" in place:
                assert place["physicalLocation"]["region"]["startLine"] >= 1
                uri = place["physicalLocation"]["artifactLocation"]["uri"]
                assert uri.isascii()
                assert " " not in uri
    return run


def test_a_culprit_is_a_result_at_its_line_of_code():
    compared = of_two_ranks()
    run = run_of(sarif_json(compared, blamed_in(compared)))
    first, missing = run["results"]
    assert (first["ruleId"], first["level"]) == ("operator", "error")
    (location,) = first["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "file:///home/me/my%20model/net.py"
    assert physical["region"] == {"startLine": 12, "snippet": {"text": "y = self.fc(x)"}}
    assert location["logicalLocations"][0]["name"] == "Functional.gelu.3.forward"
    assert [len(stack["frames"]) for stack in first["stacks"]] == [3]
    assert (missing["ruleId"], missing["level"]) == ("not_compared", "error")


def test_a_culprit_without_a_stack_has_a_name_only():
    compared = of_two_ranks()
    run = run_of(sarif_json(compared, culprits_of(compared.verdict)))
    assert "stacks" not in run["results"][0]
    assert list(run["results"][0]["locations"][0]) == ["logicalLocations"]


def test_runs_that_agree_have_no_results():
    assert run_of(sarif_json(result([pair()]), []))["results"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_rule(kind):
    compared = of_two_ranks(kind=kind)
    assert compared.verdict.culprits[0].kind == kind
    assert run_of(sarif_json(compared, blamed_in(compared)))["results"][0]["ruleId"] == kind


@pytest.mark.parametrize("name", HOSTILE)
def test_sarif_is_json_whatever_the_names_are(name):
    compared = of_two_ranks(name=name, module=name, reason=name)
    frames = [f"File /a/{name}.py, line 0, in {name}, \n {name}"]
    run_of(sarif_json(compared, culprits_of(compared.verdict, lambda _: frames)))
