# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The probe when processes fork, end early or are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from msprobe import PrecisionDebugger
from torch import nn

PRELUDE = """
import sys, torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.randn(4, 64)).square().sum().backward()
        optimizer.step()

def watch():
    PrecisionDebugger(sys.argv[1])
    PrecisionDebugger.monitor(model)
"""
PARAMETERS = 4


def start(tmp_path, write_config, body, **keys):
    (tmp_path / "train.py").write_text(PRELUDE + body)
    command = [sys.executable, str(tmp_path / "train.py"), str(write_config(**keys))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return errors


def assert_complete(record, step):
    rows = record.rows(step)
    assert len(rows) == PARAMETERS
    for name, row in rows.items():
        assert list(record.signs(step, name).shape) == json.loads(row["shape"])


def test_every_step_is_on_disk_when_the_script_ends(tmp_path, write_config, record):
    said = finish(start(tmp_path, write_config, "watch(); steps(7)")).splitlines()
    assert [line.split(":")[:2] for line in said] == [["msprobe", " PrecisionDebugger"]] * 2  # begin and end
    assert record.steps() == list(range(7))
    assert_complete(record, 6)


def test_every_step_is_on_disk_when_the_script_fails(tmp_path, write_config, record):
    process = start(tmp_path, write_config, "watch(); steps(3); raise SystemExit('bad loss')")
    process.communicate(timeout=120)
    assert process.returncode == 1
    assert record.steps() == [0, 1, 2]
    assert_complete(record, 2)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_every_step_of_a_training_in_a_child_process_is_on_disk(tmp_path, write_config, record, method):
    body = f"""
def work():
    watch()
    steps(5)

if __name__ == "__main__":
    import torch.multiprocessing
    context = torch.multiprocessing.get_context({method!r})
    child = context.Process(target=work)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
    finish(start(tmp_path, write_config, body))
    assert record.steps() == [0, 1, 2, 3, 4]
    assert_complete(record, 4)


def test_a_forked_child_of_a_probed_process_writes_nothing(tmp_path, write_config, record):
    body = """
import os
watch()
steps(2)
child = os.fork()
if child == 0:
    sys.exit(0)   # runs what is registered to run at exit
assert os.waitpid(child, 0)[1] == 0
steps(2)
"""
    finish(start(tmp_path, write_config, body))
    assert record.steps() == [0, 1, 2, 3]


def test_kill_9_loses_no_earlier_step(tmp_path, write_config, record):
    process = start(tmp_path, write_config, "watch()\nwhile True: steps(1)")
    last = record.directory / "grad_summary_30.csv"
    for _ in range(1200):
        if last.exists():
            break
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    steps = record.steps()
    assert steps == list(range(len(steps)))
    assert len(steps) > 30
    for step in steps:
        assert_complete(record, step)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.full((4,), float(index))


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_of_a_data_loader(monitor, record):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor(model)
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, timeout=60)
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    PrecisionDebugger.stop()
    assert record.steps() == [0, 1, 2, 3, 4, 5]
    assert sorted(os.listdir(record.directory.parent)) == ["rank0"]
    assert np.array_equal(record.signs(5, "weight"), (model.weight.grad > 0).numpy())


def test_a_full_disk_does_not_stop_the_training(monitor, record, caplog, tmp_path):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor(model)
    for step in range(4):
        if step == 1:  # as a disk that cannot be written: files stand where directories should be made
            PrecisionDebugger.stop()
            (record.directory / "step1").write_text("")
            (record.directory / "step2").write_text("")
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    PrecisionDebugger.stop()
    assert record.steps() == [0, 3]
    assert "step1" in caplog.text
    assert "2 steps could not be written" in caplog.text
