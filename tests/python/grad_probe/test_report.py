# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: one file that needs nothing else, whatever the names in it are."""

from __future__ import annotations

import base64
from array import array
from pathlib import Path

import pytest
from html_page import HtmlPage
from msprobe import GradComparator
from msprobe.grad_probe import report
from msprobe.grad_probe.report import RankCells, report_html
from msprobe.grad_probe.verdict import Finding, Inputs, RankSummary, Verdict

DATA = Path(__file__).parents[2] / "data" / "grad_probe"


def page_of(names, values, steps=(0, 1), findings=(), problems=()):
    verdict = Verdict(
        Inputs("/a", "/b", [], []),
        (
            RankSummary(
                0, list(steps), len(names), len(names) * len(steps), [1.0] * len(steps), len(findings)
            ),
        ),
        tuple(findings),
    )
    return report_html(verdict, [RankCells(0, list(steps), list(names), values, list(problems))])


def cells(data, rank=0):
    codes = array("H")
    codes.frombytes(base64.b64decode(data["ranks"][rank]["cells"]))
    return list(codes)


def test_the_page_of_a_comparison(tmp_path):
    result = GradComparator.compare_distributed(DATA / "l1_a", DATA / "l1_b", tmp_path, pictures=False)
    page = HtmlPage(result.report_path.read_text("utf-8"))
    data = page.data
    assert len(page.scripts) == 2
    assert page.addresses == []  # nothing is fetched
    assert "://" not in result.report_path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert data["verdict"] == "differs"
    assert data["sentence"] == result.verdict.sentence
    assert len(data["findings"]) == len(result.verdict.findings) > 0
    (rank,) = data["ranks"]
    table = (tmp_path / "rank0" / "similarities.csv").read_text("utf-8-sig").splitlines()
    assert rank["steps"] == [0, 1, 2, 3]
    assert rank["names"] == [line.split(",")[0] for line in table[1:-1]]
    shown = [code / data["one"] for code in cells(data)]
    expected = [float(text) for line in table[1:-1] for text in line.split(",")[1:]]
    assert shown == pytest.approx(expected, abs=1 / data["one"])
    assert [value == 1 for value in shown] == [value == 1 for value in expected]


def test_what_only_one_run_has_is_on_the_page():
    rank = RankSummary(
        0,
        [0],
        1,
        1,
        [1.0],
        0,
        steps_only_in_reference=[4, 5, 9],
        parameters_only_in_target=["v", "</script>"],
    )
    verdict = Verdict(Inputs("/a", "/b", [], [3]), (rank,), ())
    data = HtmlPage(report_html(verdict, [RankCells(0, [0], ["w"], [[1.0]], [])])).data
    assert (data["onlyIn1"], data["onlyIn2"]) == ("steps 4-5, 9", "rank 3")
    assert data["sentence"].endswith("; not compared: steps 4-5, 9 (only in run 1), rank 3 (only in run 2)")
    assert (data["ranks"][0]["parametersOnlyIn1"], data["ranks"][0]["parametersOnlyIn2"]) == (0, 2)


def test_values_near_the_edges_of_the_rule_are_kept_apart():
    values = [[1.0, 0.9999999, 0.97, 0.9699999, 0.0, None, None]]
    data = HtmlPage(page_of(["w"], values, range(7), problems=[("w", 6, "gone")])).data
    one = data["one"]
    assert cells(data) == [
        one,
        one - 1,
        round(0.97 * one),
        round(0.97 * one) - 1,
        0,
        data["absent"],
        data["missing"],
    ]


@pytest.mark.parametrize(
    "name",
    [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "<img src=x onerror=alert(1)>",
        "&lt;b&gt;",
        "__proto__",
        "\u2028\u2029\x00\x1b[31m",
        "\udc80",
        "@@DATA@@",
        '"\\',
    ],
)
def test_hostile_names_stay_data(name):
    finding = Finding("drop", 0, 1, name, 0.5, 1.0, f"{name}: fell")
    page = HtmlPage(page_of([name, "w"], [[1.0, 0.5], [1.0, 1.0]], findings=[finding]))
    harmless = HtmlPage(page_of(["v", "w"], [[1.0, 0.5], [1.0, 1.0]], findings=[finding]))
    assert page.tags == harmless.tags
    assert len(page.scripts) == 2
    assert page.data["ranks"][0]["names"] == [name, "w"]
    assert page.data["findings"][0][3] == name


def test_the_page_stays_small_enough_to_open(monkeypatch):
    monkeypatch.setattr(report, "_MOST_CELLS", 4)
    monkeypatch.setattr(report, "_MOST_FINDINGS", 1)
    finding = Finding("drop", 1, 1, "w", 0.5, 1.0, "fell")
    ranks = [RankSummary(rank, [0, 1], 2, 4, [1.0, 1.0], count) for rank, count in ((0, 0), (1, 2))]
    values = [[1.0, 0.5], [1.0, 1.0]]
    text = report_html(
        Verdict(Inputs("/a", "/b", [], []), tuple(ranks), (finding, finding)),
        [RankCells(rank, [0, 1], ["w", "v"], values, []) for rank in (0, 1)],
    )
    data = HtmlPage(text).data
    assert [bool(rank["cells"]) for rank in data["ranks"]] == [False, True]  # the one with findings
    assert (len(data["findings"]), data["findingsTotal"]) == (1, 2)
