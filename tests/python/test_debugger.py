# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PrecisionDebugger: one in a process, and what it answers before there is one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msprobe import InvalidArgument, PrecisionDebugger, UnsupportedError

pytestmark = pytest.mark.usefixtures("fresh_debugger")


@pytest.mark.parametrize(
    "call",
    [
        lambda: PrecisionDebugger.monitor(None),
        lambda: PrecisionDebugger.start(),
        lambda: PrecisionDebugger.stop(),
        lambda: PrecisionDebugger.step(),
        lambda: PrecisionDebugger.forward_backward_dump_end(),
        lambda: PrecisionDebugger.save(None, "x"),
    ],
)
def test_before_construction(call):
    with pytest.raises(InvalidArgument, match=r"PrecisionDebugger instance is not created\."):
        call()


def test_there_is_one_in_a_process(write_config, tmp_path, caplog):
    first = PrecisionDebugger(write_config())
    assert PrecisionDebugger() is first
    assert not caplog.records
    assert PrecisionDebugger(write_config(dump_path=str(tmp_path / "other"))) is first
    assert "there is one in this process already, which is returned" in caplog.text
    assert f"dump_path {tmp_path / 'probe'}" in caplog.text
    assert first._config.dump_path == str(tmp_path / "probe")


def test_it_says_where_it_writes_at_the_start_and_the_end(tmp_path):
    code = (
        "import torch, msprobe\n"
        "debugger = msprobe.PrecisionDebugger(task='statistics', level='L1', dump_path='out', step=[0, 1])\n"
        "if {}:\n"
        "    debugger.start()\n    torch.ones(2).sum()\n    debugger.stop()\n    debugger.step()\n"
    )
    for records, end in (("True", "ended; its files are in"), ("False", "ended, and recorded nothing: ")):
        folder = tmp_path / records
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", code.format(records)], cwd=folder, capture_output=True, text=True
        )
        first, last = done.stderr.splitlines()
        assert first == f"msprobe: PrecisionDebugger: task statistics, level L1, steps 0-1: {folder}/out"
        assert last.startswith(f"msprobe: PrecisionDebugger: {end}")


def test_a_wrong_configuration_constructs_nothing(write_config):
    with pytest.raises(InvalidArgument):
        PrecisionDebugger(write_config({"grad_level": "L9"}))
    with pytest.raises(UnsupportedError, match="run_ut"):
        PrecisionDebugger(write_config(), task="run_ut")
    with pytest.raises(InvalidArgument, match="not created"):
        PrecisionDebugger.stop()
    assert PrecisionDebugger(write_config()) is not None


def test_arguments_by_position_as_in_the_existing_tool(write_config, tmp_path):
    path = write_config(task="statistics")
    debugger = PrecisionDebugger(path, "grad_probe", str(tmp_path / "x"), "L0", None, [3])
    assert debugger._config.task == "grad_probe"
    assert debugger._config.dump_path == str(tmp_path / "x")
    assert debugger._config.steps == (3,)


def test_start_step_and_stop_do_nothing_without_a_model(write_config, tmp_path):
    debugger = PrecisionDebugger(write_config())
    debugger.start()
    debugger.step()
    debugger.stop()
    debugger.save(1, "loss")
    assert not (tmp_path / "probe").exists()


def test_without_arguments_the_folder_is_that_of_the_existing_tool(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = PrecisionDebugger()._config
    assert (config.task, config.dump_path) == ("statistics", str(tmp_path / "dump_path"))


def test_keywords_of_newer_releases_are_accepted_with_a_word(write_config, caplog):
    PrecisionDebugger(write_config())
    PrecisionDebugger.start(rank_id=0, scheduled_tokens=[1])
    assert "start: rank_id has no effect" in caplog.text
    assert "start: scheduled_tokens has no effect" in caplog.text
