# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run: the script does as without, and is recorded."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest
from exported_gradients import exported_gradients
from msprobe.files.loss_files import losses_of
from msprobe.files.regular_file import is_there, read_text
from recording_support import BEGINNING, PLAIN, REPOSITORY, python, recorded, run_file


@pytest.fixture
def script(tmp_path):
    """script(text) -> path of a file with it."""

    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


class TestAsWithout:
    def test_results_arguments_and_paths_are_the_same(self, script, tmp_path):
        script(PLAIN)
        words = ("train.py", "-f", "pytorch", "--framework=x", "-o", "y")
        plain = python(*words, cwd=tmp_path)
        run = recorded(*words, cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, plain.stdout)
        assert "recorded: losses, " in run.stderr
        assert sorted(path.name for path in (tmp_path / "out/dump").iterdir()) == ["step0", "step1", "step2"]
        assert (exported_gradients(tmp_path / "out") / "rank0/grad_summary_2.csv").exists()
        lines = (tmp_path / "out/losses.rank0.csv").read_text().splitlines()
        assert [float(line.split(",")[1]).hex() for line in lines[1:]] == [
            line.split()[1] for line in plain.stdout.splitlines()[:5]
        ]
        about = run_file(tmp_path / "out")
        assert (about["steps"], about["optimizers"], about["outcome"]) == (5, ["AdamW"], "ended")
        assert about["models"] == [{"class": "Sequential", "parameters": 212}]

    def test_a_module(self, script, tmp_path):
        (tmp_path / "package").mkdir()
        script(PLAIN, "package/__main__.py")
        for name in ("package", "package.__main__"):
            plain = python("-m", name, "-m", "--steps", cwd=tmp_path)
            run = recorded("--force", "-m", name, "-m", "--steps", cwd=tmp_path)
            assert (run.returncode, run.stdout) == (0, plain.stdout)

    @pytest.mark.parametrize(
        "end",
        [
            "sys.exit(7)",
            "sys.exit('a text')",
            "sys.exit()",
            "model(torch.randn(3, 3))",  # outside of a recorded step
            "sys.excepthook = lambda *all: print('hook', all[0].__name__); raise ValueError from KeyError(1)",
            "import atexit, time; atexit.register(print, 'at exit'); os.kill(os.getpid(), 2); time.sleep(9)",
        ],
    )
    def test_the_end_of_a_script(self, script, tmp_path, end):
        script(BEGINNING + "train(2)\n" + end + "\n")
        plain = python("train.py", cwd=tmp_path)
        run = recorded("--quiet", "--steps", "0", "train.py", cwd=tmp_path)
        assert (run.returncode, run.stdout, run.stderr) == (plain.returncode, plain.stdout, plain.stderr)
        assert run_file(tmp_path / "out")["steps"] == 2 + end.startswith("model")  # that have begun

    def test_a_crash_inside_of_a_recorded_step(self, script, tmp_path):
        script(BEGINNING + "train(1)\nmodel(torch.randn(3, 3))\n")
        plain = python("train.py", cwd=tmp_path)
        run = recorded("--quiet", "train.py", cwd=tmp_path)
        assert run.returncode == 1
        # Frames of torch between those of the script are those of a call that is watched.
        ends = [(lines[:3], lines[-1]) for lines in (run.stderr.splitlines(), plain.stderr.splitlines())]
        assert ends[0] == ends[1]
        assert "msprobe" not in run.stderr.replace(str(tmp_path), "")
        assert run_file(tmp_path / "out")["outcome"] == "RuntimeError"
        assert is_there(tmp_path / "out/dump/step1/rank/dump.json")

    def test_an_interrupt_inside_of_a_recorded_step(self, script, tmp_path):
        script(
            BEGINNING
            + "train(1)\ncriterion(model(torch.ones(2, 8)), torch.zeros(2, dtype=int))\nos.kill(0, 2)\n"
        )
        plain, run = (
            subprocess.run(
                [sys.executable, *before, "train.py"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=300,
                start_new_session=True,  # the signal goes to the group
            )
            for before in ((), ("-m", "msprobe", "run", "--quiet", "-o", "out"))
        )
        assert (run.returncode, run.stdout) == (plain.returncode, plain.stdout)
        assert run.returncode == -signal.SIGINT
        assert run.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1] == "KeyboardInterrupt"
        about = run_file(tmp_path / "out")
        assert (about["outcome"], about["steps"]) == ("interrupted", 2)
        for step, call in ((0, "Module.2.Linear.backward.0"), (1, "Module.2.Linear.forward.0")):
            data = json.loads(read_text(tmp_path / f"out/dump/step{step}/rank/dump.json"))["data"]
            assert call in data
            assert is_there(tmp_path / f"out/dump/step{step}/rank/diagnosis.json")
        assert len((tmp_path / "out/losses.rank0.csv").read_text().splitlines()) == 2
        assert (exported_gradients(tmp_path / "out") / "rank0/grad_summary_0.csv").exists()
        assert zipfile.is_zipfile(tmp_path / "out/config_check.zip")

    @pytest.mark.parametrize("words", [("broken.py",), ("-m", "no_such_module")])
    def test_what_does_not_start(self, script, tmp_path, words):
        script("def (:\n", "broken.py")
        plain = python(*words, cwd=tmp_path)
        run = recorded("--quiet", *words, cwd=tmp_path)
        assert run.returncode == plain.returncode == 1
        if words[0] == "broken.py":
            assert run.stderr == plain.stderr

    def test_torch_is_not_imported_for_a_script_without(self, script, tmp_path):
        script("import sys; print('torch' in sys.modules, sys.argv)")
        run = recorded("train.py", "a", cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, "False ['train.py', 'a']\n")
        assert not (tmp_path / "out/dump").exists()


class TestTrainings:
    def test_no_model(self, script, tmp_path):
        script("import torch; w = torch.ones(2, requires_grad=True); (w * 2).sum().backward(); print(w.grad)")
        run = recorded("train.py", cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, "tensor([2., 2.])\n")
        assert "no model was trained" in run.stderr
        assert run_file(tmp_path / "out")["notes"] == ["no model was called in training"]

    def test_two_models_and_two_optimizers(self, script, tmp_path):
        script(
            """
import torch
from torch import nn
torch.manual_seed(1)
class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.inner = nn.Parameter(torch.ones(3)), nn.Linear(3, 5)
    def forward(self, x): return self.inner(x * self.weight)
class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.score = nn.Parameter(torch.ones(5)), nn.Linear(5, 1)
    def forward(self, x): return self.score(x * self.weight)
g, d = G(), D()
of_g, of_d = torch.optim.SGD(g.parameters(), lr=0.1), torch.optim.Adam(d.parameters(), lr=0.1)
for step in range(3):
    loss = d(g(torch.randn(4, 3))).square().mean()
    for optimizer in (of_g, of_d): optimizer.zero_grad()
    loss.backward()
    of_d.step(); of_g.step()
    print(loss.item())
"""
        )
        run = recorded("--steps", "all", "train.py", cwd=tmp_path)
        assert run.stdout == python("train.py", cwd=tmp_path).stdout
        about = run_file(tmp_path / "out")
        assert [model["class"] for model in about["models"]] == ["G", "D"]
        assert (about["steps"], about["optimizer_steps"]) == (3, 6)
        text = (exported_gradients(tmp_path / "out") / "rank0/grad_summary_0.csv").read_text()
        assert "G.weight" in text
        assert "D.weight" in text
        for step in range(3):
            data = read_text(tmp_path / f"out/dump/step{step}/rank/dump.json")
            assert "Module.inner.Linear.forward.0" in data
            assert "Module.D.score.Linear.forward.0" in data

    def test_a_closure_evaluation_first_and_a_changed_folder(self, script, tmp_path):
        script(
            """
import os, torch
from torch import nn
torch.manual_seed(1)
model = nn.Linear(3, 1)
with torch.no_grad(): model(torch.ones(1, 3))
os.makedirs("elsewhere"); os.chdir("elsewhere")
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
x = torch.randn(5, 3)
def closure():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss
for step in range(2): print(optimizer.step(closure).item())
"""
        )
        run = recorded("train.py", cwd=tmp_path)
        os.rmdir(tmp_path / "elsewhere")
        assert run.stdout == python("train.py", cwd=tmp_path).stdout
        about = run_file(tmp_path / "out")
        assert (about["steps"], about["optimizers"]) == (2, ["LBFGS"])

    def test_a_model_that_is_trained_in_evaluation_mode(self, script, tmp_path):
        script(
            BEGINNING.replace(
                "optimizer =", "model.eval(); model.train = lambda mode=True: model; optimizer ="
            )
            + "train(3)"
        )
        run = recorded("train.py", cwd=tmp_path)
        assert run.returncode == 0
        about = run_file(tmp_path / "out")
        assert "evaluation mode counts" in about["notes"][0]
        assert about["steps"] == 2

    def test_a_compiled_model_is_not_broken_into_pieces(self, script, tmp_path):
        script(
            """
import torch
from torch import nn
from torch._dynamo.utils import counters
torch.manual_seed(1)
inner = nn.Sequential(nn.Linear(4, 4), nn.GELU())
model = torch.compile(inner, backend="aot_eager", fullgraph=True)
optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]))
"""
        )
        run = recorded("--steps", "0-1", "train.py", cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, python("train.py", cwd=tmp_path).stdout)
        assert run_file(tmp_path / "out")["notes"] == []
        assert is_there(tmp_path / "out/dump/step1/rank/diagnosis.json")

    def test_a_fork(self, script, tmp_path):
        script(
            BEGINNING
            + """
torch.set_num_threads(1)  # the pool of OpenMP does not survive a fork
from torch.utils.data import DataLoader
for batch in DataLoader([torch.ones(8)] * 4, batch_size=2, num_workers=1):
    criterion(model(batch), torch.zeros(2, dtype=int))
pid = os.fork()
train(2)
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
"""
        )
        run = recorded("train.py", cwd=tmp_path)
        assert run.returncode == 0
        assert run_file(tmp_path / "out")["steps"] == 2

    def test_a_killed_process_leaves_what_it_had(self, script, tmp_path):
        script(BEGINNING + "train(3)\nprint('there', flush=True)\nimport time; time.sleep(100)\n")
        command = [sys.executable, "-m", "msprobe", "run", "-o", "out", "train.py"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert any("there" in line for line in iter(process.stdout.readline, ""))
            end = time.monotonic() + 60
            while not is_there(tmp_path / "out/dump/step1/rank/summary.json"):  # it comes while step 2 runs
                assert time.monotonic() < end
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        assert is_there(tmp_path / "out/dump/step1/rank/dump.json")
        assert (tmp_path / "out/dump/step2/rank/trace.msprobe").exists()
        assert len((tmp_path / "out/losses.rank0.csv").read_text().splitlines()) == 3  # one step late
        assert run_file(tmp_path / "out")["outcome"] == "running"

    def test_processes_of_torchrun(self, script, tmp_path):
        script(
            """
import os, torch
from torch import nn, distributed
from torch.nn.parallel import DistributedDataParallel
distributed.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    loss = model(torch.randn(4, 3) + distributed.get_rank()).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
distributed.destroy_process_group()
"""
        )
        run = python(
            *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "msprobe"),
            *("run", "-o", "out", "--steps", "0", "train.py"),
            cwd=tmp_path,
            OMP_NUM_THREADS="1",
        )
        assert run.returncode == 0, run.stderr
        assert sorted(path.name for path in (tmp_path / "out/dump/step0").iterdir()) == ["rank0", "rank1"]
        gradients = exported_gradients(tmp_path / "out")
        for rank in (0, 1):
            assert run_file(tmp_path / "out", rank)["steps"] == 2
            summary = gradients / f"rank{rank}/grad_summary_0.csv"
            with summary.open(encoding="utf-8-sig") as file:
                assert [row["param_name"] for row in csv.DictReader(file)] == ["weight", "bias"]
            assert run_file(tmp_path / "out", rank)["models"][0]["class"] == "Linear"
            assert run_file(tmp_path / "out", rank)["recorded"]["losses"] == "losses.ranks.csv"
        assert {rank: len(losses) for rank, losses in losses_of(tmp_path / "out").items()} == {0: 2, 1: 2}
        names = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*")}
        of_ranks = ("run.rank{}.json", "dump/step0/rank{}/step.zip", "grad_probe/rank{}/gradients.msprobe")
        assert names == {"losses.ranks.csv", "config_check.zip"} | {
            name.format(rank) for name in of_ranks for rank in (0, 1)
        }


class TestFaultsOfOurs:
    def test_a_folder_that_cannot_be_made(self, script, tmp_path):
        script(PLAIN)
        (tmp_path / "file").write_text("")
        run = python("-m", "msprobe", "run", "-o", "file/out", "train.py", cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, python("train.py", cwd=tmp_path).stdout)
        assert "nothing is recorded" in run.stderr

    def test_a_recorder_that_fails(self, script, tmp_path):
        script(
            """
import msprobe.grad_probe.probe as probe, msprobe.dump.data_dump as dump, msprobe.recorders as recorders
def fail(*_): raise KeyError("ours")
recorders._Losses.begin_step = property(fail)  # not even to be asked for
probe.Probe.monitor = fail
dump.DataDump.stop = fail
"""
            + PLAIN
        )
        run = recorded("train.py", cwd=tmp_path)
        plain = python("train.py", cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, plain.stdout)
        notes = "\n".join(run_file(tmp_path / "out")["notes"])
        assert "gradient probe: models found: KeyError: 'ours': not recorded any more" in notes
        assert "data dump: end step: KeyError" in notes
        assert "losses: begin step: KeyError" in notes
        assert run_file(tmp_path / "out")["steps"] == 5

    def test_a_msprobe_that_was_built_without_torch_records_through_python(self, script, tmp_path):
        script("import msprobe.native\nmsprobe.native.core.built_with_torch = None\n" + PLAIN)
        run = recorded("train.py", cwd=tmp_path)
        assert (run.returncode, run.stdout) == (0, python("train.py", cwd=tmp_path).stdout)
        assert "this msprobe was built without torch" in run.stderr
        assert {"losses", "gradients", "dump"} <= set(run_file(tmp_path / "out")["recorded"])


class TestEnvironmentVariable:
    @pytest.fixture
    def site(self, tmp_path):
        """The beginning of a program whose site-packages hold msprobe.pth."""
        (tmp_path / "site").mkdir()
        (tmp_path / "site/msprobe.pth").write_text((REPOSITORY / "python/msprobe.pth").read_text())
        return f"import site; site.addsitedir({str(tmp_path / 'site')!r})\n"

    def test_a_script_started_otherwise(self, site, script, tmp_path):
        script(site + PLAIN)
        (tmp_path / "c.yaml").write_text("dump_path: out\nstep: [1]\nlevel: L0\n")
        plain = python("train.py", cwd=tmp_path)
        run = python("train.py", cwd=tmp_path, MSPROBE_CONFIG="c.yaml")
        assert (run.returncode, run.stdout) == (0, plain.stdout)
        assert [path.name for path in (tmp_path / "out/dump").iterdir()] == ["step1"]
        again = python("train.py", cwd=tmp_path, MSPROBE_CONFIG="c.yaml")
        assert (again.returncode, again.stdout) == (0, plain.stdout)
        assert "expected a folder of its own for each run" in again.stderr

    def test_a_pth_file_that_is_read_twice(self, site, script, tmp_path):
        script(site + site + "import torch; print('runs')")
        run = python("train.py", cwd=tmp_path, MSPROBE_CONFIG="absent.yaml")
        assert (run.returncode, run.stdout) == (0, "runs\n")
        assert run.stderr.count("MSPROBE_CONFIG has no effect") == 1

    def test_msprobe_run_goes_its_own_way(self, site, script, tmp_path):
        """Both wait for the import of torch."""
        script(PLAIN)
        (tmp_path / "c.yaml").write_text("dump_path: other\n")
        begin = site + "from msprobe.cli import main; exit(main(['run', '-o', 'out', 'train.py']))"
        plain = python("train.py", cwd=tmp_path)
        run = python("-c", begin, cwd=tmp_path, MSPROBE_CONFIG="c.yaml")
        assert (run.returncode, run.stdout) == (0, plain.stdout)
        assert run_file(tmp_path / "out")["steps"] > 0
        assert not (tmp_path / "other").exists()

    def test_unset_nothing_of_msprobe_is_imported(self, site, script, tmp_path):
        script(site + "import sys; print([name for name in sys.modules if name.split('.')[0] == 'msprobe'])")
        assert python("train.py", cwd=tmp_path).stdout == "[]\n"

    def test_a_wrong_file_is_said_and_the_program_runs(self, site, script, tmp_path):
        script(site + "import torch; print('runs')")
        run = python("train.py", cwd=tmp_path, MSPROBE_CONFIG="absent.yaml")
        assert (run.returncode, run.stdout) == (0, "runs\n")
        assert "MSPROBE_CONFIG has no effect: absent.yaml" in run.stderr


class TestCommandLine:
    @pytest.mark.parametrize(
        ("words", "text"),
        [
            ((), "expected a script, or -m and a module"),
            (("-m",), "expected a module after -m"),
            (("absent.py",), "absent.py does not exist; expected a Python script"),
            (("--steps", "2-1", "x.py"), "from the smaller to the larger"),
            (("--level", "L9", "x.py"), "--level: expected L0, L1 or mix, found 'L9'"),
            (("--config", "x.txt", "x.py"), "that ends in .json, .yaml or .yml"),
            (("--frobnicate", "x.py"), 'unknown option "--frobnicate"'),
        ],
    )
    def test_wrong(self, words, text, command_line):
        code, _, error = command_line("run", *words)
        assert code == 2
        assert text in error
        assert error.count("\n") == 1

    def test_an_earlier_run_is_kept_without_force(self, script, tmp_path):
        script(BEGINNING + "train(1)")
        begin = time.time()
        assert recorded("train.py", cwd=tmp_path).returncode == 0
        (tmp_path / "out/mine.txt").write_text("")
        again = recorded("train.py", cwd=tmp_path)
        assert (again.returncode, again.stdout) == (2, "")
        assert "there is a run already" in again.stderr
        assert recorded("--force", "--without", "dump", "train.py", cwd=tmp_path).returncode == 0
        assert not (tmp_path / "out/dump").exists()
        assert (tmp_path / "out/mine.txt").exists()
        assert time.time() > begin
