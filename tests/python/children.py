# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Child processes that run a scenario each.

There is one debugger in a process, and what it patches belongs to the whole process: a scenario gets its own,
forked from a server that has imported torch already, so that one costs a fraction of a second.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "numpy", "msprobe.pytorch", "torch.distributed"])
SPAWN = multiprocessing.get_context("spawn")
"""For a scenario that needs a process in which nothing has been imported; some seconds more."""


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

    def __init__(
        self, function: Callable[..., Any], *arguments: Any, context: Any = CONTEXT, **environment: str
    ) -> None:
        self._answers, answers = context.Pipe(duplex=False)
        file, stacks = tempfile.mkstemp()
        os.close(file)
        self._stacks = Path(stacks)
        work = (answers, stacks, environment, function, arguments)
        self.process = context.Process(target=_work, args=work)
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


def run(
    function: Callable[..., Any],
    *arguments: Any,
    timeout: float = 60,
    context: Any = CONTEXT,
    **environment: str,
) -> Any:
    """What `function(*arguments)` returns in a process of its own. It must be at the top of its module."""
    return Child(function, *arguments, context=context, **environment).result(timeout)


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
