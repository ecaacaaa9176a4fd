# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ConfigChecker inside a training program."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import zipfile
from collections import UserDict
from pathlib import Path

import pytest
import torch
from config_check_packs import DATA
from msprobe import ConfigChecker, InvalidArgument, UnsupportedError
from msprobe.config_check import checker as checker_module
from msprobe.config_check.checks.check_settings import flattened
from msprobe.config_check.collecting import tensor_measurement
from torch import nn

MAKER = DATA / "make_config_check.py"


@pytest.fixture(autouse=True)
def _no_checker_is_left():
    yield
    ConfigChecker.remove_patches()
    for one in list(checker_module._open_checkers.values()):
        one.close()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.half = nn.Linear(2, 2).half()
        self.empty = nn.Parameter(torch.zeros(0))

    def forward(self, x, **_):
        return self.linear(x)


def entries(path):
    with zipfile.ZipFile(path) as archive:
        assert len(set(archive.namelist())) == len(archive.namelist())
        return {name: archive.read(name).decode() for name in archive.namelist()}


def tree(path, name):
    return json.loads(entries(path)[name])


def run(script: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=True,
    )


class TestAgainstTheExistingTool:
    def test_inputs_and_weights_are_those_of_the_existing_tool(self, tmp_path):
        run(MAKER, tmp_path / "p.zip", "--seed", 1, "--script", DATA / "train_a.sh")
        with zipfile.ZipFile(DATA / "dyn_a.zip") as archive:
            theirs = {name: archive.read(name).decode() for name in archive.namelist()}
        ours = entries(tmp_path / "p.zip")
        assert theirs.keys() <= ours.keys()
        for name in theirs:
            if name.startswith(("dataset/", "weights/")):
                # Ours are rounded once, theirs are summed in float32.
                left, right = (dict(flattened(json.loads(side[name]))) for side in (ours, theirs))
                assert list(left) == list(right)
                texts = {key for key, value in right.items() if value == ""}
                assert texts == {key for key, value in left.items() if value == ""}
                for key in right.keys() - texts:
                    assert left[key] == pytest.approx(right[key], rel=1e-6)
        assert ours["weights/step0/rank0/weight.json"] == theirs["weights/step0/rank0/weight.json"]
        theirs_random, ours_random = (json.loads(side["random/rank0.json"]) for side in (theirs, ours))
        for name, calls in theirs_random.items():
            assert [call["count"] for call in ours_random[name]] == [call["count"] for call in calls]
            assert [len(call["stack"]) for call in ours_random[name]] == [len(c["stack"]) for c in calls]

    def test_two_processes_collect_into_one_pack(self, tmp_path):
        with zipfile.ZipFile(DATA / "ranks_a.zip") as archive:
            theirs = set(archive.namelist())
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [
            sys.executable,
            MAKER,
            tmp_path / "p.zip",
            "--world",
            "2",
            "--port",
            str(port),
            "--steps",
            "1",
        ]
        for _ in range(2):  # the second run replaces the first
            ranks = [subprocess.Popen([*command, "--rank", str(rank)]) for rank in range(2)]
            assert [rank.wait() for rank in ranks] == [0, 0]
        found = entries(tmp_path / "p.zip")
        assert theirs <= found.keys()
        for rank in range(2):
            settings = json.loads(found[f"msprobe/settings/rank{rank}.json"])
            assert settings["processes"] == {"world_size": 2, "backend": "gloo", "groups": "(0,1)"}
            assert f"random/rank{rank}.json" in found
        # one process names the run for both: none of their entries is lost, and env is there once
        assert ConfigChecker.compare(
            str(tmp_path / "p.zip"), str(tmp_path / "p.zip"), str(tmp_path / "out")
        ).agree

    def test_another_run_of_one_process_begins_anew(self, tmp_path):
        """Its rank may come from the shell, which is the parent of both."""
        script = tmp_path / "t.py"
        script.write_text(
            "import sys, torch\nfrom msprobe import ConfigChecker\n"
            "ConfigChecker(hyperparameters={'lr': sys.argv[2]}, output_zip_path=sys.argv[1])\n"
        )
        for rate in "12":
            run(script, tmp_path / "p.zip", rate, RANK="0", WORLD_SIZE="1")
        assert tree(tmp_path / "p.zip", "hyperparameters/hyperparameters_dynamic.json") == {"lr": "2"}


class TestCollecting:
    def test_every_step_up_to_the_limit(self, tmp_path):
        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"), steps=3)
        for step in range(5):
            model(torch.full((2, 4), float(step)))
            names = {name for name in entries(tmp_path / "p.zip") if name.startswith("dataset/")}
            assert len(names) == min(step + 1, 3)
        assert tree(tmp_path / "p.zip", "dataset/step2/rank0/dataset.json")["args"]["0"]["max"] == 2.0
        assert not model._forward_pre_hooks
        assert not model._forward_pre_hooks_with_kwargs

    def test_weights_and_their_fingerprints(self, tmp_path):
        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        model(torch.ones(1, 4))
        found = tree(tmp_path / "p.zip", "weights/step0/rank0/weight.json")
        assert list(found) == ["linear.weight", "linear.bias", "half.weight", "half.bias"]  # empty has none
        weight = model.linear.weight.detach()
        assert found["linear.weight"]["max"] == weight.max().item()
        assert found["linear.weight"]["mean"] == pytest.approx(weight.mean().item(), rel=1e-6)
        prints = tree(tmp_path / "p.zip", "msprobe/fingerprints/weights/step0/rank0.json")
        assert prints["empty"]["shape"] == [0]
        assert prints["half.bias"]["dtype"] == "torch.float16"
        assert len(prints["linear.weight"]["crc32"]) == 8

    def test_a_lazy_module_hides_no_other_weight(self, tmp_path):
        model = nn.Sequential(nn.Linear(4, 3), nn.LazyLinear(2))
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        for _ in range(2):
            model(torch.ones(1, 4))
        weights = [list(tree(tmp_path / "p.zip", f"weights/step{i}/rank0/weight.json")) for i in range(2)]
        assert weights == [["0.weight", "0.bias"], ["0.weight", "0.bias", "1.weight", "1.bias"]]
        prints = tree(tmp_path / "p.zip", "msprobe/fingerprints/weights/step0/rank0.json")
        assert "no value yet" in prints["1.weight"]["unmeasured"]
        assert tree(tmp_path / "p.zip", "msprobe/settings/rank0.json")["model"]["parameters"] == 15

    def test_one_changed_element_is_seen(self, tmp_path):
        for side in "ab":
            torch.manual_seed(1)
            model = Net()
            with torch.no_grad():
                if side == "b":  # the same statistics
                    model.linear.weight.copy_(model.linear.weight.flip(0))
            ConfigChecker(model, output_zip_path=str(tmp_path / f"{side}.zip"))
            model(torch.ones(1, 4))
        result = ConfigChecker.compare(
            str(tmp_path / "a.zip"), str(tmp_path / "b.zip"), str(tmp_path / "out")
        )
        (difference,) = [one.difference for one in result.ranked if one.difference.check == "weights"]
        assert "linear.weight" in difference.detail
        assert "in single elements or their order" in difference.detail

    def test_md5(self, tmp_path):
        import hashlib

        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"), checksum="md5")
        model(torch.ones(1, 4))
        prints = tree(tmp_path / "p.zip", "msprobe/fingerprints/weights/step0/rank0.json")
        expected = hashlib.md5(model.linear.weight.detach().numpy().tobytes()).hexdigest()
        assert prints["linear.weight"]["md5"] == expected
        assert prints["empty"]["md5"] == hashlib.md5(b"").hexdigest()

    def test_inputs_in_containers_that_are_no_dict(self, tmp_path):
        @dataclasses.dataclass
        class Batch:
            ids: torch.Tensor
            words: str = "text"

        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        model(torch.ones(1, 4), encoding=UserDict(ids=torch.ones(2)), batch=Batch(torch.zeros(3)))
        found = tree(tmp_path / "p.zip", "dataset/step0/rank0/dataset.json")["kwargs"]
        assert found["encoding"]["ids"]["norm"] == pytest.approx(math.sqrt(2))
        assert found["batch"]["ids"]["max"] == 0.0
        assert found["batch"]["words"] == ""

    def test_inputs_of_any_kind(self, tmp_path):
        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        deep: object = torch.ones(1)
        for _ in range(40):
            deep = [deep]
        inputs = {
            "empty": torch.zeros(0),
            "nan": torch.tensor([1.0, math.nan]),
            "inf": torch.tensor([math.inf]),
            "huge": torch.tensor([1e300], dtype=torch.float64),
            "bool": torch.tensor([True, False]),
            "long": torch.arange(5),
            "bf16": torch.ones(2, dtype=torch.bfloat16),
            "complex": torch.ones(2, dtype=torch.complex64),
            "sparse": torch.eye(3).to_sparse(),
            "meta": torch.empty(2, device="meta"),
            "strided": torch.arange(6.0).reshape(2, 3).t(),
            "dict": {1: torch.ones(1), "list": [None, "text", (torch.zeros(1),)]},
            "deep": deep,
            "number": 3,
        }
        assert model(torch.ones(1, 4), **inputs).shape == (1, 2)
        found = tree(tmp_path / "p.zip", "dataset/step0/rank0/dataset.json")["kwargs"]
        assert found["empty"] == found["number"] == found["complex"] == found["meta"] == ""
        assert math.isnan(found["nan"]["max"])
        assert found["inf"]["max"] == found["huge"]["max"] == math.inf
        assert found["bool"] == {"max": 1.0, "min": 0.0, "mean": 0.5, "norm": 1.0}
        assert found["bf16"]["norm"] == 1.4140625
        assert found["dict"]["1"]["max"] == 1.0
        assert found["dict"]["list"]["2"]["0"]["max"] == 0.0

    def test_the_training_is_not_touched(self, tmp_path):
        def train(with_checker):
            torch.manual_seed(3)
            if with_checker:
                ConfigChecker.apply_patches()
                torch.manual_seed(3)
            model = Net()
            optimizer = torch.optim.SGD([model.linear.weight], lr=0.1)
            if with_checker:
                ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
            losses = []
            for _ in range(4):
                loss = model(torch.randn(3, 4)).square().sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses, model.linear.weight.detach().clone(), torch.get_rng_state()

        plain, watched = train(False), train(True)
        assert plain[0] == watched[0]
        assert torch.equal(plain[1], watched[1])
        assert torch.equal(plain[2], watched[2])

    def test_hyperparameters_of_files_and_objects(self, tmp_path):
        path = tmp_path / "p.zip"
        ConfigChecker(
            None,
            [str(DATA / "train_a.sh"), str(DATA / "conf_a.yaml")],
            str(path),
            hyperparameters=[argparse.Namespace(lr=0.5), {"model": {"layers": 2}}],
        )
        static = tree(path, "hyperparameters/hyperparameters_static.json")
        assert static["seed"] == "42"
        assert static["train.lr"] == 0.001
        assert tree(path, "hyperparameters/hyperparameters_dynamic.json") == {"lr": 0.5, "model.layers": 2}

    def test_the_command_line_of_the_program(self, tmp_path, monkeypatch):
        original = argparse.ArgumentParser.parse_known_args
        ConfigChecker.apply_patches()
        monkeypatch.setattr(sys, "argv", ["train.py", "--lr", "0.5", "--hf-token", "s3cr3t"])
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float)
        parser.add_argument("--hf-token")
        arguments = parser.parse_args()
        parser.parse_args(["--lr", "9"])  # not the command line
        arguments.seed = 7
        ConfigChecker(None, None, str(tmp_path / "p.zip"), hyperparameters={"layers": 2})
        found = tree(tmp_path / "p.zip", "hyperparameters/hyperparameters_dynamic.json")
        assert found.pop("hf_token").startswith("<secret ")
        assert found == {"lr": 0.5, "seed": 7, "layers": 2}
        assert argparse.ArgumentParser.parse_known_args is original

    def test_a_run_against_an_earlier_one(self, tmp_path):
        for name in ("a", "b"):
            torch.manual_seed(ord(name))
            model = Net()
            checker = ConfigChecker(model, output_zip_path=str(tmp_path / f"{name}.zip"))
            model(torch.ones(1, 4))
        result = checker.compare_with(str(tmp_path / "a.zip"), str(tmp_path / "out"))
        assert result.ranked[0].difference.check == "weights"
        assert checker.compare_with(str(tmp_path / "b.zip"), str(tmp_path / "out")).agree

    def test_a_model_that_is_dropped_is_not_kept(self, tmp_path):
        import gc
        import weakref

        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        model(torch.ones(1, 4))
        reference = weakref.ref(model)
        del model
        gc.collect()
        assert reference() is None

    def test_two_checkers_do_not_meet(self, tmp_path):
        models = Net(), Net()
        for name, model in zip("ab", models):
            ConfigChecker(model, output_zip_path=str(tmp_path / f"{name}.zip"))
        models[0](torch.zeros(1, 4))
        models[0](torch.zeros(1, 4))
        models[1](torch.ones(1, 4))
        assert "dataset/step1/rank0/dataset.json" in entries(tmp_path / "a.zip")
        assert "dataset/step1/rank0/dataset.json" not in entries(tmp_path / "b.zip")
        assert tree(tmp_path / "b.zip", "dataset/step0/rank0/dataset.json")["args"]["0"]["max"] == 1.0

    def test_another_checker_for_the_same_pack_takes_its_place(self, tmp_path):
        models = Net(), Net()
        for model in models:
            ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
            model(torch.full((1, 4), 1.0 if model is models[0] else 2.0))
        models[0](torch.zeros(1, 4))
        assert tree(tmp_path / "p.zip", "dataset/step0/rank0/dataset.json")["args"]["0"]["max"] == 2.0
        assert "dataset/step1/rank0/dataset.json" not in entries(tmp_path / "p.zip")

    def test_a_list_of_models(self, tmp_path):
        model = Net()
        ConfigChecker([model], output_zip_path=str(tmp_path / "p.zip"))
        model(torch.ones(1, 4))
        assert "weights/step0/rank0/weight.json" in entries(tmp_path / "p.zip")

    def test_settings_are_those_of_the_first_step(self, tmp_path):
        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        torch.set_float32_matmul_precision("high")
        model.eval()
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                model(torch.ones(1, 4))
        finally:
            torch.set_float32_matmul_precision("highest")
        found = tree(tmp_path / "p.zip", "msprobe/settings/rank0.json")
        assert found["torch"]["get_float32_matmul_precision"] == "high"
        assert found["torch"]["autocast.cpu"] == "torch.bfloat16"
        assert found["model"]["training"] is False
        assert found["versions"]["torch"] == torch.__version__
        assert found["machine"]["cpu_flags"]

    def test_the_commit_of_the_training_code(self, tmp_path):
        script = tmp_path / "train.py"
        script.write_text(
            "import sys\nfrom msprobe import ConfigChecker\n"
            "ConfigChecker(None, None, sys.argv[1], hyperparameters={'a': 1})\n"
        )
        git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y"]
        for command in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "first"]):
            subprocess.run([*git, *command], check=True, capture_output=True)
        run(script, tmp_path / "a.zip")
        script.write_text(script.read_text() + "# changed\n")
        run(script, tmp_path / "b.zip")
        code = [tree(tmp_path / name, "msprobe/settings/rank0.json")["code"] for name in ("a.zip", "b.zip")]
        assert code[0]["diff"] == "none"
        assert code[1]["diff"] != "none"
        assert code[0]["commit"] == code[1]["commit"]
        result = ConfigChecker.compare(
            str(tmp_path / "a.zip"), str(tmp_path / "b.zip"), str(tmp_path / "out")
        )
        assert {one.difference.name for one in result.ranked} >= {"code.diff", "code.script"}

    def test_a_compiled_model_runs_in_one_graph(self, tmp_path):
        torch._dynamo.reset()
        model = Net()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        ConfigChecker(compiled, output_zip_path=str(tmp_path / "p.zip"), steps=1)
        compiled(torch.ones(1, 4))
        found = tree(tmp_path / "p.zip", "weights/step0/rank0/weight.json")
        assert "linear.weight" in found

    def test_a_model_that_was_compiled_in_place(self, tmp_path):
        torch._dynamo.reset()
        model = Net()
        model.compile(backend="eager", fullgraph=True)
        call = model._compiled_call_impl
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"), steps=2)
        expected = Net.forward(model, torch.ones(1, 4))
        for _ in range(3):
            assert torch.equal(model(torch.ones(1, 4)), expected)
        steps = [name for name in entries(tmp_path / "p.zip") if name.startswith("dataset/")]
        assert steps == [f"dataset/step{step}/rank0/dataset.json" for step in (0, 1)]
        assert "linear.weight" in tree(tmp_path / "p.zip", "weights/step1/rank0/weight.json")
        assert model._compiled_call_impl is call

    def test_a_checker_inside_a_compiled_model_breaks_nothing_and_says_what_is_missing(
        self, tmp_path, caplog
    ):
        torch._dynamo.reset()
        model = Net()
        checker = ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        compiled = torch.compile(nn.Sequential(model, nn.ReLU()), backend="eager", fullgraph=True)
        assert compiled(torch.ones(1, 4)).shape == (1, 2)
        checker.close()
        assert "no forward call of the model was seen" in caplog.text

    def test_copies_of_the_model_are_not_watched(self, tmp_path):
        import copy
        import pickle

        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        copied, loaded = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        assert b"msprobe" not in pickle.dumps(model)
        for other in (copied, loaded):
            assert other(torch.zeros(1, 4)).shape == (1, 2)
        assert "weights/step0/rank0/weight.json" not in entries(tmp_path / "p.zip")
        model(torch.ones(1, 4))
        assert tree(tmp_path / "p.zip", "dataset/step0/rank0/dataset.json")["args"]["0"]["max"] == 1.0

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.jit
    def test_a_traced_call_is_not_collected(self, tmp_path):
        model = nn.Linear(4, 2)
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        traced = torch.jit.trace(model, torch.zeros(1, 4), check_trace=False)
        assert "detach" not in str(traced.graph)
        model(torch.ones(1, 4))
        assert tree(tmp_path / "p.zip", "dataset/step0/rank0/dataset.json")["args"]["0"]["max"] == 1.0

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.jit
    def test_a_model_that_takes_no_hook(self, tmp_path, caplog):
        model = torch.jit.script(nn.Linear(4, 2))
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        assert model(torch.ones(1, 4)).shape == (1, 2)


class TestFaults:
    def test_a_fault_of_ours_is_a_warning(self, tmp_path, monkeypatch, caplog):
        monkeypatch.setattr(tensor_measurement, "measure_all", lambda *_, **__: 1 / 0)
        model = Net()
        ConfigChecker(model, output_zip_path=str(tmp_path / "p.zip"))
        for _ in range(3):
            assert model(torch.ones(1, 4)).shape == (1, 2)
        assert caplog.text.count("ZeroDivisionError") == 2  # inputs and weights, once each
        assert "msprobe/settings/rank0.json" in entries(tmp_path / "p.zip")

    def test_an_object_that_cannot_be_asked_is_a_warning(self, tmp_path, caplog):
        class Config:
            def to_dict(self):
                raise RuntimeError("no")

        ConfigChecker(output_zip_path=str(tmp_path / "[p].zip"), hyperparameters=Config())
        assert "RuntimeError: no" in caplog.text
        assert "env" in entries(tmp_path / "[p].zip")

    def test_a_pack_that_cannot_be_written_any_more(self, tmp_path, caplog):
        model = Net()
        folder = tmp_path / "folder"
        ConfigChecker(model, output_zip_path=str(folder / "p.zip"))
        (folder / "p.zip").unlink()
        folder.rmdir()
        for _ in range(3):
            assert model(torch.ones(1, 4)).shape == (1, 2)
        assert caplog.text.count("writing the pack") == 1

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"fmk": "jax"}, r"init framework adapter error, not in \['pytorch', 'mindspore'\]"),
            ({"model": 3}, "model is not torch.nn.Module/mindspore.nn.Cell or module list"),
            ({"model": []}, "model is not torch.nn.Module"),
            ({"shell_path": "a.sh"}, "shell_path should be a list of file paths"),
            ({"shell_path": ["a.py"]}, "Invalid parser type: .py"),
            ({"output_zip_path": "pack"}, "output zip path must be a string and ends with '.zip'"),
            ({"output_zip_path": None}, "output zip path must be a string"),
            ({"checksum": "sha1"}, "expected crc32 or md5, found 'sha1'"),
            ({"steps": -1}, "steps: expected"),
            ({"hyperparameters": 3}, "hyperparameters: expected"),
        ],
    )
    def test_wrong_arguments_change_nothing(self, tmp_path, monkeypatch, arguments, text):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidArgument, match=text):
            ConfigChecker(**arguments)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("nothing", [None, "", []])
    def test_no_scripts(self, tmp_path, nothing):
        ConfigChecker(shell_path=nothing, output_zip_path=str(tmp_path / "p.zip"))
        assert (tmp_path / "p.zip").is_file()

    def test_a_model_of_mindspore(self, tmp_path):
        with pytest.raises(UnsupportedError, match="mindspore"):
            ConfigChecker(object(), output_zip_path=str(tmp_path / "p.zip"), fmk="mindspore")
        ConfigChecker(output_zip_path=str(tmp_path / "p.zip"), fmk="mindspore")

    def test_wrong_framework_of_the_patches(self):
        with pytest.raises(InvalidArgument, match="init framework adapter error"):
            ConfigChecker.apply_patches("jax")


def test_the_names_of_the_existing_tool():
    from msprobe import pytorch
    from msprobe.core import config_check

    assert config_check.ConfigChecker is pytorch.ConfigChecker is ConfigChecker
