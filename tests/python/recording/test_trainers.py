# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Unchanged scripts that hand their training to transformers or Lightning (examples/real_models). Run where
these are installed.
"""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from exported_gradients import exported_gradients
from msprobe.files.loss_files import losses_of
from msprobe.files.regular_file import read_text
from recording_support import REPOSITORY, python, run_file

FOLDER = REPOSITORY / "examples" / "real_models"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")

needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None or find_spec("accelerate") is None,
    reason="needs transformers, accelerate",
)
needs_lightning = pytest.mark.skipif(
    find_spec("transformers") is None or not (find_spec("lightning") or find_spec("pytorch_lightning")),
    reason="needs transformers and lightning",
)


def exact(text):
    """The lines with exact numbers; others have times. Processes print in any order."""
    return sorted(line for line in text.splitlines() if line.startswith(("loss", "weights", "rank")))


def diagnosis(folder, step, rank=""):
    return json.loads(read_text(folder / f"dump/step{step}/rank{rank}/diagnosis.json"))


def trainings(words, tmp_path, launcher=()):
    """(what it printed with msprobe, what without)"""
    run = ("-m", "msprobe", "run", "-o", str(tmp_path / "out"))
    results = []
    for before, folder in ((run, "with"), ((), "without")):
        done = python(
            *launcher, *before, *words, "--folder", tmp_path / folder, cwd=FOLDER, OMP_NUM_THREADS="1"
        )
        assert done.returncode == 0, done.stderr[-3000:]
        results.append(exact(done.stdout))
    return results


def check(folder, *, model, rank="", ranks=1):
    """Steps of two micro steps, each with all that belongs to it."""
    gradients = exported_gradients(folder)
    for number in range(ranks):
        about = run_file(folder, number)
        assert (about["models"][0]["class"], about["steps"], about["optimizer_steps"]) == (model, 3, 3)
        assert (about["optimizers"], about["notes"], about["outcome"]) == (["AdamW"], [], "ended")
        assert len(losses_of(folder)[number]) == 3
        for step in range(3):
            found = diagnosis(folder, step, number if rank else "")
            assert found["faults"] == []
            assert [len(found[part]) for part in ("inputs", "backward", "clipping")] == [2, 2, 1]
            assert [len(found[part]) for part in ("gradients_at_optimizer", "optimizer")] == [1, 1]
            record = gradients / f"rank{number}/grad_summary_{step}.csv"
            assert len(record.read_text().splitlines()) == 22


@needs_transformers
class TestTransformers:
    @pytest.mark.parametrize("words", [("hf_trainer.py",), ("-m", "hf_trainer")])
    def test_accumulation_evaluation_and_checkpoints(self, tmp_path, words):
        with_msprobe, without = trainings(words, tmp_path)
        assert with_msprobe == without
        assert len(without) == 4
        check(tmp_path / "out", model="LlamaForCausalLM")
        assert (tmp_path / "with/checkpoint-2/model.safetensors").exists()

    def test_two_processes(self, tmp_path):
        with_msprobe, without = trainings(("hf_trainer.py",), tmp_path, TORCHRUN)
        assert with_msprobe == without
        check(tmp_path / "out", model="LlamaForCausalLM", rank="0", ranks=2)

    @pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
    def test_two_processes_of_a_loop_of_its_own(self, tmp_path, parallel):
        run = (*TORCHRUN, "-m", "msprobe", "run", "-o", str(tmp_path / "out"))
        words = ("train.py", "llama", "--steps", "2", "--parallel", parallel)
        with_msprobe, without = (
            python(*launcher, *words, cwd=FOLDER, OMP_NUM_THREADS="1") for launcher in (run, TORCHRUN)
        )
        assert with_msprobe.returncode == 0, with_msprobe.stderr[-3000:]
        assert exact(with_msprobe.stdout) == exact(without.stdout)
        assert len(exact(without.stdout)) == 6
        for rank in (0, 1):
            about = run_file(tmp_path / "out", rank)
            assert (about["steps"], about["notes"]) == (2, [])
            data = read_text(tmp_path / f"out/dump/step1/rank{rank}/dump.json")
            assert "model.layers.1.mlp.down_proj.Linear.forward.0" in data


@needs_lightning
class TestLightning:
    def test_accumulation_validation_and_checkpoints(self, tmp_path):
        with_msprobe, without = trainings(("lightning_trainer.py",), tmp_path)
        assert with_msprobe == without
        assert len(without) == 7
        check(tmp_path / "out", model="LlamaForCausalLM")

    def test_two_processes(self, tmp_path):
        words = ("lightning_trainer.py", "--devices", "2")
        with_msprobe, without = trainings(words, tmp_path, TORCHRUN)
        assert with_msprobe == without
        check(tmp_path / "out", model="Language", rank="0", ranks=2)
