# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Launchers: msprobe run behind them, and the commands that are printed to record a run again."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msprobe.diagnose.run_folder import RunFolder
from msprobe.recording import launch
from msprobe.run.command import _parser
from recording_support import run_file

DDP = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.ones(2, 4) * (dist.get_rank() + 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


def test_what_to_try_next_runs_as_it_is_printed(tmp_path):
    """Under torchrun, with an option that torchrun must not take for its own; typed into a shell."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, module in (("torchrun", "torch.distributed.run"), ("msprobe", "msprobe")):
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        (commands / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def typed(line):
        done = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return done.returncode, done.stdout, done.stderr

    (tmp_path / "ddp train.py").write_text(DDP)
    code, _, error = typed('torchrun --nproc-per-node 2 -m msprobe run -o a --with monitor "ddp train.py"')
    assert code == 0, error
    assert error.count("msprobe: ") == 2  # what a step costs and what was recorded, from rank 0
    assert (tmp_path / "a/monitor").is_dir()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    losses = tmp_path / "b/losses.ranks.csv"
    lines = [re.sub(r"^(.),4,.*", r"\1,4,1000000.0,1", line) for line in losses.read_text().splitlines()]
    losses.write_text("\n".join(lines) + "\n")

    code, text, _ = typed("msprobe diagnose a b -o answer --json")
    assert code == 1
    printed = json.loads(text)["missing"][0]["commands"]
    assert (
        printed[1]
        == ("torchrun --nproc-per-node 2 -m msprobe run --with monitor -o b_again --steps 4 'ddp train.py'")
        or "torch.distributed.run" in printed[1]
    )
    code, _, error = typed(printed[1])
    assert code == 0, error
    assert sorted(path.name for path in (tmp_path / "b_again/dump/step4").iterdir()) == ["rank0", "rank1"]
    assert run_file(tmp_path / "b_again", 1)["world_size"] == "2"


# Options of launchers that begin as ours do, or have the names of ours. accelerate 1.15, deepspeed 0.19.
_OTHERS = {
    "accelerate": "--config_file --config-file --monitor_interval --monitor-interval --module "
    "--mixed_precision --mixed-precision --log_dir --log-dir --same_network --same-network --quiet --cpu "
    "--offload_param_device --offload_optimizer_device --fp8_format --fsdp_version",
    "deepspeed": "--force_multi --quiet --module --master_port --master_addr --log_level --launcher "
    "--launcher_args --save_pid --ssh_port --num_nodes --num_gpus --no_python --no_ssh --no_ssh_check",
}


class TestOptionsOfLaunchers:
    @pytest.mark.parametrize("command", ["run", "perturb"])
    def test_torchrun_takes_none_of_ours_for_its_own(self, command):
        from torch.distributed.run import get_args_parser

        options = [name for action in _parser(command)._actions for name in action.option_strings]
        assert {"--with", "--steps", "--level"} <= set(options)
        for option in options:
            words = ["msprobe", command, option, "train.py"]
            if option == "--monitor":  # an older name, which needs `-m --`
                continue
            read = get_args_parser().parse_args(["--nproc-per-node", "2", "-m", *words])
            assert [read.training_script, *read.training_script_args] == words

    @pytest.mark.parametrize("launcher", _OTHERS)
    def test_no_option_that_is_shown_is_short_for_two_of_a_launcher(self, launcher):
        """argparse refuses such a word, also behind the script."""
        shown = [
            name
            for action in _parser("run")._actions
            if action.help != "==SUPPRESS=="
            for name in action.option_strings
        ]
        for option in shown:
            meant = [other for other in _OTHERS[launcher].split() if other.startswith(option)]
            assert len(meant) < 2 or option in meant, (option, meant)


class TestWordsBeforeRun:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("{python} {bin}/torchrun --nproc-per-node 2 -m msprobe run -o a t.py",
             "{bin}/torchrun --nproc-per-node 2 -m msprobe"),
            ("python -m torch.distributed.run --nproc-per-node 2 -m -- msprobe run t.py",
             "python -m torch.distributed.run --nproc-per-node 2 -m -- msprobe"),
            ("{python} {bin}/accelerate launch --num_processes 2 -m msprobe run t.py",
             "{bin}/accelerate launch --num_processes 2 -m msprobe"),
            ("mpirun -n 2 msprobe run t.py", "mpirun -n 2 msprobe"),
        ],
    )  # fmt: skip
    def test_of_a_launcher(self, monkeypatch, tmp_path, line, expected):
        for name in ("torchrun", "accelerate"):
            (tmp_path / name).touch()
        names = {"python": "/opt/bin/python3.11", "bin": str(tmp_path)}
        lines = [
            ["bash", "job.sh"],
            line.format(**names).split(),
            ["timeout", "9", *line.format(**names).split()],
        ]
        monkeypatch.setattr(launch, "_lines_of_ancestors", lambda: lines[:2])
        found = launch.words_before_run()
        assert [os.path.basename(found[0]), *found[1:]] == [
            os.path.basename(expected.format(**names).split()[0]), *expected.format(**names).split()[1:]
        ]  # fmt: skip

    def test_without_proc_the_environment_tells(self, monkeypatch):
        monkeypatch.setattr(launch, "_lines_of_ancestors", list)
        monkeypatch.setenv("WORLD_SIZE", "16")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
        assert launch.words_before_run() == [
            "torchrun",
            "--nnodes",
            "2",
            "--nproc-per-node",
            "8",
            "-m",
            "msprobe",
        ]

    def test_a_run_of_an_earlier_version_is_started_by_torchrun_where_it_had_several_processes(self):
        run = RunFolder(Path("a"), program=["train.py", "--lr", "0.1"], processes=2)
        assert run.command("b") == "torchrun --nproc-per-node 2 -m msprobe run -o b train.py --lr 0.1"
        assert run.training == ["torchrun", "--nproc-per-node", "2", "train.py", "--lr", "0.1"]
        alone = RunFolder(Path("a"), program=["-m", "pkg.train"])
        assert alone.command("b", "--steps", "4") == "msprobe run -o b --steps 4 -m pkg.train"
        assert alone.training == ["python", "-m", "pkg.train"]

    def test_it_goes_to_the_folder_where_the_run_was_started(self, tmp_path):
        run = RunFolder(Path("a"), program=["train.py"], folder=str(tmp_path))
        assert run.command("a_again") == f"cd {tmp_path} && msprobe run -o {os.getcwd()}/a_again train.py"
        gone = RunFolder(Path("a"), program=["train.py"], folder="/not/here")
        assert gone.command("a_again") == "msprobe run -o a_again train.py"
