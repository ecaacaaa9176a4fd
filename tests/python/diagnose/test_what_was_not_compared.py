# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An answer says what it did not see: ranks, steps and files that are missing, cut or empty."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from many_ranks import multiplied
from msprobe import cli
from msprobe.diagnose.answer_file import console_text
from msprobe.diagnose.command import diagnose_runs
from msprobe.files.left_out import LeftOut, joined, left_out, lines, only_in, sentence

SCRIPT = """
import sys
import torch
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(2):
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    if step == 1 and sys.argv[1:] == ["fault"]: x[0, 0] += 1
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Runs of one process: sound, and with other data at step 1."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(SCRIPT)
    for name, words in (("sound", ()), ("faulty", ("fault",))):
        command = [sys.executable, "-m", "msprobe", "run", "-o", name, "train.py", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder / "sound", folder / "faulty"


@pytest.fixture(scope="module")
def runs(recorded, tmp_path_factory):
    """Of two ranks: the reference, the same again, and one whose rank 1 has the fault, of which all ranks
    have the gradients.
    """
    sound, faulty = recorded
    folder = tmp_path_factory.mktemp("runs")
    multiplied(folder / "reference", [sound, sound])
    multiplied(folder / "same", [sound, sound])
    # Without what tells of the data beside the dump.
    (multiplied(folder / "faulty", [sound, faulty], (1, faulty)) / "config_check.zip").unlink()
    return folder


@pytest.fixture
def damaged(runs, tmp_path):
    """damaged(run, path, how) -> a copy of the run (a name, or its folder), whose file or folder is missing,
    cut or empty.
    """

    def damage(name, path, how="missing"):
        run = tmp_path / "damaged"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(runs / name, run)
        if how == "missing":
            shutil.rmtree(run / path) if (run / path).is_dir() else (run / path).unlink()
        else:
            content = (run / path).read_bytes()
            (run / path).write_bytes(content[: len(content) // 2] if how == "cut" else b"")
        return run

    return damage


def diagnosed(reference, target, tmp_path):
    return diagnose_runs(reference, target, tmp_path / "out", graph=False, force=True, shows_progress=False)


@pytest.fixture(scope="module")
def unpacked(runs, tmp_path_factory):
    """The same runs with the files of mindstudio-probe, by `msprobe export`."""
    folder = tmp_path_factory.mktemp("unpacked")
    for run in ("reference", "same"):
        shutil.copytree(runs / run, folder / run)
        assert cli.main(["export", "--quiet", str(folder / run)]) == 0
        for path in folder.rglob("step.zip"):
            path.unlink()
    return folder


# Without them all is compared nevertheless: how modules are nested, lines of code, counts, who trained.
HARMLESS = ("construct.json", "stack.json", "summary.json", "run.rank1.json")


@pytest.mark.parametrize("how", ["missing", "cut", "empty"])
@pytest.mark.parametrize("layout", ["packed", "unpacked"])
def test_each_file_of_a_rank_is_missed(runs, unpacked, damaged, tmp_path, layout, how):
    place = runs if layout == "packed" else unpacked
    run = place / "same"
    files = sorted(path.relative_to(run) for path in run.rglob("dump/*/rank1/*"))
    assert len(files) == {"packed": 2, "unpacked": 10}[layout]
    if layout == "packed":
        files += [path.relative_to(run) for path in sorted(run.glob("*rank1.*"))] + [Path("config_check.zip")]
        files += [Path("grad_probe/rank1/gradients.msprobe"), Path("losses.ranks.csv")]
        assert len(files) == 6
    for file in files:
        if how != "missing" and file.name == "summary.json":
            continue  # nothing of it is compared
        answer = diagnosed(place / "reference", damaged(run, file, how), tmp_path)
        told = "; ".join(f"{one.what} ({one.reason})" for one in answer.not_compared)
        step = next((part.removeprefix("step") for part in file.parts if part.startswith("step")), None)
        places = [f"step {step}"] if step else []
        of_all = {"config_check.zip": "config", "losses.ranks.csv": "losses"}  # how: cut, of rank 1 alone
        places += [of_all.get(file.name, "rank 1")]
        assert all(place in told for place in places), (file, told)
        if file.name not in HARMLESS:
            assert answer.status == "incomplete", file
        text = console_text(answer, tmp_path)
        assert all(place in text for place in places), (file, text)


@pytest.mark.parametrize(
    "path",
    ["dump/step1/rank1", "dump/step1/rank1/step.zip", "dump/step0", "dump/step0/rank1", "dump/step0/rank0"],
)
def test_a_gap_before_the_first_difference_is_in_the_sentence(runs, damaged, tmp_path, path):
    answer = diagnosed(runs / "reference", damaged("faulty", path), tmp_path)
    assert answer.sentence.startswith("First difference at or before step 1, rank ")
    assert "not compared: dump: step " in answer.sentence
    assert answer.status == "differ"


def test_a_consequence_is_not_sure_where_its_cause_may_be_missing(runs, damaged, tmp_path):
    whole = diagnosed(runs / "reference", runs / "faulty", tmp_path)
    assert (whole.cause.step, whole.cause.rank, whole.cause.stage) == (1, 1, "data")
    assert whole.sentence.startswith("First difference: step 1, rank 1, ")
    without = diagnosed(runs / "reference", damaged("faulty", "dump/step1/rank1"), tmp_path)
    assert (without.cause.rank, without.cause.stage) == (0, "gradients")
    assert without.cause.confidence <= 0.5
    later = damaged("faulty", "losses.ranks.csv")
    assert diagnosed(runs / "reference", later, tmp_path).cause == whole.cause


def test_a_gap_behind_the_first_difference_hides_nothing(runs, recorded, tmp_path):
    """Steps that only one run has."""
    sound, _ = recorded
    reference = multiplied(tmp_path / "reference", [sound, sound])
    shutil.copytree(reference / "dump/step1", reference / "dump/step9")
    answer = diagnosed(reference, runs / "faulty", tmp_path)
    assert answer.sentence.startswith("First difference: step 1, rank 1, ")
    assert "dump: step 9 (only in the reference)" in lines(answer.not_compared)


@pytest.mark.parametrize(
    ("table", "trained"),
    [
        pytest.param(
            "nn.Embedding(9, 4)",
            "for p, g in zip(model.parameters(), torch.autograd.grad(loss, model.parameters())): p.data -= g",
            id="no loss is seen",
        ),
        pytest.param("nn.Embedding(9, 4, sparse=True)", "loss.backward()", id="gradients are sparse"),
    ],
)
def test_what_neither_run_can_have_is_no_gap(tmp_path, table, trained):
    (tmp_path / "train.py").write_text(
        f"import torch\nfrom torch import nn\ntorch.manual_seed(4)\nmodel = {table}\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"for step in range(2):\n    loss = model(torch.arange(9)).square().sum()\n    {trained}\n"
        "    optimizer.step()\n    optimizer.zero_grad()\n"
    )
    for name in ("reference", "target"):
        command = [sys.executable, "-m", "msprobe", "run", "-o", name, "train.py"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    answer = diagnosed(tmp_path / "reference", tmp_path / "target", tmp_path)
    assert answer.follows
    absent = {part.part for part in answer.parts if part.status == "absent"} - {"checkpoint"}
    assert absent == ({"losses", "gradients"} if "autograd" in trained else {"gradients"})
    assert any("neither run" in note for note in answer.notes)


class TestCommands:
    """The same gap, asked of every command: 0 is said of what was seen as a whole only."""

    def asked(self, capsys, *words):
        capsys.readouterr()
        code = cli.main([*map(str, words)])
        return code, capsys.readouterr().out

    @pytest.mark.parametrize("command", ["diagnose", "compare", "graph", "nan_analyze"])
    @pytest.mark.parametrize("how", ["missing", "cut"])
    def test_a_rank_of_a_step(self, runs, damaged, tmp_path, capsys, command, how):
        one = command == "nan_analyze"
        sides = [] if one else [runs / "reference"]
        whole = [*sides, runs / "same", "-o", tmp_path / "whole"]
        assert self.asked(capsys, command, *whole)[0] == 0
        run = damaged("same", "dump/step1/rank1" if how == "missing" else "dump/step1/rank1/step.zip", how)
        code, text = self.asked(capsys, command, *sides, run, "-o", tmp_path / "gap")
        assert code == 1
        assert "step 1, rank 1" in "\n".join(text.splitlines()[:2])

    def test_a_rank_of_a_pack(self, runs, tmp_path, capsys):
        pack = tmp_path / "config_check.zip"
        with zipfile.ZipFile(runs / "same/config_check.zip") as whole, zipfile.ZipFile(pack, "w") as part:
            for name in whole.namelist():
                if name != "msprobe/seeds/rank1.json":
                    part.writestr(name, whole.read(name))
        words = ("config_check", "-c", runs / "reference/config_check.zip", pack, "-o", tmp_path / "out")
        code, text = self.asked(capsys, *words)
        assert code == 1
        assert "rank 1, seeds (only in the reference)" in text.splitlines()[0]

    def test_a_graph_of_the_ranks_that_can_be_read(self, runs, damaged, tmp_path, capsys):
        run = damaged("faulty", "dump/step1/rank0/step.zip", "cut")
        code, text = self.asked(capsys, "graph", runs / "reference", run, "-o", tmp_path / "out")
        assert code == 1
        assert "3 graphs" in text
        (file,) = (tmp_path / "out").glob("*.vis.db")
        with sqlite3.connect(file) as database:
            found = database.execute("SELECT step, rank FROM msprobe_findings").fetchall()
        assert found[0] == (1, 1)

    def test_findings_of_a_folder_of_a_step_are_where_its_graph_is(self, runs, tmp_path, capsys):
        step = "dump/step1"
        self.asked(capsys, "graph", runs / "reference" / step, runs / "faulty" / step, "-o", tmp_path / "out")
        (file,) = (tmp_path / "out").glob("*.vis.db")
        with sqlite3.connect(file) as database:
            (steps,) = database.execute("SELECT step_list FROM tb_config").fetchone()
            found = database.execute("SELECT step, rank FROM msprobe_findings").fetchall()
        assert found[0][0] in json.loads(steps)
        assert found[0][1] == 1


class TestOtherNumbersOfRanks:
    def test_ranks_of_one_run_are_told_as_a_range(self, recorded, tmp_path):
        sound, _ = recorded
        many = multiplied(tmp_path / "many", [sound] * 6)
        few = shutil.copytree(many, tmp_path / "few")
        for path in [*few.rglob("*rank[2-5]*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        answer = diagnosed(many, few, tmp_path)
        assert answer.status == "incomplete"
        told = lines(answer.not_compared, 20)
        assert "ranks 2-5 (not recorded in the target, a run of 6 processes)" in told

    def test_another_number_of_ranks_is_no_gap(self, recorded, tmp_path):
        sound, _ = recorded
        many = multiplied(tmp_path / "many", [sound] * 6)
        few = multiplied(tmp_path / "few", [sound] * 2)
        assert diagnosed(many, few, tmp_path).status == "equal"

    def test_ranks_of_one_run_alone_are_told_where_the_fault_is_in_them(self, recorded, tmp_path):
        sound, faulty = recorded
        many = multiplied(tmp_path / "many", [sound, sound, sound, faulty], (1, faulty))
        few = multiplied(tmp_path / "few", [sound] * 2)
        for runs, side in (((few, many), "target"), ((many, few), "reference")):
            answer = diagnosed(*runs, tmp_path)
            assert answer.status == "differ"
            assert f"ranks 2-3, run.rank*.json (only in the {side})" in lines(answer.not_compared, 20)
            assert "rank" not in answer.sentence  # of the logical run, which has no rank to blame

    def test_the_loss_of_each_rank_is_looked_at(self, runs, damaged, tmp_path):
        run = damaged("same", "dump")
        *others, row = (run / "losses.ranks.csv").read_text().split()
        rank, step, loss, calls = row.split(",")
        assert (rank, step) == ("1", "1")
        row = f"{rank},{step},{float(loss) * 1.0006},{calls}"
        (run / "losses.ranks.csv").write_text("\n".join([*others, row]) + "\n")
        part = next(one for one in diagnosed(runs / "reference", run, tmp_path).parts if one.part == "losses")
        assert (part.status, part.first_step) == ("differ", 1)
        assert part.sentence.endswith(", in rank 1")

    def test_a_run_that_was_killed_is_not_equal(self, runs, damaged, tmp_path):
        run = damaged("same", "dump/step1")
        about = json.loads((run / "run.rank0.json").read_text())
        (run / "run.rank0.json").write_text(json.dumps({**about, "outcome": "running", "ended": None}))
        head, first, _, *of_rank_1 = (run / "losses.ranks.csv").read_text().split()
        (run / "losses.ranks.csv").write_text("\n".join([head, *of_rank_1]) + "\n")
        (run / "losses.rank0.csv").write_text(f"step,loss,backward_calls\n{first.removeprefix('0,')}\n")
        answer = diagnosed(runs / "reference", run, tmp_path)
        told = lines(answer.not_compared, 20)
        assert answer.status == "incomplete"
        assert "rank 0 (the target did not end)" in told
        assert "losses: rank 0, step 1 (only in the reference)" in told


def test_what_all_ranks_have_is_one_finding(runs, recorded, tmp_path):
    _, faulty = recorded
    (multiplied(tmp_path / "all", [faulty] * 4) / "config_check.zip").unlink()
    multiplied(tmp_path / "none", [recorded[0]] * 4)
    answer = diagnosed(tmp_path / "none", tmp_path / "all", tmp_path)
    assert answer.sentence.startswith("First difference: step 1, all 4 ranks, ")
    assert answer.cause.ranks == (0, 1, 2, 3)
    names = [(one.step, one.name) for one in (answer.cause, *answer.others)]
    assert len(set(names)) == len(names)


class TestRanges:
    def test_ranks_and_steps_are_joined(self):
        found = [only_in("reference", step, rank) for step in (0, 1) for rank in (3, 4, 5, 9)]
        assert lines(found) == ["steps 0-1, ranks 3-5, 9 (only in the reference)"]

    def test_other_reasons_and_files_are_not(self):
        found = [only_in("reference", 0, 1), only_in("target", 0, 2), only_in("target", 0, 3, "debug.json")]
        assert len(joined(found)) == 3

    def test_a_reason_that_names_its_file_is_told_once(self):
        found = [left_out(f"x/rank{rank}/dump.json: byte {rank * 7}: cut", 0, rank) for rank in range(3)]
        assert lines(found) == ["step 0, ranks 0-2 (x/rank0/dump.json: byte 0: cut, and 2 more of this kind)"]

    def test_what_has_no_place_keeps_its_words(self):
        found = [LeftOut("this", "why"), LeftOut("that", "why")]
        assert sentence(found) == "this (why), that (why)"


def test_what_an_answer_leaves_on_disk_is_of_the_rank_of_the_cause_and_one_beside_it(recorded, tmp_path):
    sound, faulty = recorded
    reference = multiplied(tmp_path / "reference", [sound] * 6)
    sources = [sound] * 6
    sources[3] = faulty
    target = multiplied(tmp_path / "target", sources, (1, faulty))
    (target / "config_check.zip").unlink()  # which tells of the data beside the dump
    diagnose_runs(reference, target, tmp_path / "out", graph=True, force=False, shows_progress=False)
    (file,) = (tmp_path / "out").rglob("*.vis.db")
    with sqlite3.connect(file) as database:
        (ranks,) = database.execute("SELECT rank_list FROM tb_config").fetchone()
        found = database.execute("SELECT DISTINCT rank FROM msprobe_findings").fetchall()
    assert (3,) in found
    assert len(json.loads(ranks)) == len(found) + 1 < 6
    assert len([*(tmp_path / "out").rglob("compare_result*")]) == 1  # of 6 ranks and 2 steps


def test_beside_a_repeated_run_of_the_reference_the_calls_are_compared(recorded, tmp_path):
    """As `msprobe hunt` and `--noise` of a run of `msprobe repeat` give one, with all its steps."""
    sound, faulty = recorded
    options = {"graph": False, "force": True, "shows_progress": False}
    answers = [diagnose_runs(sound, faulty, tmp_path, noise=one, **options) for one in ((), (sound,))]
    said = [[(part.part, part.status) for part in answer.parts] for answer in answers]
    assert said[0] == said[1]
    assert ("dump", "failed") not in said[1]
