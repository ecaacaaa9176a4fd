# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment: every step that had ended is whole, and nothing else is half there under its name.

MSPROBE_TEST_KILLS: how many moments are tried (40).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from dump_support import CONTEXT, Dump, debugger

KILLS = int(os.environ.get("MSPROBE_TEST_KILLS", "40"))
STEPS = 1000


def train(directory: Path, task: str, told: int) -> None:
    """Tells each step that ended, through a pipe that outlives this process."""
    import torch
    from dump_models import build, loss_of

    torch.set_num_threads(1)
    model = build("cnn")
    probe = debugger(directory, task=task)
    os.write(told, b"ready\n")
    for step in range(STEPS):
        probe.start(model)
        loss_of(model, "cnn", step).backward()
        probe.stop()
        probe.step()
        os.write(told, f"{step}\n".encode())


def _start(directory: Path, task: str, told: Any) -> None:
    train(directory, task, told.fileno())


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_every_finished_step_is_whole(tmp_path, task):
    chance = random.Random(f"{task} {KILLS}")
    finished = []
    expected: list[str] = []
    for number in range(KILLS // 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        told, teller = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_start, args=(folder, task, teller))
        process.start()
        teller.close()
        # After some steps, somewhere in the next one or two.
        text, wanted = b"", chance.randrange(5)
        while text.count(b"\n") < 1 + wanted:
            text += os.read(told.fileno(), 65536)
        time.sleep(chance.uniform(0.0, 0.06))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        while block := os.read(told.fileno(), 65536):
            text += block
        told.close()
        steps = len(text.split()) - 1
        finished.append(steps)
        expected = whole(folder, steps, task, expected)
        shutil.rmtree(folder)
    assert expected, "no process lived to the end of a step"
    assert len(set(finished)) > 3, f"the moments are all alike: {finished}"


def whole(folder: Path, steps: int, task: str, expected: list[str]) -> list[str]:
    """The names of a step, which all finished steps have."""
    for step in range(steps):
        dump = Dump(folder, step).check()
        expected = expected or dump.names
        assert dump.names == expected
        if task == "tensor":
            stored = set(os.listdir(dump.folder / "dump_tensor_data"))
            for record in dump.data.values():
                for tensor in _tensors(record):
                    assert tensor["data_name"] in stored
    # What a step that did not end left under the final names is whole, too.
    for path in folder.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    for path in folder.rglob("*.pt"):
        data = path.read_bytes()
        assert data[:2] == b"PK"
        assert b"PK\x05\x06" in data[-64:]
    return expected


def _tensors(element: Any) -> list[dict[str, Any]]:
    from dump_support import tensors_of

    return tensors_of(element)
