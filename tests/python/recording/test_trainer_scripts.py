# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What trainers do that a loop written by hand does not, each cut down to a script of its own (scripts/)."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from children import run, run_ranks
from msprobe.files.regular_file import read_text
from recording_support import run_file

SCRIPTS = Path(__file__).with_name("scripts")


def recorded_in_child(folder: str, name: str, arguments: list[str], options: list[str]) -> tuple[Any, str]:
    """msprobe run in this process: its exit code, and what the script printed."""
    from msprobe import cli

    os.chdir(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main(["run", "--quiet", *options, str(SCRIPTS / f"{name}.py"), *arguments])
    return code, printed.getvalue()


def record(folder: Path, name: str, *arguments: str, options: tuple[str, ...] = (), out: str = "a") -> str:
    code, printed = run(
        recorded_in_child,
        str(folder),
        name,
        list(arguments),
        ["-o", str(folder / out), *options],
        timeout=120,
    )
    assert code == 0
    return printed


def diagnose(folder: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, first line and diagnose.json of b against a."""
    from msprobe import cli

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main(["diagnose", str(folder / "a"), str(folder / "b"), "-o", str(folder / "d"), *options])
    answer = json.loads((folder / "d/diagnose.json").read_text())
    return code, printed.getvalue(), answer


def pair(folder: Path, name: str, *arguments: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Records a script, and again with arguments; exit code and text of their diagnosis."""
    first = record(folder, name, options=options)
    second = record(folder, name, *arguments, options=options, out="b")
    if not arguments:
        losses = [[line.split()[:2] for line in one.splitlines()] for one in (first, second)]
        assert losses[0] == losses[1]
    return diagnose(folder)[:2]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("call_before_seed", ()),
        ("meta_step_loses_losses", ("--steps", "1-3")),
        ("device_context", ()),
        ("mm_out_buffer", ()),
        ("baddbmm_beta_zero", ()),
        ("narrow_of_large_buffer", ()),
    ],
)
def test_the_same_script_twice(tmp_path, name, options):
    code, text = pair(tmp_path, name, options=options)
    assert code == 0, text


def test_the_same_script_twice_in_two_processes(tmp_path):
    """What collectives write is no input of theirs."""
    run_ranks(recorded_in_child, str(tmp_path), "gather_into_buffer", [], ["-o", str(tmp_path / "a")])
    run_ranks(recorded_in_child, str(tmp_path), "gather_into_buffer", [], ["-o", str(tmp_path / "b")])
    code, text, _ = diagnose(tmp_path)
    assert code == 0, text


def test_a_large_buffer_is_not_measured_for_its_views(tmp_path):
    record(tmp_path, "narrow_of_large_buffer")
    data = json.loads(read_text(tmp_path / "a/dump/step0/rank/dump.json"))["data"]
    views = [record for name, record in data.items() if name.startswith("Tensor.narrow")]
    assert len(views) == 32
    assert all(record["input_args"][0]["Norm"] is None for record in views)


def test_a_dry_run_before_the_seed_is_no_step(tmp_path):
    record(tmp_path, "call_before_seed")
    about = run_file(tmp_path / "a")
    assert [model["class"] for model in about["models"]] == ["Net"]
    assert (about["steps"], about["notes"]) == (4, [])


def test_a_mode_that_a_script_leaves_is_its_own(tmp_path):
    assert "a new tensor is on cpu" in record(tmp_path, "device_context")
    assert run_file(tmp_path / "a")["steps"] == 4


def test_calls_on_the_meta_device_lose_no_loss(tmp_path):
    record(tmp_path, "meta_step_loses_losses", options=("--steps", "1-3"))
    with (tmp_path / "a/losses.rank0.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["backward_calls"] for row in rows] == ["1"] * 6
    assert all(row["loss"] for row in rows)


def test_attributes_of_a_wrapper_that_hide_those_of_torch(tmp_path):
    record(tmp_path, "wrapper_with_buffers_list")
    about = run_file(tmp_path / "a")
    assert [model["class"] for model in about["models"]] == ["Sequential"]
    assert (about["steps"], about["notes"]) == (4, [])
    assert set(about["recorded"]) == {"losses", "config", "gradients", "dump"}


def test_names_are_those_without_a_wrapper(tmp_path):
    code, text = pair(tmp_path, "fabric_prefix", "--wrap")
    assert code == 0, text
    for name in ("a", "b"):
        data = json.loads(read_text(tmp_path / name / "dump/step0/rank/dump.json"))["data"]
        assert "Module.0.Linear.forward.0" in data
        assert not any("_forward_module" in record for record in data)


def test_a_frozen_model_is_named_as_in_the_script(tmp_path):
    code, text = pair(tmp_path, "reference_model_unnamed", "--fault")
    assert code == 1
    assert "reference.1.eps = 0.01 (reference: 1e-05)" in text.splitlines()[0]


def test_averaged_weights_are_compared(tmp_path):
    code, text = pair(tmp_path, "averaged_weights", "--fault")
    assert code == 1
    assert "buffer averaged." in text.splitlines()[0], text


def test_gradients_that_nobody_found_are_not_said_to_be_recorded(tmp_path):
    record(tmp_path, "gradients_elsewhere")
    assert set(run_file(tmp_path / "a")["recorded"]) == {"losses", "config", "dump"}


def test_the_monitor_counts_updates_and_not_requests_to_a_wrapper(tmp_path):
    from msprobe import trend

    record(tmp_path, "monitor_wrapped_optimizer", options=("--monitor",))
    assert run_file(tmp_path / "a")["steps"] == 4
    assert "4 steps" in str(trend(tmp_path / "a"))


def test_a_training_that_goes_on_is_compared_from_its_own_first_step(tmp_path):
    record(tmp_path, "resumed_run", options=("--steps", "3-5"))
    record(tmp_path, "resumed_run", "--resume", out="b")
    about = run_file(tmp_path / "b")
    assert (about["first_step"], about["steps"]) == (3, 3)
    code, text, _ = diagnose(tmp_path)
    assert code == 0, text


@pytest.fixture(scope="module")
def of_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    record(folder, "step_data")
    return folder


def test_data_that_differ_have_the_name_of_the_program(of_data, tmp_path):
    (tmp_path / "a").symlink_to(of_data / "a")
    record(tmp_path, "step_data", "--reward", out="b")
    code, text, answer = diagnose(tmp_path)
    assert code == 1
    assert "step 1, data differ: rewards (input 0 of mean has another value" in text.splitlines()[0]
    assert answer["cause"]["stage"] == "data"
    assert "other data that differ: inputs.advantages" in answer["cause"]["reason"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--mixup", "input 1 of rmul = 0.6 (reference: 0.7)"),
        ("--noise", "input 1 of mul = 1.01 (reference: 1)"),
    ],
)
def test_what_makes_data_is_named(of_data, tmp_path, option, expected):
    (tmp_path / "a").symlink_to(of_data / "a")
    record(tmp_path, "step_data", option, out="b")
    code, text, _ = diagnose(tmp_path)
    assert code == 1
    assert f"step 1, {expected}, called at step_data.py" in text.splitlines()[0]


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("exact_op_one_ulp", ("--fused",), ("--steps", "0-7")),
        ("qkv_bias", ("--eager",), ()),
        ("attention_mask_kinds", ("--eager",), ()),
        ("channels_last_batch_norm", ("--last",), ()),
        ("first_call_in_a_transform", ("--transform",), ()),
    ],
)
def test_another_right_kernel_is_silent(tmp_path, name, arguments, options):
    code, text = pair(tmp_path, name, *arguments, options=options)
    assert code == 0, text


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("bf16_label_smoothing", "--fault", "label_smoothing of cross_entropy = 0.02"),
        ("backward_hides_scalar", "--scale=4", " = 4.0 (reference: 2.0)"),
    ],
)
def test_an_argument_that_differs_is_named(tmp_path, name, argument, expected):
    code, text = pair(tmp_path, name, *argument.split("="))
    assert code == 1
    assert expected in text.splitlines()[0]


@pytest.fixture(scope="module")
def of_words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    record(folder, "words_in_16_bits")
    return folder


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--tanh", "input approximate of gelu = tanh (reference: none)"),
        ("--biased", "input unbiased of var = False (reference: True)"),
    ],
)
def test_a_word_or_flag_that_changes_less_than_a_rounding_is_named(of_words, tmp_path, option, expected):
    """The kernels are the same, so nothing else makes the difference, though gradients agree but for it."""
    (tmp_path / "a").symlink_to(of_words / "a")
    record(tmp_path, "words_in_16_bits", option, out="b")
    code, text, *_ = diagnose(tmp_path)
    assert (code, expected in text) == (1, True)
