# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hyper-parameters of launch scripts, files of settings and objects; nothing is executed."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import json
import pathlib
import random
import sys
import time
import types
from typing import Any

import pytest
from config_check_packs import DATA
from msprobe import FormatError, InvalidArgument
from msprobe.config_check.collecting.hyperparameters import check_paths, of_files, of_megatron, of_objects
from msprobe.config_check.collecting.shell_script import launch_options

# Each line is nine times the one before it.
BILLIONS = "a: &a [[x]]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefghi", "bcdefghij")
)
MERGED_BILLIONS = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{name}: &{name} {{<<: [{','.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefghi", "bcdefghij")
)


def files(tmp_path, text, suffix):
    path = tmp_path / f"file{suffix}"
    path.write_text(text)
    return of_files([path])


class TestShell:
    def test_the_scripts_of_the_existing_tool(self):
        """But for --seed=42, which is `true` there."""
        assert launch_options((DATA / "train_a.sh").read_text()) == {
            "nproc_per_node": "8", "num-layers": "4", "hidden-size": "16", "lr": "0.001", "bf16": True,
            "data-path": "/data/text", "batch-size": "32", "clip": "-1.5", "seed": "42", "epochs": "3",
            "wd": "0.1", "save": "./ckpt",
        }  # fmt: skip
        assert launch_options((DATA / "train_b.sh").read_text()) == {
            "nproc_per_node": "8", "num-layers": "4", "hidden-size": "32", "lr": "0.002", "bf16": "false",
            "num_epochs": "3", "weight_decay": "0.1", "adam-beta1": "0.9", "saves": "./ckpt",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("script", "options"),
        [
            ("torchrun t.py --seed=42", {"seed": "42"}),
            ("torchrun t.py --flash --experts 8", {"flash": True, "experts": "8"}),
            ("torchrun t.py --a 1 2 3 --b", {"a": "1 2 3", "b": True}),
            ("torchrun t.py --a 'x y' --b \"p q\" --c x\\ y", {"a": "x y", "b": "p q", "c": "x y"}),
            ("python train.py --lr 1", {"lr": "1"}),
            ("python3.11 -u train.py --lr 1", {"lr": "1"}),
            ("python -m torch.distributed.run train.py --lr 1", {"lr": "1"}),
            ("accelerate launch train.py --lr 1", {"lr": "1"}),
            ("deepspeed --num_gpus 2 train.py --lr 1", {"num_gpus": "2", "lr": "1"}),
            ("CUDA_VISIBLE_DEVICES=0 nohup torchrun t.py --lr 1 > log 2>&1 &", {"lr": "1"}),
            ("python prepare.py --x 1\ntorchrun t.py --lr 1", {"lr": "1"}),
            ("python prepare.py\npython train.py --lr 1\npython eval.py", {"lr": "1"}),
            ("torchrun t.py --lr 1\necho --other 3", {"lr": "1"}),
            ("torchrun t.py --lr 1; rm -rf --no-preserve-root /", {"lr": "1"}),
            ("if true; then\n  torchrun t.py --lr 1\nfi", {"lr": "1"}),
            ("LR=1\nMYLR=2\ntorchrun t.py --lr $LR", {"lr": "1"}),
            ("A=1\nA=2\ntorchrun t.py --a $A\nA=3", {"a": "2"}),
            ("torchrun t.py --a ${A:-5} --b ${B}", {"a": "5", "b": "${B}"}),
            ("X_ARGS='--a 1'\nX_ARGS+=' --b 2'\ntorchrun t.py ${X_ARGS}", {"a": "1", "b": "2"}),
            ("M=(--a 1 # no\n --b 2)\ntorchrun t.py ${M[@]} --c", {"a": "1", "b": "2", "c": True}),
            ("M=(--a 'x y')\nM+=(--b 2)\ntorchrun t.py \"${M[@]}\"", {"a": "x y", "b": "2"}),
            ("ARGS='--a 1'\nCMD=\"torchrun t.py $ARGS\"\neval $CMD", {"a": "1"}),
            ("torchrun t.py --a 1 \\\n  --b 2 \\\n# off --c 3\n", {"a": "1", "b": "2"}),
            ("torchrun t.py --a 1 --a 2", {"a": "2"}),
            ("torchrun t.py --url http://x#y --n -1e-3", {"url": "http://x#y", "n": "-1e-3"}),
            ("torchrun t.py --a \"$(date; reboot)\" --b `id -u` --c $((2 * 3))",
             {"a": "$(date; reboot)", "b": "`id -u`", "c": "$((2 * 3))"}),
            ("OUT=$(mktemp -d /x)\ntorchrun t.py --out $OUT", {"out": "$(mktemp -d /x)"}),
            ("echo hello --a 1", {}),
            ("pip install deepspeed --upgrade\npython train.py --lr 1", {"lr": "1"}),
            ("python -m pip install deepspeed --upgrade\npython train.py --lr 1", {"lr": "1"}),
            ("which torchrun || exit 1\ntorchrun t.py --lr 1", {"lr": "1"}),
            ("command -v torchrun\ntorchrun $1 --lr 1", {"lr": "1"}),
            ("if x; then echo torchrun t.py --no 1; fi\ntorchrun t.py --lr 1", {"lr": "1"}),
            ("pkill -f torchrun --signal 9\ntorchrun t.py --lr 1", {"lr": "1"}),
            ("cat <<-'EOF' > x\n torchrun t.py --no 1 it's\n\tEOF\ntorchrun t.py --lr 1", {"lr": "1"}),
            ("LR=1\nsbatch <<EOF\nsrun --gpus 2 python -u t.py --lr $LR\nEOF\n", {"gpus": "2", "lr": "1"}),
            ("cat <<< torchrun\ntorchrun t.py --lr 1", {"lr": "1"}),
            ("ssh host 'cd x && torchrun t.py --lr 1'", {"lr": "1"}),
            ('docker run --rm image bash -c "torchrun t.py --lr 1"', {"lr": "1"}),
            ('CMD="torchrun t.py --lr 1"\neval "$CMD"', {"lr": "1"}),
            ("uv run train.py --lr 1", {"lr": "1"}),
            ("\ufefftorchrun t.py --lr 1 \\\r\n  --b 2\r\n", {"lr": "1", "b": "2"}),
            ("", {}),
        ],
    )  # fmt: skip
    def test_options(self, script, options):
        assert launch_options(script) == options

    @pytest.mark.parametrize(
        "script",
        ["torchrun t.py --a 'x --b 2\n", 'torchrun t.py --a "x --b 2\n', "torchrun t.py --a `x",
         "torchrun t.py $(", 'torchrun t.py --a "`b"`\\',
         "torchrun t.py --a ${X", "M=(--a 1", "torchrun t.py --a \\", '"', "'", "((((",
         "))", "\\", "${", "$", "A=(",
         'torchrun "a\\', "<<<<", "> ", "2>"],
    )  # fmt: skip
    def test_what_is_not_closed_ends_somewhere(self, script):
        launch_options(script)
        launch_options("torchrun t.py --lr 1\n" + script)

    def test_an_open_quote_does_not_hide_the_lines_after_it(self):
        assert launch_options("echo 'it is open\ntorchrun t.py --lr 1")["lr"] == "1"

    def test_nothing_is_executed(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        launch_options("touch a; $(touch b)\n`touch c`\ntorchrun t.py --x $(touch d) --y `touch e`")
        assert list(tmp_path.iterdir()) == []

    def test_variables_that_double(self):
        script = (
            "A=xxxxxxxxxx\n" + "".join(f"A=$A$A$A$A$A$A$A$A # {i}\n" for i in range(30)) + "torchrun t.py $A"
        )
        with pytest.raises(FormatError, match="variables grow"):
            launch_options(script)
        script = "A=(1 2 3)\n" + "A=(${A[@]} ${A[@]})\n" * 40 + "torchrun t.py --a ${A[@]}"
        with pytest.raises(FormatError):
            launch_options(script)

    def test_words_that_are_many_times_the_script(self):
        for use in ('"$A" ', "$A "):
            with pytest.raises(FormatError, match="expected commands of at most"):
                launch_options("A='" + "x y " * 50_000 + "'\ntorchrun t.py " + use * 50_000)
        with pytest.raises(FormatError, match="expected a script of at most"):
            launch_options("torchrun t.py " + "x" * (1 << 20))

    @pytest.mark.parametrize("piece", ["${", "a'b'", '"\\"\n', "$(", "`", "A=("])
    def test_long_scripts_take_time_by_their_length(self, piece):
        begin = time.process_time()
        with contextlib.suppress(RecursionError):
            launch_options("torchrun t.py --a " + piece * 40_000)
        assert time.process_time() - begin < 5

    def test_random_scripts(self):
        source = random.Random(1)
        pieces = [
            "torchrun ",
            "t.py ",
            "--a ",
            "b=c ",
            "'",
            '"',
            "$",
            "{",
            "}",
            "(",
            ")",
            "`",
            "\\",
            "\n",
            "#",
            ";",
            "|",
            "&",
            ">",
            "<",
            "A=",
            "$A",
            "${A[@]}",
            "A=(",
            "$(",
            "x",
            " ",
            "+=",
        ]
        for _ in range(4000):
            script = "".join(source.choice(pieces) for _ in range(source.randrange(40)))
            launch_options(script)

    def test_a_long_script_takes_no_time(self):
        begin = time.monotonic()
        launch_options("x='a b c'  # comment\n" * 20_000 + "torchrun t.py --lr 1")
        launch_options('"' * 20_001)
        launch_options("$(" * 10_000)
        assert time.monotonic() - begin < 20


class TestSettingsFiles:
    def test_the_files_of_the_existing_tool(self, tmp_path):
        """There a list is its last scalar, and floats and nulls are lost."""
        assert of_files([DATA / "conf_a.yaml"]) == {
            "train.lr": 0.001, "train.bs": 8, "train.flags": [1, 2], "train.flags.a": "x",
            "train.name": "abc", "train.enable": True, "train.nothing": None, "model.hidden": 16,
        }  # fmt: skip

    def test_two_files_do_not_mix(self):
        assert "train.nothing" not in of_files([DATA / "conf_b.yaml"])
        merged = of_files([DATA / "conf_a.yaml", DATA / "conf_b.yaml"])
        assert merged["train.lr"] == {"description": "duplicate_value", "values": [0.001, 0.003]}
        assert merged["train.name"] == "abc"

    def test_yml_and_json(self, tmp_path):
        assert files(tmp_path, "a: {b: 1}", ".yml") == {"a.b": 1}
        text = json.dumps(
            {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}, "betas": [0.9, 0.95]}
        )
        assert files(tmp_path, text, ".json") == {
            "zero_optimization.stage": 2,
            "bf16.enabled": True,
            "betas": [0.9, 0.95],
        }

    def test_files_that_hold_no_names(self, tmp_path):
        assert files(tmp_path, "[1, 2]", ".json") == {"value": [1, 2]}
        assert files(tmp_path, "text", ".yaml") == {"value": "text"}
        assert files(tmp_path, "", ".yaml") == {}
        assert files(tmp_path, "- {a: 1}\n- {a: 2}", ".yaml") == {"value.0.a": 1, "value.1.a": 2}

    def test_keys_that_are_no_text(self, tmp_path):
        assert files(tmp_path, "on: 1\n3: 2\n", ".yaml") == {"true": 1, "3": 2}

    @pytest.mark.parametrize(
        "text",
        ["a: !!python/object/apply:os.system ['touch evil']\nlr: 1", "a: !!python/name:os.system x\nlr: 1",
         "a: !custom {b: 1}\nlr: 1", "!!python/object/new:os.system [touch evil]\n---\nlr: 1"],
    )  # fmt: skip
    def test_tags_run_nothing(self, tmp_path, monkeypatch, text):
        monkeypatch.chdir(tmp_path)
        assert files(tmp_path, text, ".yaml")["lr"] == 1
        assert [one.name for one in tmp_path.iterdir()] == ["file.yaml"]

    @pytest.mark.parametrize(
        ("text", "suffix"),
        [("a: [", ".yaml"), ("a: &x [*x]", ".yaml"), ("{" * 5000, ".yaml"), ("{", ".json"),
         ("[" * 90_000, ".json"),
         ("a: 2020-99-99", ".yaml"), ("\0", ".yaml"), ("? [a]: b", ".yaml"),
         (BILLIONS, ".yaml"), (MERGED_BILLIONS, ".yaml"), ("a: 0x" + "f" * 10_000, ".yaml")],
    )  # fmt: skip
    def test_what_cannot_be_read_is_left_out_with_a_warning(self, tmp_path, caplog, text, suffix):
        assert files(tmp_path, text, suffix) == {}
        assert str(tmp_path / f"file{suffix}") in caplog.text

    def test_the_warning_shows_nothing_of_the_file(self, tmp_path, caplog):
        files(tmp_path, "password: s3cr3t: x", ".yaml")
        assert "line 1, column" in caplog.text
        assert "s3cr3t" not in caplog.text

    @pytest.mark.parametrize(("text", "suffix"), [('{"a": 1}', ".json"), ("a: 1", ".yaml")])
    def test_a_byte_order_mark(self, tmp_path, text, suffix):
        assert files(tmp_path, "\ufeff" + text, suffix) == {"a": 1}

    def test_a_missing_file_is_left_out(self, tmp_path, caplog):
        assert of_files([tmp_path / "no.sh"]) == {}
        assert "is not a file" in caplog.text

    def test_wrong_paths(self):
        with pytest.raises(InvalidArgument, match="should be a list of file paths"):
            check_paths("a.sh")
        with pytest.raises(InvalidArgument, match=r"Invalid parser type: \.py: .*train\.py"):
            check_paths(["train.py"])


class TestObjects:
    def test_kinds_of_objects(self):
        class Mode(enum.Enum):
            FAST = 1

        @dataclasses.dataclass
        class Inner:
            size: int = 3

        @dataclasses.dataclass
        class Arguments:
            lr: float = 0.1
            inner: Inner = dataclasses.field(default_factory=Inner)
            mode: Mode = Mode.FAST
            path: Any = pathlib.Path("/a")
            function: Any = len
            thing: Any = dataclasses.field(default_factory=object)
            names: Any = dataclasses.field(default_factory=lambda: {"b", "a"})

        assert of_objects(Arguments()) == {
            "lr": 0.1, "inner.size": 3, "mode": "FAST", "path": "/a", "function": "builtins.len",
            "thing": "builtins.object", "names": ["a", "b"],
        }  # fmt: skip
        assert of_objects([argparse.Namespace(a=1), {"b": {"c": [1, 2]}}]) == {"a": 1, "b.c": [1, 2]}

        class Config:
            def to_dict(self):
                return {"hidden_size": 16}

        assert of_objects(Config()) == {"hidden_size": 16}

    def test_omegaconf(self, monkeypatch):
        """It is no dependency: what is needed of it is played here."""

        class DictConfig(dict):  # type: ignore[type-arg]
            def items(self):
                raise ValueError("Missing mandatory value")

        DictConfig.__module__ = "omegaconf.dictconfig"
        module = types.ModuleType("omegaconf")
        module.OmegaConf = types.SimpleNamespace(
            to_container=lambda node, resolve: {"lr": "${base.lr}", "missing": "???", "model": {"layers": 2}}
        )
        monkeypatch.setitem(sys.modules, "omegaconf", module)
        assert of_objects(DictConfig()) == {"lr": "${base.lr}", "missing": "???", "model.layers": 2}

    def test_torch_values_have_names(self):
        import torch

        assert of_objects({"dtype": torch.bfloat16}) == {"dtype": "torch.bfloat16"}

    def test_what_is_no_such_object(self):
        with pytest.raises(InvalidArgument, match="found int"):
            of_objects(3)

    def test_a_megatron(self, monkeypatch):
        assert of_megatron() is None
        module = types.ModuleType("megatron.training")
        module.get_args = lambda: argparse.Namespace(seed=1, params_dtype=object())
        monkeypatch.setitem(sys.modules, "megatron.training", module)
        assert of_megatron() == {"seed": 1, "params_dtype": "builtins.object"}
        inner = types.ModuleType("megatron.training.global_vars")
        inner._GLOBAL_ARGS = argparse.Namespace(seed=2)
        monkeypatch.setitem(sys.modules, "megatron.training.global_vars", inner)
        assert of_megatron() == {"seed": 2}

    def test_a_megatron_that_has_parsed_nothing(self, monkeypatch):
        def get_args():
            raise AssertionError("args is not initialized")

        module = types.ModuleType("megatron.training")
        module.get_args = get_args
        monkeypatch.setitem(sys.modules, "megatron.training", module)
        assert of_megatron() is None

    def test_objects_that_hold_themselves(self):
        loop: dict[str, Any] = {}
        loop["x"] = loop
        with pytest.raises(FormatError, match="levels"):
            of_objects(loop)
