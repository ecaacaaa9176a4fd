# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe view of dumps: the graph is made first."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from msprobe.viewer.api import Api
from msprobe.viewer.command import main
from msprobe.viewer.graph_of_dumps import graph_of, is_dump
from msprobe.viewer.library import Library
from msprobe.viewer.result_file import open_result
from viewer_page import CHROMIUM, MISSING, ViewerPage, serving
from viewer_samples import CALL, dump, write


def test_two_dumps_are_compared_and_exported(tmp_path, capfd):
    golden, target = dump(tmp_path / "golden", 1.0), dump(tmp_path / "target", 3.0)
    out = tmp_path / "out.html"
    assert main([str(golden), str(target), "--export", str(out)]) == 0
    assert "whole graph" in capfd.readouterr().out
    assert out.stat().st_size > 50_000
    assert {path.name for path in tmp_path.iterdir()} == {"golden", "target", "out.html"}


def test_one_dump_is_shown_and_the_command_that_keeps_its_graph_is_said(tmp_path):
    run = dump(tmp_path / "run", 1.0)
    command = [sys.executable, "-m", "msprobe", "view", str(run), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = [process.stdout.readline() for _ in range(3)]
        finally:
            process.terminate()
    assert f"msprobe graph {run} -o FOLDER" in said[0]
    assert re.match(r"Open http://127\.0\.0\.1:\d+/", said[2])


def test_a_graph_of_dumps_is_that_of_msprobe_graph(tmp_path):
    path = graph_of([dump(tmp_path / "golden", 1.0), dump(tmp_path / "target", 3.0)])
    result = open_result(path)
    assert result.config.is_compare
    assert result.rows("SELECT count(*) FROM tb_nodes WHERE node_name=?", CALL) == [(2,)]


def test_a_folder_with_results_is_no_dump(tmp_path):
    run = dump(tmp_path / "run", 1.0)
    assert is_dump(run)
    assert is_dump(run / "step0" / "rank0")
    assert not is_dump(tmp_path)
    write(run / "a.vis.db")
    assert not is_dump(run)


def test_a_dump_that_cannot_be_read_is_an_error_with_its_name(tmp_path, capfd):
    run = dump(tmp_path / "run", 1.0)
    (run / "step0" / "rank0" / "dump.json").write_text("{")
    with pytest.raises(ValueError, match="could not be made"):
        main([str(run)])
    assert "dump.json" in capfd.readouterr().err


def test_a_result_and_a_dump_cannot_be_compared(tmp_path):
    with pytest.raises(ValueError, match="expected"):
        main([str(write(tmp_path / "a.vis.db")), str(dump(tmp_path / "run", 1.0))])


@pytest.fixture
def api(tmp_path):
    dump(tmp_path / "runs" / "golden", 1.0)
    dump(tmp_path / "runs" / "target", 3.0)
    dump(tmp_path / "outside", 3.0)
    library = Library(tmp_path / "runs")
    yield Api(library)
    library.close()


def finished(api):
    end = time.monotonic() + 120
    while not (answer := api.answer("made", {}))["done"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer["file"]


def test_a_graph_is_made_from_within_the_page(api, tmp_path):
    before = sorted(path.name for path in (tmp_path / "runs").rglob("*"))
    assert api.answer("files", {})["dumps"] == ["golden", "target"]
    api.answer("make", {"target": "target", "reference": "golden"})
    with pytest.raises(ValueError, match="is being made"):
        api.answer("make", {"target": "target"})
    name = finished(api)
    assert [one["name"] for one in api.answer("files", {})["files"]] == [name]
    assert api.answer("open", {"file": name})["compare"]
    found = api.answer("list", {"file": name, "step": 0, "rank": 0, "text": CALL})
    assert found["total"] == 2
    assert sorted(path.name for path in (tmp_path / "runs").rglob("*")) == before


@pytest.mark.parametrize("name", ["../outside", "/", "", "golden/..", "golden/step0", "nothing"])
def test_only_dumps_of_the_folder_are_made_into_a_graph(api, name):
    with pytest.raises(ValueError, match="no dump"):
        api.answer("make", {"target": name})
    with pytest.raises(ValueError, match="no dump"):
        api.answer("make", {"target": "target", "reference": name})


def test_what_is_wrong_with_a_dump_is_said_in_the_page(api, tmp_path):
    (tmp_path / "runs" / "target" / "step0" / "rank0" / "dump.json").write_text("{")
    api.answer("make", {"target": "target"})
    with pytest.raises(ValueError, match=r"could not be made: .*dump\.json"):
        finished(api)
    api.answer("make", {"target": "golden"})  # another one can be tried
    assert not api.answer("open", {"file": finished(api)})["compare"]


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_the_page_offers_the_dumps_and_shows_their_graph(tmp_path):
    dump(tmp_path / "runs" / "golden", 1.0)
    dump(tmp_path / "runs" / "target", 3.0)
    page = ViewerPage(tmp_path / "profile")
    try:
        with serving(tmp_path / "runs", tmp_path / "state") as address:
            page.go(address)
            page.until("document.querySelectorAll('.dumps select').length === 2")
            for at, name in enumerate(("target", "golden")):
                select = f"document.querySelectorAll('.dumps select')[{at}]"
                page.until(f"[...{select}.options].some(one => one.value === '{name}')")
                page.run(
                    f"{select}.value = '{name}'; "
                    f"{select}.dispatchEvent(new Event('change', {{bubbles: true}}))"
                )
            page.run("document.querySelector('.dumps button').click()")
            page.until("document.querySelectorAll('canvas').length === 2", 120)
            page.until("document.querySelector('.finding, .tab-body p.pad:not(.soft)')")
            page.go("about:blank")
        assert page.faults == []
    finally:
        page.close()
