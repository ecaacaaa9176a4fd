# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run, twice, and msprobe diagnose: an unchanged script, with a fault in the second run."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest
from msprobe import cli
from msprobe.grad_probe.export_command import export

SCRIPT = """
import sys
import torch
from torch import nn

fault, step_of_fault = sys.argv[1], int(sys.argv[2])
torch.manual_seed(5 if fault == "seed" else 4)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.scale = 0.5

    def forward(self, x):
        return x + self.scale * self.down(nn.functional.gelu(self.up(self.norm(x))))

model = nn.Sequential(nn.Linear(8, 16), Block(), Block(), nn.Linear(16, 4))
if fault == "weight":
    with torch.no_grad(): model[2].up.weight[0, 0] += 0.1
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
generator = torch.Generator().manual_seed(1)
for step in range(4):
    if step == step_of_fault:
        if fault == "scale": model[1].scale = 0.6
        if fault == "lr": optimizer.param_groups[0]["lr"] = 2e-2
    x, y = torch.randn(6, 8, generator=generator), torch.randint(0, 4, (6,), generator=generator)
    if fault == "data" and step == step_of_fault: x[0, 0] += 1
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


CLIPPED = """
    if float(sys.argv[3]): nn.utils.clip_grad_norm_(model.parameters(), float(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """runs(fault, step, *options) -> folder of a run of the script with that fault; made once."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(SCRIPT)

    def run(fault="none", step=0, *options):
        name = "-".join(map(str, (fault, step, *options))).replace(" ", "")
        if not (folder / name).exists():
            words = ["-m", "msprobe", "run", "-o", name, *options, "train.py", fault, str(step)]
            subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True, timeout=300)
        return folder / name

    return run


@pytest.fixture
def diagnose(tmp_path, capsys):
    """diagnose(a, b, *options) -> exit code, diagnose.json, what was printed."""

    def call(a, b, *options):
        capsys.readouterr()
        code = cli.main(["diagnose", str(a), str(b), "-o", str(tmp_path / "out"), "--force", *options])
        text = (tmp_path / "out/diagnose.json").read_text()
        return code, json.loads(text), capsys.readouterr().out

    return call


def test_equal_runs_agree(runs, diagnose):
    code, answer, text = diagnose(runs(), runs("none", 1))
    assert (code, answer["status"], answer["cause"]) == (0, "equal", None)
    assert text.startswith("The runs are equal in what was compared: ")
    assert answer["missing"] == []


@pytest.mark.parametrize(
    ("fault", "step", "stage", "name"),
    [
        ("seed", 0, "configuration", "seed"),
        ("weight", 0, "initial weights", "weight"),
        ("scale", 1, "operators", "1.scale"),
        ("lr", 1, "optimizer", "lr"),
    ],
)
def test_the_planted_fault_is_named(runs, diagnose, tmp_path, fault, step, stage, name):
    code, answer, text = diagnose(runs(), runs(fault, step))
    assert code == 1
    assert answer["cause"]["stage"] == stage, text
    assert name in answer["cause"]["name"]
    if answer["cause"]["step"] is not None:
        assert answer["cause"]["step"] == step
    assert text.splitlines()[0] == answer["sentence"]
    assert answer["cause"]["plain"] in answer["sentence"]
    page = (tmp_path / "out/index.html").read_text()
    for part in answer["parts"]:
        if part["report"] is not None:
            assert (tmp_path / "out" / part["report"]).exists()
            assert f'href="{part["report"]}"' in page
    if stage == "operators":
        assert list((tmp_path / "out/graph").glob("*.vis.db"))
        assert any(command.startswith("msprobe view ") for command in answer["next"])
        has_viewer = importlib.util.find_spec("msprobe.viewer") is not None
        assert (answer["graph"] is not None) == has_viewer
        assert not has_viewer or (tmp_path / "out" / answer["graph"]).exists()


@pytest.mark.parametrize("part", ["dump/step1", "dump/step1/rank*"])
def test_dumps_of_one_step_or_rank(runs, diagnose, tmp_path, part):
    a, b = (next(run.glob(part)) for run in (runs(), runs("scale", 1)))
    code, answer, text = diagnose(a, b)
    assert (code, answer["cause"]["stage"]) == (1, "operators"), text
    assert "1.scale" in answer["cause"]["name"]
    assert list((tmp_path / "out/graph").glob("*.vis.db"))


def test_data_of_a_later_step(runs, diagnose):
    _, answer, _ = diagnose(runs(), runs("data", 2))
    assert (answer["cause"]["stage"], answer["cause"]["step"]) == ("data", 2)


def test_a_fault_behind_the_recorded_steps_gives_the_command_that_finds_it(runs, diagnose):
    options = ("--steps", "0-1")
    code, answer, text = diagnose(runs("none", 0, *options), runs("scale", 3, *options))
    assert (code, answer["cause"]) == (1, None)
    assert answer["sentence"] == "First difference: step 3; what was recorded does not show why"
    (missing,) = answer["missing"]
    assert "--steps 3 train.py scale 3" in missing["commands"][1]
    assert all(command in text for command in missing["commands"])
    options = ("--steps", "3")
    _, answer, _ = diagnose(runs("none", 0, *options), runs("scale", 3, *options))
    assert (answer["cause"]["stage"], answer["cause"]["step"]) == ("operators", 3)


def test_all_parts_are_compared(runs, diagnose):
    _, answer, text = diagnose(runs(), runs("seed", 0), "--json")
    assert {part["part"]: part["status"] for part in answer["parts"]}["dump"] == "differ"
    assert json.loads(text) == answer


def test_equal_numbers_are_equal_and_what_was_noticed_stands_first(tmp_path, diagnose):
    script = SCRIPT.replace("    optimizer.step()\n", CLIPPED + "    optimizer.step()\n")
    (tmp_path / "train.py").write_text(script)
    for name, limit in (("a", "1e9"), ("b", "0")):
        words = [
            "-m",
            "msprobe",
            "run",
            "--quiet",
            "--steps",
            "0",
            "-o",
            name,
            "train.py",
            "none",
            "0",
            limit,
        ]
        subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    code, answer, text = diagnose(tmp_path / "a", tmp_path / "b")
    assert (code, answer["status"]) == (0, "equal")
    assert answer["noticed"][0] == "gradients are clipped 0 times (reference: 1), without consequence"
    assert text.splitlines()[1] == f"  noticed: {answer['noticed'][0]}"
    assert {one["status"] for one in answer["stages"]} == {"equal"}


def test_a_setting_of_which_nothing_is_seen_yet_is_noticed(tmp_path, diagnose):
    for name, begin in (("a", 8), ("b", 9)):
        (tmp_path / f"{name}.py").write_text(
            f"import argparse\noptions = argparse.Namespace(begin_to_average={begin})\n{SCRIPT}"
        )
        words = ["--quiet", "--steps", "0", "-o", name, f"{name}.py", "none", "0"]
        subprocess.run(
            [sys.executable, "-m", "msprobe", "run", *words], cwd=tmp_path, check=True, capture_output=True
        )
    code, answer, _ = diagnose(tmp_path / "a", tmp_path / "b")
    assert (code, answer["status"]) == (0, "equal")
    said = "begin_to_average = 9 (reference: 8), without consequence in what was recorded"
    assert answer["noticed"] == [said]


def test_a_last_bit_of_the_loss_is_rounding(tmp_path, diagnose):
    for side, last in (("a", "2.0000001"), ("b", "2.0000003")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.log").write_text(f"step 0 loss 4\nstep 1 loss {last}\n")
    code, answer, _ = diagnose(tmp_path / "a", tmp_path / "b")
    assert (code, answer["status"], answer["cause"]) == (0, "rounding", None)
    (losses,) = (part for part in answer["parts"] if part["part"] == "losses")
    assert losses["status"] == "rounding"
    assert "(step 1)" in losses["sentence"]


def test_logs_alone(tmp_path, diagnose):
    for side, last in (("a", 2), ("b", 3)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.log").write_text(f"step 0 loss 4\nstep 1 loss {last}\n")
    code, answer, text = diagnose(tmp_path / "a", tmp_path / "b", "--quiet")
    assert (code, text) == (1, "")
    assert answer["sentence"] == "First difference: step 1; what was recorded does not show why"
    assert answer["missing"][0]["what"] == "a dump of step 1"


@pytest.mark.parametrize(
    ("output", "harms"),
    [("a", True), (".", True), ("a/dump", False), ("out", False), ("of_run", True), ("holder", True)],
)
def test_a_run_is_never_written_over(tmp_path, command_line, monkeypatch, output, harms):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_run").mkdir()
    (tmp_path / "of_run/run.rank0.json").write_text("{}")
    a = "holder/dump" if output == "holder" else "dump" if output == "." else "a"
    for side in (a, "b"):
        (tmp_path / side).mkdir(parents=True)
        (tmp_path / side / "train.log").write_text("step 0 loss 1\n")
    code, _, error = command_line("diagnose", a, "b", "-o", output)
    assert code == (2 if harms else 0)
    assert ("would be written over" in error) == harms


def test_checkpoints_alone(tmp_path, diagnose):
    import torch

    for side, value in (("a", 1.0), ("b", 1.5), ("c", 1.0)):
        (tmp_path / side).mkdir()
        torch.save({"w": torch.full((3,), value)}, tmp_path / side / "model.pt")
    code, answer, _ = diagnose(tmp_path / "a", tmp_path / "b")
    assert (code, answer["cause"]) == (1, None)
    assert answer["sentence"].startswith("The checkpoints differ: 1 of 1 parameters; what was recorded")
    assert {stage["stage"]: stage["status"] for stage in answer["stages"]}["initial weights"] == "differ"
    assert diagnose(tmp_path / "a", tmp_path / "c")[0] == 0


def test_nothing_in_common(tmp_path, capsys):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/train.log").write_text("step 0 loss 4\n")
    (tmp_path / "b/run.rank0.json").write_text(json.dumps({"notes": ["it stopped before the first step"]}))
    assert cli.main(["diagnose", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "o")]) == 2
    error = capsys.readouterr().err
    assert "nothing in common that can be compared" in error
    assert error.rstrip().endswith("has nothing: it stopped before the first step")


def test_an_earlier_diagnosis_is_replaced_and_other_files_stay(runs, diagnose, tmp_path):
    diagnose(runs(), runs("scale", 1))
    (tmp_path / "out/mine.txt").write_text("")
    diagnose(runs(), runs("none", 1))
    assert not (tmp_path / "out/graph").exists()
    assert (tmp_path / "out/mine.txt").exists()


def test_a_part_that_cannot_be_read_stops_nothing(runs, diagnose, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(runs("scale", 1), broken)
    (broken / "config_check.zip").write_bytes(b"PK no zip")
    code, answer, _ = diagnose(runs(), broken)
    assert code == 1
    assert {part["part"]: part["status"] for part in answer["parts"]}["config"] == "failed"
    assert answer["cause"]["stage"] == "operators"


def test_a_gradient_file_that_cannot_be_read_is_named(runs, diagnose, tmp_path):
    shutil.copytree(runs(), tmp_path / "b")
    shutil.rmtree(tmp_path / "b/grad_probe")
    export(runs(), tmp_path / "b/grad_probe", "npy")
    damaged = tmp_path / "b/grad_probe/rank0/step1/3.bias.npy"
    damaged.write_bytes(damaged.read_bytes()[:20])
    code, answer, out = diagnose(runs(), tmp_path / "b")
    assert code == 1
    assert answer["cause"] is None
    (missing,) = answer["not_compared"]
    assert missing["what"] == "gradients: step 1, rank 0"
    assert str(damaged) in missing["reason"]
    assert missing["reason"] in out


def test_another_number_of_processes_is_noted(runs, diagnose, tmp_path):
    shutil.copytree(runs(), tmp_path / "b")
    file = tmp_path / "b/run.rank0.json"
    file.write_text(file.read_text().replace('"world_size": "1"', '"world_size": "2"'))
    code, answer, _ = diagnose(runs(), tmp_path / "b")
    assert code == 0
    (note,) = answer["notes"]
    assert note.startswith("1 and 2 processes trained: ")
