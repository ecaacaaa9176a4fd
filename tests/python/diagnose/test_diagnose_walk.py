# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which of several causes is the first, what a folder has, and losses of logs."""

from __future__ import annotations

import json
import math

import pytest
from msprobe import InvalidArgument
from msprobe.diagnose.answer import STAGES, Answer, PartResult, conclude, stage_status
from msprobe.diagnose.answer_file import answer_json, console_text
from msprobe.diagnose.cause import Cause
from msprobe.diagnose.losses import compare_losses, read_losses
from msprobe.diagnose.page import page_html
from msprobe.diagnose.run_folder import find_run


def cause(stage, part="dump", step=0, confidence=0.9, name="x"):
    return Cause(stage, part, name, "because", confidence, step, 0)


def part(name, *causes, status="differ", **more):
    return PartResult(name, status, "said", causes=causes, **more)


class TestOrder:
    def test_no_cause(self):
        assert conclude([part("losses", status="equal")]) == (None, [])

    def test_an_earlier_stage_explains_a_later_one(self):
        seed = cause("configuration", "config", None)
        data = cause("data", "config", 0, 0.99)
        operator = cause("operators", "dump", 0, 0.99)
        first, others = conclude([part("config", data, seed), part("dump", operator)])
        assert first is seed
        assert others == [data, operator]

    def test_a_dump_of_the_same_step_is_nearer_than_a_gradient(self):
        gradient, operator = cause("gradients", "gradients", 3), cause("operators", "dump", 3, 0.5)
        assert conclude([part("gradients", gradient), part("dump", operator)])[0] is operator

    def test_a_dump_of_a_later_step_shows_consequences(self):
        gradient, weight = cause("gradients", "gradients", 3), cause("initial weights", "dump", 5)
        assert conclude([part("gradients", gradient), part("dump", weight)])[0] is gradient

    def test_the_surer_of_one_stage(self):
        likely, unlikely = (
            cause("configuration", "config", None, 0.9),
            cause("configuration", "config", None, 0.8),
        )
        assert conclude([part("config", unlikely, likely)]) == (likely, [unlikely])


def setting(name, target, reference, confidence=0.91, acts=""):
    return Cause(
        "configuration", "config", name, "because", confidence, values=(target, reference), acts=acts
    )


def seen(stage, target="", reference="", *, name="argument x", step=0):
    return Cause(stage, "dump", name, "because", 0.9, step, 0, values=(target, reference))


class TestSettings:
    """A setting that differs, beside what a dump shows first."""

    def first(self, settings, dumped, weak=()):
        config = PartResult("config", "differ", "said", causes=tuple(settings), settings=tuple(weak))
        return conclude([config, part("dump", *dumped, steps=(0, 1, 2))])[0]

    @pytest.mark.parametrize(
        ("target", "reference"),
        [("0.7", "1.0"), ("0.70", "1"), ("1.4", "2"), ("2", "1.4"), ("0.35", "0.5")],
    )
    def test_the_one_whose_values_are_seen_is_the_cause(self, target, reference):
        likelier = setting("lr", "0.2", "0.1", 0.95)
        temperature = setting("temperature", "0.7", "1.0", 0.55)
        found = self.first([likelier], [seen("operators", target, reference)], [temperature])
        assert (found.name, found.step) == ("temperature", 0)
        assert found.confidence == 0.95

    def test_words_are_seen_too(self):
        found = self.first(
            [], [seen("operators", "'tanh'", "'none'")], [setting("act", "'tanh'", "'none'", 0.5)]
        )
        assert found.name == "act"

    def test_other_values_confirm_nothing(self):
        dumped = seen("operators", "0.3", "0.2")
        assert self.first([], [dumped], [setting("temperature", "0.7", "1.0", 0.55)]) is dumped

    def test_a_later_finding_of_the_first_step_confirms_too(self):
        dumped = [seen("operators"), seen("operators", "0.7", "1.0")]
        assert self.first([], dumped, [setting("temperature", "0.7", "1.0", 0.55)]).name == "temperature"
        later = [seen("operators"), seen("operators", "0.7", "1.0", step=1)]
        assert self.first([], later, [setting("temperature", "0.7", "1.0", 0.55)]) is later[0]

    def test_a_setting_that_two_objects_hold_is_told_once(self):
        held = [
            setting(f"hyperparameters: {name}.beta", "0.2", "0.1") for name in ("DPOConfig", "DPOTrainer")
        ]
        config = PartResult("config", "differ", "said", causes=tuple(held))
        assert conclude([config, part("losses")]) == (held[0], [])

    def test_zero_is_no_multiple(self):
        dumped = seen("operators", "0.5", "0")
        assert self.first([], [dumped], [setting("smoothing", "0.1", "0", 0.55)]) is dumped

    def test_a_likely_one_stands_before_what_follows(self):
        beta = setting("beta", "0.2", "0.1")
        assert self.first([beta], [seen("operators")]) is beta

    def test_what_acts_in_the_optimizer_explains_no_forward_pass(self):
        lr, dumped = setting("lr", "0.2", "0.1", acts="update"), seen("operators")
        assert self.first([lr], [dumped]) is dumped
        assert self.first([lr], [seen("optimizer")]) is lr
        assert self.first([lr], [seen("operators", step=1)]) is lr

    def test_a_setting_of_a_module_stands_before_one_of_the_program(self):
        dumped = seen("operators", "0.1", "0.001", name="module attribute norm.eps")
        assert self.first([setting("batch_size", "5", "4")], [dumped]) is dumped

    @pytest.mark.parametrize(
        ("record", "is_named"),
        [
            ("Functional.linear.0.forward", True),
            ("Torch.matmul.3.backward", True),
            ("Functional.scaled_dot_product_attention.0.forward", True),
            ("Module.fc.Linear.forward.0", True),  # which may hold a product
            ("Tensor.mul.2.forward", False),
            ("Functional.layer_norm.0.forward", False),
        ],
    )
    def test_what_products_are_rounded_to_is_named_where_a_product_shows_it(self, record, is_named):
        tf32 = setting("settings: torch.backends.cuda.matmul.allow_tf32", "true", "false")
        dumped = Cause("operators", "dump", "operator", "because", 0.9, 0, 0, record=record)
        assert self.first([tf32], [dumped]) is (tf32 if is_named else dumped)

    def test_what_products_are_rounded_to_explains_no_data(self):
        tf32 = setting("settings: torch.backends.cuda.matmul.allow_tf32", "true", "false")
        data = seen("data", name="input 0")
        assert self.first([tf32], [data]) is data


class TestStages:
    def answer(self, *parts):
        first, others = conclude(list(parts))
        return Answer("differ" if first else "equal", "sentence", first, tuple(others), parts, ())

    def words(self, *parts):
        answer = self.answer(*parts)
        return {stage: stage_status(stage, answer)[0] for stage, _, _ in STAGES}

    def test_nothing_recorded_is_said(self):
        words = self.words(part("losses", status="differ", first_step=3))
        assert words["first step"] == "differ"
        assert set(words.values()) == {"differ", "not recorded"}

    def test_a_cause_and_what_is_behind_it(self):
        words = self.words(
            part("config", status="equal"), part("dump", cause("operators", step=2), first_step=2)
        )
        assert [words[stage] for stage, _, _ in STAGES] == [
            *("equal", "equal", "equal", "differ", "equal", "cause", "consequence"),
        ]

    def test_a_part_that_failed_is_no_agreement(self):
        assert self.words(part("dump", status="failed"))["operators"] == "failed"

    def test_names_are_harmless_everywhere(self, tmp_path):
        hostile = "<script>alert(1)</script>\x1b[31m\n&\"'"
        answer = self.answer(part("dump", cause("operators", name=hostile), evidence=(hostile,)))
        page = page_html(answer, tmp_path / hostile, tmp_path, tmp_path)
        assert "<script" not in page
        assert "\x1b" not in page
        assert "\x1b" not in console_text(answer, tmp_path)
        assert json.loads(answer_json(answer, tmp_path, tmp_path, tmp_path))["cause"]["name"] == hostile


class TestLosses:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("losses.rank0.csv", "step,loss,backward_calls\n0,2.5,1\n1,1.25,1\n2,nan,1\n3,,0\n"),
            ("train.log", "step 0 loss 2.5\nnoise\nstep 1 loss 1.25\nstep 2 loss nan\n"),
            ("x.log", " iteration        0/ 100 | lm loss: 2.5E+00 |\n"
             " iteration 1/100 | lm loss: 1.25 |\niteration 2 | lm loss: nan"),
            ("x.jsonl", '{"step": 0, "loss": 2.5}\nnoise\n{"step": 1, "loss": 1.25}\n'
             '{"step": 2, "loss": NaN}\n'),
            ("trainer_state.json", '{"log_history": [{"step": 0, "loss": 2.5}, {"step": 1, "loss": 1.25}, '
             '{"step": 2, "loss": NaN}, {"eval_loss": 1}]}'),
            ("x.log", "{'loss': 2.5, 'lr': 1}\n{'loss': 1.25}\n{'loss': nan}\n"),
        ],
    )  # fmt: skip
    def test_formats(self, tmp_path, name, text):
        path = tmp_path / name
        path.write_text(text)
        losses = read_losses([path])
        assert list(losses) == [0, 1, 2]
        assert (losses[0], losses[1]) == (2.5, 1.25)
        assert math.isnan(losses[2])

    @pytest.mark.parametrize(
        "text", ["", "{", "[" * 100000, "a,b\n1", "loss", "loss: ...", "\0" * 100, "step,loss\nx,y\n-1,2"]
    )
    def test_what_has_no_losses(self, tmp_path, text):
        (tmp_path / "x.log").write_text(text)
        assert read_losses([tmp_path / "x.log"]) == {}

    def test_first_and_clear_difference(self):
        a = {0: 1.0, 1: 1.0, 2: 1.0, 3: math.nan, 5: 1.0}
        b = {0: 1.0, 1: 1.0000001, 2: 1.2, 3: math.nan, 4: 7.0}
        result = compare_losses(a, b)
        assert (result.steps, result.first, result.first_clear) == (4, 1, 2)
        assert compare_losses({0: 1.0}, {0: math.nan}).first_clear == 0


class TestFolders:
    def test_any_folder(self, tmp_path):
        for path in (
            "deep/dump/step3/rank0/dump.json",
            "deep/probe/rank0/grad_summary_0.csv",
            "config_check_pack.zip",
            "checkpoints/model.safetensors",
            "train.log",
        ):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text("")
        run = find_run(tmp_path)
        assert run.dump == tmp_path / "deep/dump"
        assert run.gradients == tmp_path / "deep/probe"
        assert run.pack == tmp_path / "config_check_pack.zip"
        assert run.checkpoint == tmp_path / "checkpoints/model.safetensors"
        assert run.losses == [tmp_path / "train.log"]
        assert run.command("again", "--steps", "3") == "msprobe run -o again --steps 3 train.py ARGUMENTS"

    def test_a_dump_itself_and_nothing(self, tmp_path):
        assert find_run(tmp_path).parts == []
        (tmp_path / "step0/rank").mkdir(parents=True)
        (tmp_path / "step0/rank/dump.json").write_text("")
        assert find_run(tmp_path).dump == tmp_path
        with pytest.raises(InvalidArgument, match="does not exist"):
            find_run(tmp_path / "absent")

    def test_a_folder_of_several_runs_is_no_run(self, tmp_path):
        """Parts of several would be taken for those of one."""
        for name in "abcd":
            (tmp_path / name).mkdir()
            (tmp_path / name / "run.rank0.json").write_text("{}")
        with pytest.raises(InvalidArgument, match=r"there are 4 runs in it: .*c and 1 more; name one"):
            find_run(tmp_path)
        assert find_run(tmp_path / "a").ranks == {0}

    @pytest.mark.parametrize(
        "text", ["", "[]", "{", '{"program": 3, "notes": 4}', '{"program": [1]}', "[" * 9999]
    )
    def test_a_broken_run_file_only_costs_the_suggestion(self, tmp_path, text):
        (tmp_path / "run.rank0.json").write_text(text)
        assert find_run(tmp_path).program == []

    def test_words_are_quoted_for_a_shell(self, tmp_path):
        (tmp_path / "run.rank0.json").write_text(json.dumps({"program": ["train.py", "a b; rm x"]}))
        assert find_run(tmp_path).command("o").endswith("train.py 'a b; rm x'")
