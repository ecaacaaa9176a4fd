# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings, checkers and certificates for tests of the online check."""

from __future__ import annotations

import csv
import json
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from msprobe.compat.accuracy import online
from msprobe.compat.accuracy.config import load_run_ut_config
from msprobe.compat.accuracy.run import RunUtOptions


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def train(
    folder: str, section: dict[str, Any], steps: int, patience: float = 60, most: int = 4
) -> list[float]:
    """A model of a few functions, its gradients after each step. What is said goes to the file "said"."""
    import os

    import torch

    os.dup2(os.open(f"{folder}/said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    from msprobe.pytorch import PrecisionDebugger
    from msprobe.transport import spool

    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    spool.Spool.__init__.__kwdefaults__.update(patience=patience, most_steps=most)  # type: ignore[attr-defined]
    path = Path(folder) / f"config{os.environ.get('RANK', '')}.json"
    content = {"task": "tensor", "dump_path": f"{folder}/dump", "level": "L1", "tensor": section}
    path.write_text(json.dumps(content if section else {**content, "task": "statistics", "step": [9999]}))
    PrecisionDebugger(path)
    torch.manual_seed(0)
    weight = torch.randn(8, 6, requires_grad=True)
    found = []
    for _ in range(steps):
        PrecisionDebugger.start()
        hidden = torch.relu(torch.nn.functional.linear(torch.randn(4, 6), weight))
        torch.sum(torch.nn.functional.softmax(hidden * 2, dim=-1).pow(2)).backward()
        PrecisionDebugger.stop()
        PrecisionDebugger.step()
        assert weight.grad is not None
        found.append(float(weight.grad.double().sum()))
    PrecisionDebugger._reset()
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()
    return found


class Checker:
    """check_online() in a thread."""

    def __init__(self, folder: Path, **section: Any) -> None:
        folder.mkdir(exist_ok=True)
        path = folder / "checker.json"
        path.write_text(json.dumps({"task": "run_ut", "run_ut": {"is_online": True, **section}}))
        options = RunUtOptions(str(folder / "out"), ("cpu",), config=load_run_ut_config(path))
        ready = threading.Event()
        self.results: dict[int, online.RankResult] = {}
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self.results = online.check_online(options, lambda _: ready.set())
            except BaseException as error:
                self._error = error
                ready.set()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert ready.wait(30)

    def join(self, timeout: float = 60) -> dict[int, online.RankResult]:
        self._thread.join(timeout)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self.results


def table(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def statuses(path: Path) -> list[list[str]]:
    """Name, forward and backward of each call, and the step of an online check."""
    header, *rows = table(path)
    return [row[:3] + (row[4:5] if header[-1] == "Step" else []) for row in rows]


def certificates(folder: Path) -> Path:
    """An authority, and a key and certificate of each side."""
    folder.mkdir()

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "rsa:2048", "-nodes")
    openssl(
        "req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=authority"
    )
    for side in ("server", "client"):
        openssl("req", *new, "-keyout", f"{side}.key", "-out", f"{side}.csr", "-subj", f"/CN={side}")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        openssl("x509", "-req", "-in", f"{side}.csr", *signed, "-out", f"{side}.crt")
    return folder
