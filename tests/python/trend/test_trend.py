# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe trend on a terminal and as JSON: what it says of one record, and of two."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest
from msprobe import FormatError, InvalidArgument
from msprobe.native import NothingToCompare
from msprobe.trend.api import TrendApi
from msprobe.trend.command import main
from msprobe.trend.record import open_records
from trend_records import Training, write_alarm, write_record

STEPS = 240


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    made = {
        "reference": Training(1),
        "same": Training(1),
        "rounding": Training(1, noise=1e-4, noise_seed=2),
        "batches": Training(3),
        "fault": Training(1, noise=1e-4, noise_seed=2, fault=150),
    }
    return {name: write_record(folder / name, training, STEPS) for name, training in made.items()}


def said(capsys, *arguments):
    code = main([str(one) for one in arguments])
    return code, capsys.readouterr().out


def test_one_healthy_run(runs, capsys):
    code, text = said(capsys, runs["reference"])
    assert code == 0
    assert text.startswith("reference: steps 0 to 239 (240 recorded), 102 series, no alarm\n")
    loss = next(line.split() for line in text.splitlines() if line.split()[:1] == ["loss"])
    api = TrendApi(open_records([str(runs["reference"])]))
    points = api.answer("curves", {"keys": ["loss"], "points": 2000})["curves"]["loss"][0]
    assert [float(number) for number in loss[1:5]] == [
        pytest.approx(number, rel=1e-3)
        for number in (points[0][4], points[-1][4], min(p[4] for p in points), max(p[4] for p in points))
    ]


@pytest.mark.parametrize(
    ("target", "status"), [("same", "equal"), ("rounding", "noise"), ("batches", "noise")]
)
def test_runs_that_do_not_part(runs, capsys, target, status):
    code, text = said(capsys, runs["reference"], runs[target], "--json")
    (comparison,) = json.loads(text)["comparisons"]
    assert (code, comparison["status"], comparison["partings"]) == (0, status, [])
    assert (comparison["first_difference"] is None) == (status == "equal")
    assert comparison["steps"] == STEPS


def test_where_two_runs_part(runs, capsys):
    code, text = said(capsys, runs["reference"], runs["fault"])
    assert code == 1
    assert text.startswith("fault diverges from reference at step 15")
    code, text = said(capsys, runs["reference"], runs["fault"], "--json")
    first = json.loads(text)["comparisons"][0]["partings"][0]
    assert code == 1
    assert "layers.3" in first["series"]
    assert 150 <= first["step"] < 156
    assert abs(first["target"] - first["reference"]) > first["band"] > 0


@pytest.mark.parametrize(("metric", "code"), [("zeros", 0), ("norm", 1)])
def test_one_element_more_beyond_a_threshold_is_no_part(tmp_path, capsys, metric, code):
    """As between a CPU and a GPU: the gradient of 80 x 80 weights has one zero more."""
    from msprobe.native import core

    for name, numbers in {"cpu": [0.0, 0.0], "gpu": [1 / 6400, 0.0]}.items():
        (tmp_path / name).mkdir()
        store = core.MonitorStoreWriter(tmp_path / name / "monitor.db")
        store.add_series(core.MonitorSeries("gradient", metric, "out.weight", "parameter", 0, "share"))
        for step, number in enumerate(numbers):
            store.append(step, [number])
        store.flush()
    assert said(capsys, tmp_path / "cpu", tmp_path / "gpu")[0] == code


def test_alarms_are_listed_and_decide_the_exit_code(runs, tmp_path, capsys):
    folder = shutil.copytree(runs["reference"], tmp_path / "run")
    write_alarm(folder, 30, "gradient.norm", "NaN", "nonfinite")
    write_alarm(folder, 20, "loss", 9.5)
    write_alarm(folder, 5000, "loss", 9.5)  # of an earlier run, which went farther
    with (folder / "alarms.jsonl").open("a") as file:
        file.write('{"step": 31, "rule"')  # the process was killed
    code, text = said(capsys, folder)
    assert code == 1
    assert text.splitlines()[0].endswith("2 alarms")
    assert text.index("step 20: loss is 9.5") < text.index("step 30: gradient.norm is NaN")


def test_quiet_says_nothing(runs, capsys):
    assert said(capsys, runs["reference"], runs["fault"], "--quiet") == (1, "")


def test_the_folder_of_a_run(runs, tmp_path, capsys):
    shutil.copytree(runs["reference"], tmp_path / "run" / "monitor")
    code, text = said(capsys, tmp_path / "run")
    assert code == 0
    assert text.startswith("run: steps 0 to 239")
    assert said(capsys, tmp_path / "run" / "monitor" / "monitor.db")[0] == 0


@pytest.fixture(scope="module")
def of_ranks(runs, tmp_path_factory):
    """of_ranks(name, of each rank) -> the folder of a record with a store for each rank."""
    folder = tmp_path_factory.mktemp("of_ranks")

    def record(name, *of_rank):
        (folder / name).mkdir()
        for rank, run in enumerate(of_rank):
            shutil.copy(runs[run] / "monitor.db", folder / name / f"monitor.rank{rank}.db")
        return folder / name

    return record


def test_a_rank_is_shown_alone_where_it_is_asked_for(of_ranks, capsys):
    record = of_ranks("two", "reference", "fault")
    assert said(capsys, record)[1].startswith("two, ranks 0-1: steps")
    assert ", rank 1: steps" in said(capsys, record, "--rank", 1)[1]
    with pytest.raises(InvalidArgument, match="there is no store of rank 7; there is: ranks 0-1"):
        main([str(record), "--rank", "7"])


def test_all_ranks_of_two_runs_are_compared(of_ranks, capsys):
    reference = of_ranks("trusted", *["reference"] * 4)
    healthy = of_ranks("healthy", *["rounding"] * 4)
    code, text = said(capsys, reference, healthy)
    assert (code, text.splitlines()[0]) == (0, "healthy stays in the noise of trusted in all 4 ranks")
    code, text = said(capsys, reference, of_ranks("bad", "rounding", "rounding", "fault", "fault"), "--json")
    (comparison,) = json.loads(text)["comparisons"]
    assert (code, comparison["rank"], comparison["in_ranks"]) == (1, 2, [2, 3])
    assert " in ranks 2-3: " in comparison["sentence"]
    assert 150 <= comparison["partings"][0]["step"] < 170


def test_ranks_that_one_run_lacks_or_that_cannot_be_read_are_told(of_ranks, capsys):
    reference = of_ranks("four", *["reference"] * 4)
    target = of_ranks("three", *["same"] * 3)
    (target / "monitor.rank1.db").write_bytes(b"cut")
    code, text = said(capsys, reference, target)
    assert code == 1
    assert "not compared: rank 1 (" in text.splitlines()[0]
    assert "rank 3 (only in the reference)" in text.splitlines()[0]


def test_the_end_that_one_run_has_not_reached_is_told(runs, tmp_path, capsys):
    shorter = write_record(tmp_path / "shorter", Training(1), STEPS - 40)
    code, text = said(capsys, runs["reference"], shorter)
    assert code == 0  # it may still run
    assert "not compared: steps 200-239 (only in the reference)" in text.splitlines()[1]


def test_a_rank_that_leaves_the_others_of_its_run(of_ranks, capsys):
    """Ranks have numbers of their own: as the stages of a pipeline they differ all the time."""
    healthy = of_ranks("own_data", "reference", "batches", "rounding", "same")
    assert json.loads(said(capsys, healthy, "--json")[1])["runs"][0]["outliers"] == []
    code, text = said(capsys, of_ranks("one_leaves", *["rounding"] * 5, "fault", *["rounding"] * 2))
    assert code == 1
    (line,) = [line for line in text.splitlines() if "leaves the others" in line]
    assert "rank 5 leaves the others: " in line


def test_names_of_runs_tell_them_apart(runs, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(runs["same"], tmp_path / name / "monitor")
    records = open_records([str(tmp_path / name / "monitor") for name in ("a", "b")])
    assert [record.name for record in records] == ["a/monitor", "b/monitor"]
    twice = open_records([str(runs["same"]), str(runs["same"])])
    assert len({record.name for record in twice}) == 2


def test_a_record_that_grows_is_seen(tmp_path):
    from msprobe.native import core

    store = core.MonitorStoreWriter(tmp_path / "monitor.db")
    store.add_series(core.MonitorSeries("loss"))
    api = TrendApi(open_records([str(tmp_path)]))
    assert api.answer("runs", {})["runs"][0]["steps"] == 0
    store.append(7, [1.5])
    store.flush()
    assert api.answer("runs", {})["runs"][0]["last"] == 7
    assert api.answer("curves", {"keys": ["loss"]})["curves"]["loss"] == [[[7, 7, 1.5, 1.5, 1.5, 0]]]


def test_a_nan_is_no_number_of_a_curve(tmp_path):
    class Broken(Training):
        def numbers(self, step, series):
            found = super().numbers(step, series)
            return [float("nan"), *found[1:]] if step == 3 else found

    api = TrendApi(open_records([str(write_record(tmp_path, Broken(1), 5))]))
    points = api.answer("curves", {"keys": ["loss"]})["curves"]["loss"][0]
    assert points[3] == [3, 3, None, None, None, 1]


# ---- what is no record


def test_a_path_that_is_not_there(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "none")])
    assert ended.value.code == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_folder_without_a_record(tmp_path):
    with pytest.raises(InvalidArgument, match=r"expected a record of the monitor: a folder with monitor\.db"):
        main([str(tmp_path)])


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_a_file_that_is_no_store(tmp_path, content):
    (tmp_path / "monitor.db").write_bytes(content)
    with pytest.raises(FormatError, match=r"monitor\.db"):
        main([str(tmp_path)])


def test_a_store_that_is_cut_off_or_changed(runs, tmp_path):
    whole = (runs["reference"] / "monitor.db").read_bytes()
    (tmp_path / "monitor.db").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"monitor\.db"):
        main([str(tmp_path)])
    shutil.copy(runs["reference"] / "monitor.db", tmp_path / "monitor.db")
    with sqlite3.connect(tmp_path / "monitor.db") as database:
        database.execute("UPDATE recent SET numbers = x'0102'")
    with pytest.raises(FormatError, match=r"monitor\.db"):
        main([str(tmp_path)])


def test_a_store_whose_table_is_an_endless_view_is_named(runs, tmp_path):
    shutil.copy(runs["reference"] / "monitor.db", tmp_path / "monitor.db")
    with sqlite3.connect(tmp_path / "monitor.db") as database:
        database.executescript(
            "ALTER TABLE series RENAME TO kept; CREATE VIEW series AS WITH RECURSIVE r(x) AS "
            "(SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x AS id, 'loss' AS name FROM r"
        )
    with pytest.raises(FormatError, match=r"monitor\.db.*series"):
        main([str(tmp_path)])


def test_runs_without_a_common_step(runs, tmp_path):
    other = write_record(tmp_path, Training(1), 0)
    with pytest.raises(NothingToCompare, match="have no step in common"):
        main([str(runs["reference"]), str(other)])


@pytest.mark.parametrize(
    ("name", "asked", "match"),
    [
        ("nothing", {}, "there is no question 'nothing'"),
        ("curves", {}, "keys: expected the keys of series"),
        ("curves", {"keys": [1]}, "keys: expected the keys of series"),
        ("curves", {"keys": [], "first": 1e300}, "first: expected a whole number"),
        ("band", {"key": "no", "steps": []}, "key: expected a series"),
        ("band", {"key": "loss", "steps": [True]}, "steps: expected whole numbers"),
        ("band", {"key": "loss", "steps": [1 << 70]}, "steps: expected whole numbers"),
    ],
)
def test_wrong_questions(runs, name, asked, match):
    with pytest.raises(InvalidArgument, match=match):
        TrendApi(open_records([str(runs["reference"])])).answer(name, asked)


def test_a_page_that_cannot_be_written(runs, tmp_path):
    from msprobe import InvalidArgument

    with pytest.raises(InvalidArgument, match="there is no folder"):
        main([str(runs["same"]), "--export", str(tmp_path / "no" / "folder" / "x.html")])
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_resumed_begins_at_its_step(tmp_path, capsys):
    """Its record counts from 0; the file of the run says how many steps its optimizer had made."""
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    write_record(straight / "monitor", Training(1), STEPS)
    write_record(resumed / "monitor", Training(1), STEPS, first=40)
    (straight / "run.rank0.json").write_text('{"first_step": 0}')
    (resumed / "run.rank0.json").write_text('{"first_step": 40}')
    code, text = said(capsys, straight, resumed)
    assert code == 0
    assert "resumed is equal to straight to the last bit" in text
    assert open_records([str(straight), str(resumed)])[1].first == 40
    assert said(capsys, straight, resumed, "--offset", "0")[0] == 1
