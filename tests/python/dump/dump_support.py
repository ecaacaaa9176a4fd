# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Child processes that run a scenario each, and reading what the data dump wrote.

There is one debugger in a process, and what it patches belongs to the whole process: a scenario gets its own,
forked from a server that has imported torch already, so that one costs a fraction of a second.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "numpy", "msprobe.pytorch", "torch.distributed"])

LEVELS = ("L0", "L1", "mix")


# ---- processes


def _work(
    answers: Any, stacks: str, environment: dict[str, str], function: Callable[..., Any], arguments: Any
) -> None:
    import torch

    faulthandler.register(signal.SIGUSR1, open(stacks, "w"))  # noqa: SIM115 - open as long as the process
    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        answers.send((True, function(*arguments)))
    except BaseException:
        answers.send((False, traceback.format_exc()))


class Child:
    """A scenario in a process of its own."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **environment: str) -> None:
        self._answers, answers = CONTEXT.Pipe(duplex=False)
        file, stacks = tempfile.mkstemp()
        os.close(file)
        self._stacks = Path(stacks)
        work = (answers, stacks, environment, function, arguments)
        self.process = CONTEXT.Process(target=_work, args=work)
        self.process.start()
        answers.close()

    def result(self, timeout: float = 60) -> Any:
        """What the function returned; fails with its traceback, or when it takes too long or dies."""
        try:
            if not self._answers.poll(timeout):
                raise AssertionError(f"no answer within {timeout} s\n{self._threads()}")
            try:
                fine, answer = self._answers.recv()
            except EOFError:
                self.process.join(5)
                raise AssertionError(f"the process died: {self.process.exitcode}") from None
            assert fine, answer
            self.process.join(timeout)
            if self.process.is_alive():
                raise AssertionError(f"answered, and did not end within {timeout} s\n{self._threads()}")
            assert self.process.exitcode == 0, f"exit code {self.process.exitcode}"
            return answer
        finally:
            self.end()

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._answers.close()
        self._stacks.unlink(missing_ok=True)

    def _threads(self) -> str:
        """What the threads of a process that does not end are waiting for, and the Python frames of each."""
        lines = []
        for task in Path("/proc").glob(f"{self.process.pid}/task/*"):
            with contextlib.suppress(OSError):  # it ends after all
                name, status, place = ((task / of).read_text() for of in ("comm", "status", "wchan"))
                state = next(line for line in status.splitlines() if line.startswith("State:"))
                lines.append(f"{name.strip()}: {state}, {place}")
        with contextlib.suppress(OSError):
            os.kill(self.process.pid, signal.SIGUSR1)
            time.sleep(1)
        return "\n".join([*lines, self._stacks.read_text()])


def run(function: Callable[..., Any], *arguments: Any, timeout: float = 60, **environment: str) -> Any:
    """What `function(*arguments)` returns in a process of its own. It must be at the top of its module."""
    return Child(function, *arguments, **environment).result(timeout)


def run_ranks(
    function: Callable[..., Any], *arguments: Any, ranks: int = 2, timeout: float = 90
) -> list[Any]:
    """The same in processes that can meet as the ranks of a gloo process group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    children = [
        Child(
            function,
            *arguments,
            RANK=str(rank),
            WORLD_SIZE=str(ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for rank in range(ranks)
    ]
    answers, faults = [], []
    for rank, child in enumerate(children):
        try:
            answers.append(child.result(timeout))
        except AssertionError as fault:  # the first rank to complain is seldom the one at fault
            faults.append(f"rank {rank}: {fault}")
    assert not faults, "\n".join(faults)
    return answers


# ---- in the child


def debugger(
    directory: Path, *, task: str = "statistics", level: str = "mix", section: Any = None, **keys: Any
) -> Any:
    """The debugger of this process, which writes to directory/dump."""
    from msprobe import PrecisionDebugger

    content = {"task": task, "level": level, "dump_path": str(directory / "dump"), **keys}
    if section is not None:
        content[task] = section
    path = directory / "config.json"
    mine = directory / f"config.json.{os.getpid()}"
    mine.write_text(json.dumps(content), encoding="utf-8")
    mine.replace(path)  # ranks share the name: none may read what another has half written
    return PrecisionDebugger(path)


@contextlib.contextmanager
def captured(directory: Path, model: Any = None, **configuration: Any) -> Iterator[Any]:
    """One step that is captured from here to the end of the block."""
    probe = debugger(directory, **configuration)
    probe.start(model)
    yield probe
    probe.stop()
    probe.step()


def log_of(work: Callable[[], None]) -> list[str]:
    """The warnings and errors that msprobe logs meanwhile."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("msprobe")
    handler = Keep(level=logging.WARNING)
    logger.addHandler(handler)
    try:
        work()
    finally:
        logger.removeHandler(handler)
    return lines


# ---- what was written


class Dump:
    """The files of one step and rank."""

    def __init__(self, directory: Path, step: int = 0, rank: int | None = None) -> None:
        folder = "rank" if rank is None else f"rank{rank}"
        self.folder = directory / "dump" / f"step{step}" / folder

    def json(self, name: str) -> Any:
        text = (self.folder / name).read_text(encoding="utf-8")
        value = json.loads(text)
        assert json.dumps(value, indent=1) == text, f"{name} has another form than json.dumps(indent=1)"
        return value

    @property
    def data(self) -> dict[str, Any]:
        return self.json("dump.json")["data"]

    @property
    def names(self) -> list[str]:
        return list(self.data)

    @property
    def parents(self) -> dict[str, str | None]:
        return self.json("construct.json")

    @property
    def faults(self) -> str:
        path = self.folder / "dump_error_info.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def check(self) -> Dump:
        """All files are whole, nothing went wrong inside, and every parent is there."""
        self.json("stack.json")
        parents = self.parents
        assert not self.faults
        assert {parent for parent in parents.values() if parent is not None} <= set(parents)
        return self


def tensors_of(element: Any) -> list[dict[str, Any]]:
    """The tensors of a record or a part of one, in order."""
    if isinstance(element, list):
        return [tensor for item in element for tensor in tensors_of(item)]
    if isinstance(element, dict):
        if element.get("type") == "torch.Tensor":
            return [element]
        return [tensor for item in element.values() for tensor in tensors_of(item)]
    return []


def wait_until(true: Callable[[], bool], timeout: float = 20) -> None:
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)
