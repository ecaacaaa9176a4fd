# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is recorded: options, a configuration, neither; and what the file of a run says."""

from __future__ import annotations

import json
import re

import pytest
from msprobe import InvalidArgument
from msprobe.files.credentials import concealed_words
from msprobe.recording.run_file import earlier_run
from msprobe.recording.settings import CAN_BE_LEFT_OUT, run_settings


@pytest.fixture
def file(tmp_path):
    """file(**keys) -> path of a config.json with them."""

    def write(**keys):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(keys))
        return path

    return write


def test_nothing_is_needed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = run_settings()
    assert settings.output == tmp_path / "msprobe_run"
    assert (settings.steps, settings.level, settings.parts) == ((0, 1, 2), "mix", CAN_BE_LEFT_OUT)
    assert settings.dump.task == "statistics"
    assert "optimizer" in settings.dump.section.diagnosis
    assert settings.gradients.section.grad_level == "L1"
    assert list(tmp_path.iterdir()) == []  # nothing is made yet


def test_a_file_and_what_wins_over_it(file, tmp_path):
    path = file(
        task="tensor",
        level="L0",
        dump_path=str(tmp_path / "of_file"),
        step=[7],
        tensor={"list": ["x"], "diagnosis": ["rng"]},
        grad_probe={"grad_level": "L2"},
        enable_dataloader=True,
    )
    settings = run_settings(path)
    assert (settings.output, settings.steps, settings.level) == (tmp_path / "of_file", (7,), "L0")
    assert (settings.dump.task, settings.dump.section.diagnosis) == ("tensor", ("rng",))
    assert not settings.dump.enable_dataloader
    assert settings.dump.dump_path == str(tmp_path / "of_file/dump")
    assert settings.gradients.section.grad_level == "L2"
    settings = run_settings(path, tmp_path / "o", "0-1,9", "mix")
    assert (settings.output, settings.steps, settings.level) == (tmp_path / "o", (0, 1, 9), "mix")


def test_gradients_only(file):
    settings = run_settings(file(task="grad_probe"))
    assert settings.dump is None
    assert "dump" not in settings.parts


def test_the_monitor(file, tmp_path):
    plain = run_settings(file(monitor={"every": 3}))
    assert (plain.monitor, "monitor" in plain.parts) == (None, False)
    beside = run_settings(file(monitor={"every": 3}), steps="0-1", monitor=True)
    assert (beside.monitor.section.every, beside.monitor.steps) == (3, ())
    assert beside.monitor.dump_path == str(beside.output / "monitor")
    assert beside.parts == (*CAN_BE_LEFT_OUT, "monitor")
    alone = run_settings(file(task="monitor"))
    assert alone.parts == ("monitor",)
    assert (alone.dump, alone.gradients) == (None, None)


def test_all_steps():
    settings = run_settings(steps="all")
    assert (settings.steps, settings.last_step) == ((), None)


def test_parts_left_out():
    settings = run_settings(without=CAN_BE_LEFT_OUT)
    assert (settings.parts, settings.dump, settings.gradients) == ((), None, None)
    settings = run_settings(without=["sketch"])
    assert (settings.parts, settings.dump.section.sketch) == (CAN_BE_LEFT_OUT, False)
    assert run_settings().dump.section.sketch
    with pytest.raises(InvalidArgument, match=r"expected parts out of .*, sketch, found 'x'"):
        run_settings(without=["x"])


@pytest.mark.parametrize("steps", ["", "x", "1-", "-1", "2-1", "1;2", "9999999", [1.5], [None], "٣"])
def test_wrong_steps(steps):
    with pytest.raises(InvalidArgument, match=r"^steps: expected|\"step\": expected"):
        run_settings(steps=steps)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("t.py --lr 1 --token abc --x", "t.py --lr 1 --token *** --x"),
        ("t.py --api-key=abc --wandb_api_key abc", "t.py --api-key=*** --wandb_api_key ***"),
        ("t.py --password --lr 3", "t.py --password --lr 3"),
        ("token secret", "token secret"),
        ("t.py --url https://joe:swordfish@host/x", "t.py --url https://***@host/x"),
        ("t.py x Zk3hB7qLm2XcV9pTr5Wd8Yn4", "t.py x ***"),
        ("t.py --max-tokens 3", "t.py --max-tokens 3"),  # of a text
    ],
)
def test_secrets_of_a_command_line(words, shown):
    assert re.sub("<secret [0-9a-f]{16}>", "***", " ".join(concealed_words(words.split()))) == shown


def test_an_earlier_run_is_known_by_its_file(file, tmp_path):
    settings = run_settings(output=tmp_path)
    assert earlier_run(run_settings(output=tmp_path / "absent")) is None
    path = tmp_path / "run.rank3.json"
    path.write_text("")
    assert earlier_run(settings) == path
    monitor = run_settings(file(task="monitor"), tmp_path)
    for text in ("", "[]", '{"asked": {"parts": ["dump"]}}'):
        path.write_text(text)
        assert earlier_run(monitor) == path
    path.write_text('{"asked": {"parts": ["monitor"]}}')
    assert earlier_run(monitor) is None  # it goes on
    assert earlier_run(settings) == path
