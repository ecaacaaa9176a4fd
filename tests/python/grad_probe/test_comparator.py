# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""GradComparator: the verdict, its files, and inputs that are broken or hostile."""

from __future__ import annotations

import csv
import json
import logging
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from msprobe import GradComparator, InvalidArgument, IoError, NothingToCompare, __version__
from msprobe.native import core

DATA = Path(__file__).parents[2] / "data" / "grad_probe"


def write_rank(directory, steps):
    """steps: {step: {name: bool array}}, written as the probe does."""
    for step, signs in steps.items():
        folder = directory / f"step{step}"
        folder.mkdir(parents=True)
        with (directory / f"grad_summary_{step}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["param_name", "max", "min", "norm", "shape"])
            for name, array in signs.items():
                writer.writerow([name, 1.0, -1.0, 1.0, list(array.shape)])
                np.save(folder / core.direction_file_name(name), array)


def agreeing(share, count=1000):
    """Two arrays that agree for `share` of their elements."""
    first = np.arange(count) % 3 == 0
    second = first.copy()
    flips = round((1 - share) * count)
    second[:flips] = ~second[:flips]
    return first, second


def write_runs(tmp_path, shares, ranks=(0,)):
    """shares: {name: [similarity of each step]}; rank 0 has them, the other ranks agree."""
    paths = tmp_path / "a", tmp_path / "b"
    for rank in ranks:
        for side, path in enumerate(paths):
            steps = {
                step: {
                    name: agreeing(values[step] if rank == 0 else 1)[side] for name, values in shares.items()
                }
                for step in range(len(next(iter(shares.values()))))
            }
            write_rank(path / f"rank{rank}", steps)
    return paths


@pytest.fixture
def compare(tmp_path):
    def run(path1, path2, **options):
        return GradComparator.compare_distributed(
            path1, path2, tmp_path / "out", **{"pictures": False, **options}
        )

    return run


def verdict_of(tmp_path):
    return json.loads((tmp_path / "out" / "verdict.json").read_text())


class TestVerdict:
    def test_the_same_run(self, compare, tmp_path, caplog):
        with caplog.at_level(logging.INFO, logger="msprobe"):
            result = compare(DATA / "l1_a", DATA / "l1_a")
        assert result.same
        assert result.output_dir == tmp_path / "out"
        verdict = verdict_of(tmp_path)
        assert verdict["verdict"] == "same"
        assert verdict["first"] is None
        assert verdict["findings"] == []
        assert verdict["counts"] == {
            "ranks": 1, "unreadable_ranks": 0, "parameters": 13, "compared": 52, "findings": 0,
            "suspicious_parameters": 0,
        }  # fmt: skip
        assert caplog.messages == [
            f"The two runs agree: 52 gradients compared, none suspicious; see {result.report_path}"
        ]

    def test_low_at_the_first_step(self, compare, tmp_path):
        result = compare(*write_runs(tmp_path, {"w": [0.969, 0.969], "v": [0.97, 0.97]}))
        assert result.verdict.verdict == "differs"
        (finding,) = verdict_of(tmp_path)["findings"]
        assert finding["kind"] == "low_at_first_step"
        assert (finding["rank"], finding["step"], finding["parameter"]) == (0, 0, "w")
        assert (finding["similarity"], finding["previous"]) == (0.969, None)

    def test_a_drop_and_where_to_look_first(self, compare, tmp_path):
        shares = {"w": [1, 0.96, 0.96], "v": [1, 0.9, 0.6], "u": [1, 0.97, 0.94]}
        compare(*write_runs(tmp_path, shares))
        verdict = verdict_of(tmp_path)
        found = [(f["step"], f["parameter"], f["similarity"], f["previous"]) for f in verdict["findings"]]
        assert found == [(1, "v", 0.9, 1.0), (1, "w", 0.96, 1.0), (2, "v", 0.6, 0.9)]
        assert verdict["first"] == verdict["findings"][0]
        assert verdict["sentence"] == "The two runs diverge at step 1: parameter v of rank 0"
        assert verdict["counts"]["suspicious_parameters"] == 2
        assert verdict["ranks"][0]["summary"] == pytest.approx([1, (0.96 + 0.9 + 0.97) / 3, 2.5 / 3])

    def test_ranks_and_what_only_one_side_has(self, compare, tmp_path):
        a, b = write_runs(tmp_path, {"w": [1, 0.5]}, ranks=(0, 1, 3))
        write_rank(a / "rank7", {0: {"w": agreeing(1)[0]}})
        write_rank(b / "rank10", {0: {"w": agreeing(1)[0]}})
        compare(a, b)
        verdict = verdict_of(tmp_path)
        assert [rank["rank"] for rank in verdict["ranks"]] == [0, 1, 3]
        assert [rank["findings"] for rank in verdict["ranks"]] == [1, 0, 0]
        assert verdict["inputs"] == {
            "reference": str(a), "target": str(b),
            "ranks_only_in_reference": [7], "ranks_only_in_target": [10],
        }  # fmt: skip
        assert verdict["format"] == 2
        assert verdict["msprobe"] == __version__
        assert verdict["rule"] == {"first_step_least": 0.97, "largest_drop": 0.03}

    def test_one_line_for_each_suspicious_parameter(self, compare, tmp_path, caplog):
        shares = {f"p{index:02}": [0.5, 0.1] for index in range(25)}
        result = compare(*write_runs(tmp_path, shares))
        lines = caplog.messages
        assert len([line for line in lines if line.startswith("rank 0: p")]) == 20
        assert lines[20] == f"5 more are listed in {result.verdict_path}"
        assert lines[21].startswith("The two runs diverge at step 0: parameter p00 of rank 0; see ")
        assert len(lines) == 22

    def test_the_rule_is_judged_against_the_step_before_not_the_first(self, compare, tmp_path):
        assert compare(*write_runs(tmp_path, {"w": [1, 0.98, 0.96, 0.94, 0.92]})).same


class TestOnlyOneSide:
    """What only one run recorded is left out of the comparison, and named."""

    def runs(self, tmp_path, steps1, steps2, ranks=(0,)):
        a, b = tmp_path / "a", tmp_path / "b"
        for rank in ranks:
            for path, steps in ((a, steps1), (b, steps2)):
                write_rank(path / f"rank{rank}", {step: {"w": agreeing(1)[0]} for step in steps})
        return a, b

    @pytest.mark.parametrize(
        ("steps1", "steps2", "left_out"),
        [
            ((0, 1), (0, 1), ""),
            ((0, 1, 2), (0, 1), "; not compared: step 2 (only in run 1)"),
            ((1,), (0, 1, 2), "; not compared: steps 0, 2 (only in run 2)"),
            (
                (0, 1, 2, 3, 7, 9, 10),
                (0, 3, 4, 5, 11),
                "; not compared: steps 1-2, 7, 9-10 (only in run 1), steps 4-5, 11 (only in run 2)",
            ),
            (range(0, 30, 2), (0,), "; not compared: steps 2, 4, 6, 8, 10, ... (only in run 1)"),
        ],
    )
    def test_steps(self, compare, tmp_path, caplog, steps1, steps2, left_out):
        with caplog.at_level(logging.INFO, logger="msprobe"):
            result = compare(*self.runs(tmp_path, steps1, steps2))
        common = sorted({*steps1} & {*steps2})
        sentence = f"The two runs agree: {len(common)} gradients compared, none suspicious{left_out}"
        assert result.same  # what is compared agrees
        verdict = verdict_of(tmp_path)
        assert verdict["sentence"] == sentence
        assert caplog.messages == [f"{sentence}; see {result.report_path}"]
        (rank,) = verdict["ranks"]
        assert rank["steps"] == common
        assert rank["steps_only_in_reference"] == sorted({*steps1} - {*steps2})
        assert rank["steps_only_in_target"] == sorted({*steps2} - {*steps1})

    def test_a_rank_that_one_run_lacks_is_no_agreement(self, compare, tmp_path):
        a, b = self.runs(tmp_path, (0,), (0,), ranks=range(4))
        shutil.rmtree(b / "rank2")
        result = compare(a, b)
        assert (result.same, verdict_of(tmp_path)["verdict"]) == (False, "incomplete")
        assert result.sentence.endswith("; not compared: rank 2 (only in run 1)")

    def test_steps_of_two_rank_directories(self, tmp_path):
        a, b = self.runs(tmp_path, (0, 1), (1, 2))
        result = GradComparator.compare(a / "rank0", b / "rank0", tmp_path / "out", pictures=False)
        assert result.verdict.sentence.endswith(
            "; not compared: step 0 (only in run 1), step 2 (only in run 2)"
        )

    def test_steps_are_counted_as_the_comparison_counts_them(self, compare, tmp_path):
        a, b = self.runs(tmp_path, (0, 1), (0, 1))
        for name in ("step05", "step", "steps", "step-1", "step\u0663", ".step7.1.tmp", "step8x"):
            (a / "rank0" / name).mkdir()
        (b / "rank0" / "step9").touch()
        compare(a, b)
        (rank,) = verdict_of(tmp_path)["ranks"]
        assert rank["steps_only_in_reference"] == rank["steps_only_in_target"] == []

    def test_a_difference_is_still_the_first_thing_said(self, compare, tmp_path):
        a, b = write_runs(tmp_path, {"w": [1, 0.5]})
        write_rank(a / "more", {5: {"w": agreeing(1)[0]}})
        shutil.move(a / "more" / "step5", a / "rank0" / "step5")
        compare(a, b)
        assert verdict_of(tmp_path)["sentence"] == (
            "The two runs diverge at step 1: parameter w of rank 0; not compared: step 5 (only in run 1)"
        )

    def test_the_same_steps_of_all_ranks_are_named_once(self, compare, tmp_path):
        a, b = self.runs(tmp_path, (0, 1, 2), (0,), ranks=(0, 1, 2))
        write_rank(b / "rank5", {0: {"w": agreeing(1)[0]}})
        compare(a, b)
        verdict = verdict_of(tmp_path)
        assert verdict["sentence"].endswith(
            "; not compared: steps 1-2 (only in run 1), rank 5 (only in run 2)"
        )
        assert [rank["steps_only_in_reference"] for rank in verdict["ranks"]] == [[1, 2]] * 3

    def test_different_steps_of_the_ranks_are_counted(self, compare, tmp_path):
        a, b = self.runs(tmp_path, (0, 1), (0, 1), ranks=(0, 1, 2))
        shutil.rmtree(b / "rank1" / "step1")
        shutil.rmtree(b / "rank2" / "step0")
        compare(a, b)
        verdict = verdict_of(tmp_path)
        assert verdict["sentence"].endswith("; not compared: some steps of 2 ranks (only in run 1)")
        assert [rank["steps_only_in_reference"] for rank in verdict["ranks"]] == [[], [1], [0]]

    def test_an_unreadable_rank_does_not_hide_the_steps_of_the_others(self, compare, tmp_path):
        a, b = self.runs(tmp_path, (0, 1), (0,), ranks=(0, 1))
        shutil.rmtree(b / "rank0" / "step0")
        compare(a, b)
        verdict = verdict_of(tmp_path)
        assert verdict["sentence"].endswith("; not compared: step 1 (only in run 1)")
        assert [rank["steps_only_in_reference"] for rank in verdict["ranks"]] == [[], [1]]

    def test_parameters(self, compare, tmp_path):
        both, one = agreeing(1)
        a, b = tmp_path / "a", tmp_path / "b"
        write_rank(a / "rank0", {0: {"w": both, "only.a": one}, 1: {"w": both, "sometimes": one}})
        write_rank(b / "rank0", {0: {"w": both, "sometimes": one}, 1: {"w": both, "x%y": one}})
        compare(a, b)
        verdict = verdict_of(tmp_path)
        (rank,) = verdict["ranks"]
        assert rank["parameters_only_in_reference"] == ["only.a"]
        assert rank["parameters_only_in_target"] == ["x%y"]
        # The one that each run has at another step is in neither list; all are findings.
        missing = {finding["parameter"] for finding in verdict["findings"] if finding["kind"] == "missing"}
        assert missing == {"only.a", "x%y", "sometimes"}


class TestFiles:
    def test_names_that_look_like_numbers(self, compare, tmp_path):
        names = {
            "0": [1, 1],
            "1.5": [1, 1],
            "0.10": [1, 0.9],
            "nan": [1, 1],
            "summary": [1, 1],
            "step": [1, 1],
        }
        compare(*write_runs(tmp_path, names))
        rows = (tmp_path / "out" / "rank0" / "similarities.csv").read_bytes().split(b"\r\n")
        assert rows[0] == b"\xef\xbb\xbfstep,0,1"
        assert [row.split(b",")[0].decode() for row in rows[1:-1]] == [*names, "summary"]
        assert verdict_of(tmp_path)["first"]["parameter"] == "0.10"

    def test_results_of_an_earlier_comparison_are_replaced(self, compare, tmp_path, caplog):
        a, b = write_runs(tmp_path, {"w": [0.5]})
        assert not compare(a, b).same
        pictures = tmp_path / "out" / "rank0" / "similarities_picture"
        pictures.mkdir()
        (pictures / "old_similarities.png").touch()
        (pictures / "holiday.png").touch()
        caplog.clear()
        assert compare(a, a).same
        assert caplog.messages == [
            f"{tmp_path / 'out'} holds the results of an earlier comparison: they are replaced"
        ]
        assert verdict_of(tmp_path)["verdict"] == "same"
        assert [path.name for path in pictures.iterdir()] == ["holiday.png"]
        assert "0.5" not in (tmp_path / "out" / "rank0" / "similarities.csv").read_text()

    def test_nothing_temporary_stays(self, compare, tmp_path):
        compare(DATA / "l1_ranks_a", DATA / "l1_ranks_b", pictures=True)
        for path in (tmp_path / "out").rglob("*"):
            assert not path.name.startswith("."), path
            assert path.stat().st_mode & 0o027 == 0, path  # not for others

    def test_the_result_does_not_depend_on_the_number_of_threads(self, compare, tmp_path):
        texts = []
        for threads in (1, 3):
            compare(DATA / "l1_a", DATA / "l1_b", threads=threads)
            texts.append([(tmp_path / "out" / name).read_bytes() for name in ("verdict.json", "report.html")])
        assert texts[0] == texts[1]

    def test_random_records(self, compare, tmp_path):
        dice = np.random.default_rng(4)
        a, b = tmp_path / "a", tmp_path / "b"
        steps = {}
        for step in (0, 2, 10):
            steps[step] = {
                f"p{index}": [
                    dice.random(dice.integers(0, 6, dice.integers(0, 4))) < share for share in (0.5, 0.5)
                ]
                for index in range(6)
            }
            for name, (first, second) in steps[step].items():
                steps[step][name] = [
                    first,
                    np.resize(second, first.shape) if second.size else np.zeros(first.shape, bool),
                ]
        for side, path in enumerate((a, b)):
            write_rank(
                path / "rank0", {s: {n: pair[side] for n, pair in p.items()} for s, p in steps.items()}
            )
        compare(a, b)
        with (tmp_path / "out" / "rank0" / "similarities.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == ["step", "0", "2", "10"]
        for row in rows[1:-1]:
            for text, step in zip(row[1:], steps):
                first, second = steps[step][row[0]]
                assert text == (repr(float((first == second).mean())) if first.size else "0")
        for text, pairs in zip(rows[-1][1:], steps.values()):
            equal = sum(int((first == second).sum()) for first, second in pairs.values())
            count = sum(first.size for first, _ in pairs.values())
            assert text == (repr(equal / count) if count else "0")


class TestBrokenInput:
    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (lambda path: path.unlink(), "does not exist|cannot"),
            (lambda path: path.write_bytes(path.read_bytes()[:-7]), "byte|truncated|size"),
            (lambda path: path.write_bytes(b""), "npy|empty|magic|byte"),
            (lambda path: np.save(path, np.zeros(999, bool)), "shape"),
            (lambda path: np.save(path, np.zeros(1000, np.float32)), "bool"),
            (
                lambda path: np.save(path, np.array([{}] * 3, object), allow_pickle=True),
                "bool|object|dtype|descr",
            ),
            (lambda path: path.write_bytes(path.read_bytes().replace(b"(1000,)", b"(-100,)")), "shape"),
            (
                lambda path: path.write_bytes(path.read_bytes()[:8] + b"\xff\xff" + path.read_bytes()[10:]),
                "header|byte",
            ),
            (lambda path: path.write_bytes(path.read_bytes().replace(b"(1000,)", b"(10**9)")), "shape"),
        ],
        ids=["gone", "truncated", "empty", "shape", "dtype", "object", "negative", "header", "code"],
    )
    def test_one_bad_file_is_one_finding(self, compare, tmp_path, damage, reason):
        a, b = write_runs(tmp_path, {"w": [1, 1, 1], "v": [1, 1, 0.5]})
        damage(b / "rank0" / "step1" / "w.npy")
        result = compare(a, b)
        verdict = verdict_of(tmp_path)
        missing = [finding for finding in verdict["findings"] if finding["kind"] == "missing"]
        assert [(f["rank"], f["step"], f["parameter"], f["similarity"]) for f in missing] == [
            (0, 1, "w", None)
        ]
        assert missing[0]["reason"].startswith("w: at step 1 nothing can be compared: ")
        assert re.search(reason, missing[0]["reason"]), missing[0]["reason"]
        # The other cells are there, and the real difference is what to look at first.
        assert (verdict["first"]["step"], verdict["first"]["parameter"]) == (2, "v")
        assert result.verdict.ranks[0].compared == 5

    def test_only_missing_files_are_no_difference_and_no_agreement(self, compare, tmp_path):
        a, b = write_runs(tmp_path, {"w": [1, 1], "v": [1, 1]})
        (a / "rank0" / "step1" / "w.npy").unlink()
        result = compare(a, b)
        assert result.verdict.verdict == "incomplete"
        assert not result.same
        assert verdict_of(tmp_path)["sentence"] == "No difference was seen, but 1 part could not be compared"

    def test_an_unreadable_rank_does_not_stop_the_others(self, compare, tmp_path):
        a, b = write_runs(tmp_path, {"w": [0.5]}, ranks=(0, 1))
        shutil.rmtree(b / "rank0" / "step0")
        compare(a, b)
        verdict = verdict_of(tmp_path)
        assert verdict["verdict"] == "incomplete"
        assert verdict["findings"][0]["kind"] == "unreadable"
        assert verdict["findings"][0]["rank"] == 0
        assert "no matched steps" in verdict["ranks"][0]["problem"]
        assert verdict["ranks"][1]["problem"] is None
        assert not (tmp_path / "out" / "rank0" / "similarities.csv").exists()
        assert (tmp_path / "out" / "rank1" / "similarities.csv").exists()

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"a,b\r\n1,2\r\n",
            b'param_name,max\r\n"w',
            b"param_name,max\r\nw,1\r\nw,1\r\n",
            b"param_name,max\r\nw\xff\xfe,1\r\n",
            b"param_name,max\r\n../../w,1\r\n",
        ],
        ids=["empty", "columns", "quote", "twice", "not-utf8", "path"],
    )
    def test_a_bad_csv_leaves_the_parameters_of_the_other_side(self, compare, tmp_path, content):
        a, b = write_runs(tmp_path, {"w": [1, 0.5]})
        (a / "rank0" / "grad_summary_0.csv").write_bytes(content)
        compare(a, b)
        rows = (tmp_path / "out" / "rank0" / "similarities.csv").read_text("utf-8-sig").splitlines()
        assert "w,1.0,0.5" in rows
        assert verdict_of(tmp_path)["first"]["parameter"] == "w"

    def test_nothing_in_common(self, compare, tmp_path):
        (tmp_path / "empty").mkdir()
        with pytest.raises(NothingToCompare, match="no matched ranks") as caught:
            compare(DATA / "l1_a", tmp_path / "empty")
        assert isinstance(caught.value, RuntimeError)
        assert not (tmp_path / "out").exists()

    def test_no_directions_were_recorded(self, compare):
        with pytest.raises(NothingToCompare, match=r"no matched steps.*L0"):
            compare(DATA / "l0_a", DATA / "l0_a")

    def test_a_path_that_is_missing(self, compare, tmp_path):
        with pytest.raises(IoError, match="none"):
            compare(DATA / "l1_a", tmp_path / "none")

    def test_a_path_that_is_a_link(self, compare, tmp_path):
        (tmp_path / "link").symlink_to(DATA / "l1_a")
        with pytest.raises(InvalidArgument, match="link"):
            compare(DATA / "l1_a", tmp_path / "link")

    def test_an_output_directory_that_is_a_file(self, compare, tmp_path):
        (tmp_path / "out").touch()
        with pytest.raises(IoError, match=r"cannot create the directory .*/out: Not a dir") as caught:
            compare(DATA / "l1_a", DATA / "l1_b")
        assert caught.value.filename == str(tmp_path / "out")
