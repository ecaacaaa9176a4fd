# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that judge operators beside the program. They are started by their own command, so that a script
needs no `if __name__ == "__main__"`. Requests and answers are what torch.load(weights_only=True) reads:
tensors and plain values.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any

from msprobe.compat.online_dispatch.judging import Judged, judge_operator, name_of, operator_named
from msprobe.native import log
from msprobe.replay.dump_file import RecordedCall

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

_LENGTH = struct.Struct("<Q")
_WAITING = 2  # operators that wait, for each process; their tensors are in memory
_MODULE = "msprobe.compat.online_dispatch.workers"


class Workers:
    """`done` is called in a thread of this process for each operator, in no order; it raises nothing."""

    def __init__(self, count: int, done: Callable[[RecordedCall, Judged], None]) -> None:
        self._done = done
        self._room = threading.Semaphore(count * (_WAITING + 1))
        self._free: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self._processes = [_Process() for _ in range(count)]
        for process in self._processes:
            self._free.put(process)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="msprobe dispatch")

    def submit(self, name: str, call: RecordedCall, raised: dict[torch.dtype, torch.dtype]) -> None:
        """Waits while too many others wait."""
        self._room.acquire()
        self._threads.submit(self._run, name, call, raised).add_done_callback(self._leave)

    def close(self) -> None:
        """Waits for everything."""
        self._threads.shutdown(wait=True)
        for process in self._processes:
            process.close()

    def _run(self, name: str, call: RecordedCall, raised: dict[torch.dtype, torch.dtype]) -> None:
        process = self._free.get()
        try:
            judged = process.ask(name, call, raised)
        finally:
            self._free.put(process)
        # An operator that is not known there (of a library of the script), or arguments of another kind.
        self._done(call, judged if judged is not None else judge_operator(name, call, raised))

    def _leave(self, future: Future[None]) -> None:
        self._room.release()
        if future.exception() is not None:
            log.warning("PtdbgDispatch: an operator was not judged: %s", future.exception())


class _Process:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, name: str, call: RecordedCall, raised: dict[torch.dtype, torch.dtype]) -> Judged | None:
        """None: the process cannot do it, or is gone."""
        import torch

        assert call.operator is not None
        assert not isinstance(call.folder, (str, type(None)))
        request = {
            "name": name,
            "call": call.name,
            "operator": name_of(call.operator),
            "forward": call.forward,
            "tensors": dict(call.folder),
            "raised": raised,
        }
        try:
            stream = io.BytesIO()
            torch.save(request, stream)
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            _write(self._process.stdin, stream.getvalue())
            answer = _read(self._process.stdout)
        except Exception as error:  # what cannot be saved; a process that was ended
            log.debug("%s is judged in this process: %s", name, error)
            return None
        if not answer:
            return None
        return Judged(**torch.load(io.BytesIO(answer), weights_only=True))

    def close(self) -> None:
        with contextlib.suppress(OSError), self._process:  # closes its pipes, and waits for it
            pass


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    head = stream.read(_LENGTH.size)
    return stream.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else b""


def _answer(data: bytes) -> bytes:
    """Empty: it cannot be judged here."""
    import torch

    try:
        request: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True)
    except Exception:  # a kind of argument that is no plain value
        return b""
    operator = operator_named(request["operator"])
    if operator is None:
        return b""
    call = RecordedCall(request["call"], request["forward"], None, request["tensors"], operator=operator)
    judged = judge_operator(request["name"], call, request["raised"])
    stream = io.BytesIO()
    torch.save(vars(judged), stream)
    return stream.getvalue()


def main() -> None:
    # Nothing that is printed here may stand between the answers.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    while data := _read(sys.stdin.buffer):
        _write(out, _answer(data))


if __name__ == "__main__":
    main()
