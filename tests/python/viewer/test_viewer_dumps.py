# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe view of dumps: the graph is made first."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from msprobe.viewer.command import main
from msprobe.viewer.graph_of_dumps import graph_of, is_dump
from msprobe.viewer.result_file import open_result
from viewer_samples import write

CALL = "Functional.relu.0.forward"


def dump(folder, value):
    """A step with one rank: a module with one call in it."""
    rank = folder / "step0" / "rank0"
    rank.mkdir(parents=True)
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "requires_grad": False}
    tensor |= {"Max": value, "Min": -1.0, "Mean": 0.1, "Norm": 2.0}
    entry = {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}
    module = "Module.act.ReLU.forward.0"
    data = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    (rank / "dump.json").write_text(json.dumps({**data, "data": {module: entry, CALL: entry}}))
    (rank / "construct.json").write_text(json.dumps({module: None, CALL: module}))
    (rank / "stack.json").write_text(json.dumps({}))
    return folder


def test_two_dumps_are_compared_and_exported(tmp_path, capfd):
    golden, target = dump(tmp_path / "golden", 1.0), dump(tmp_path / "target", 3.0)
    out = tmp_path / "out.html"
    assert main([str(golden), str(target), "--export", str(out)]) == 0
    assert "whole graph" in capfd.readouterr().out
    assert out.stat().st_size > 50_000
    assert {path.name for path in tmp_path.iterdir()} == {"golden", "target", "out.html"}


def test_one_dump_is_shown_and_the_command_that_keeps_its_graph_is_said(tmp_path):
    run = dump(tmp_path / "run", 1.0)
    command = [sys.executable, "-m", "msprobe", "view", str(run), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = [process.stdout.readline() for _ in range(3)]
        finally:
            process.terminate()
    assert f"msprobe graph {run} -o FOLDER" in said[0]
    assert re.match(r"Open http://127\.0\.0\.1:\d+/", said[2])


def test_a_graph_of_dumps_is_that_of_msprobe_graph(tmp_path):
    path, _ = graph_of([dump(tmp_path / "golden", 1.0), dump(tmp_path / "target", 3.0)])
    result = open_result(path)
    assert result.config.is_compare
    assert result.rows("SELECT count(*) FROM tb_nodes WHERE node_name=?", CALL) == [(2,)]


def test_a_folder_with_results_is_no_dump(tmp_path):
    run = dump(tmp_path / "run", 1.0)
    assert is_dump(run)
    assert is_dump(run / "step0" / "rank0")
    assert not is_dump(tmp_path)
    write(run / "a.vis.db")
    assert not is_dump(run)


def test_a_dump_that_cannot_be_read_is_an_error_with_its_name(tmp_path, capfd):
    run = dump(tmp_path / "run", 1.0)
    (run / "step0" / "rank0" / "dump.json").write_text("{")
    with pytest.raises(ValueError, match="could not be made"):
        main([str(run)])
    assert "dump.json" in capfd.readouterr().err


def test_a_result_and_a_dump_cannot_be_compared(tmp_path):
    with pytest.raises(ValueError, match="expected"):
        main([str(write(tmp_path / "a.vis.db")), str(dump(tmp_path / "run", 1.0))])
