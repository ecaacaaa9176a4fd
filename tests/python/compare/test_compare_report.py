# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: one file that needs nothing else, whatever the names in it are."""

from __future__ import annotations

import re

import pytest
from html_page import HtmlPage
from msprobe.compare import report
from msprobe.compare.culprit import culprits_of
from msprobe.compare.report import report_html, write_report
from msprobe.files.left_out import LeftOut
from report_samples import STACK, finding, pair, report_rows, result

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt;",
    "__proto__",
    "\u2028\u2029\x00\x1b[31m",
    "\udc80",
    "@@DATA@@ @@ROWS@@ @@SCRIPT@@",
    '"\\',
]


def page_of(name="a", **changes):
    blamed = finding(name=name, record=name, module=name, reason=name, **changes)
    pairs = [
        pair(0, 0, [blamed], report_rows([name, "b", name], [0.0, 3.0, -1], message=name)),
        pair(0, 1, report=report_rows(["c"], [-2])),
    ]
    compared = result(pairs, [blamed], notes=[name], left_out=[LeftOut(name, name)])
    return HtmlPage(report_html(compared, culprits_of(compared.verdict, lambda _: [*STACK, name])))


def test_the_page_has_the_answer_and_the_rows():
    page = page_of()
    assert sorted(page.scripts) == ["code", "data", "rows0", "rows1"]
    data = page.data
    assert data["status"] == "differ"
    assert data["culprits"][0]["stack"][0]["line"] == 12
    assert [(one["worst"], one["unmeasured"], one["block"]) for one in data["pairs"]] == [
        (3, 1, 0),
        (0, 0, 1),
    ]
    assert page.rows(0)["error"] == [0, 3, -1]
    assert data["leftOut"] == [["a", "a"]]


def test_the_page_fetches_nothing():
    page = page_of()
    text = report_html(result([pair()]), [])
    assert page.addresses == []
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.search(r"@import|url\(|fetch\(|XMLHttp|import\(", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_data(name):
    page, harmless = page_of(name), page_of("v")
    assert page.tags == harmless.tags
    assert sorted(page.scripts) == sorted(harmless.scripts)
    assert page.scripts["code"] == harmless.scripts["code"]
    assert page.rows(0)["strings"][0] == name
    said = name.encode("utf-8", "replace").decode()
    assert (
        page.data["culprits"][0]["reason"] == f"{said} differs, and no recorded call produced the difference"
    )
    assert page.data["notes"] == [name]


def test_numbers_without_an_end_are_text():
    blamed = finding(explained=float("inf"))
    compared = result([pair(findings=[blamed])], [blamed])
    metrics = HtmlPage(report_html(compared, culprits_of(compared.verdict))).data["culprits"][0]["metrics"]
    assert metrics == {"distance": 1e-3, "explained": "Infinity"}


def test_without_room_the_pairs_that_tell_most_stay(monkeypatch):
    rows = report_rows(["a", "b"])
    monkeypatch.setattr(report, "_MOST_TEXT", 2 * len(rows.json))
    pairs = [pair(step, report=rows, failing=failing) for step, failing in enumerate([0, 1, 5, 2])]
    compared = result(pairs, [finding(step=0)])
    page = HtmlPage(report_html(compared, culprits_of(compared.verdict)))
    assert [one["block"] for one in page.data["pairs"]] == [0, None, 2, None]
    assert sorted(page.scripts) == ["code", "data", "rows0", "rows2"]


def test_pairs_without_rows_are_in_the_page_too():
    page = HtmlPage(report_html(result([pair(), pair(1)]), []))
    assert [one["block"] for one in page.data["pairs"]] == [None, None]


def test_the_file_is_complete(tmp_path):
    compared = result([pair()])
    write_report(tmp_path / "report.html", compared, [])
    assert (tmp_path / "report.html").read_text("utf-8") == report_html(compared, [])
