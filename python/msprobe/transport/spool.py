# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The training's end of an online check: a folder in which a few recorded steps wait for the courier, the
process that brings them to the checker. When it is full, steps are not recorded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.native import log
from msprobe.transport import courier

if TYPE_CHECKING:
    from msprobe.config.online_check import Meeting

_MOST_STEPS = 4
"""That wait."""
_PATIENCE = 60.0  # seconds at the end of a training for what still waits
_MARGIN = 2.0  # seconds more for the courier to end


class Spool:
    """Nothing in it raises or waits, but for close()."""

    def __init__(
        self,
        meeting: Meeting,
        parent: str,
        rank: int,
        *,
        most_steps: int = _MOST_STEPS,
        patience: float = _PATIENCE,
    ) -> None:
        self._most = most_steps
        self._patience = patience
        self._client = os.urandom(8).hex()
        self._folder = Path(os.path.abspath(parent)) / f"online_check_rank{rank}_{os.getpid()}"
        self._recorded = self._dropped = 0
        self._step: int | None = None  # that is being recorded
        self._left_out: int | None = None
        self._said = False
        self._process = self._start(meeting, rank)

    def begin(self, step: int) -> str:
        """The folder to record a step into; empty: it is left out. Any number of times for a step."""
        if step == self._step:
            return str(self._path(step))
        if step == self._left_out:
            return ""
        waiting = self._waiting()
        if self._process is None or self._process.poll() is not None or waiting >= self._most:
            self._left_out = step
            self._dropped += 1
            self._say_dropped(waiting)
            return ""
        self._step = step
        return str(self._path(step))

    def end(self, step: int) -> None:
        """The files of the step are complete."""
        if step != self._step:
            return
        self._step = None
        if not (self._path(step) / "dump.json").exists():
            shutil.rmtree(self._path(step), ignore_errors=True)
            return
        self._recorded += 1
        try:
            assert self._process is not None
            assert self._process.stdin is not None
            self._process.stdin.write(f"{step} {json.dumps(str(self._path(step)))}\n")
            self._process.stdin.flush()
        except OSError:
            pass  # the courier is gone, and has said why; the step stays, and is counted

    def close(self) -> None:
        """Returns when everything is delivered, or a minute is over."""
        if self._process is None:
            return
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(courier.END)
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(self._patience + _MARGIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        lost = self._waiting() + self._dropped
        if lost:
            log.warning(
                "online check: %d of %d steps were not checked: the checker was not there, or too slow",
                lost,
                self._recorded + self._dropped,
            )
        shutil.rmtree(self._folder, ignore_errors=True)

    def forget(self) -> None:
        """In a forked child: the courier is the parent's."""
        self._process = None

    def _path(self, step: int) -> Path:
        return self._folder / f"step{step}"

    def _waiting(self) -> int:
        try:
            return len(os.listdir(self._folder)) - (
                self._step is not None and self._path(self._step).exists()
            )
        except OSError:
            return 0

    def _say_dropped(self, waiting: int) -> None:
        if self._said:
            return
        self._said = True
        if waiting >= self._most:
            log.warning("online check: %d steps wait for the checker: further ones are left out", waiting)
        else:
            log.warning("online check: nothing is checked any more")

    def _start(self, meeting: Meeting, rank: int) -> subprocess.Popen[str] | None:
        task = {
            "client": self._client,
            "rank": rank,
            "spool": str(self._folder),
            "patience": self._patience,
            "nfs_path": os.path.abspath(meeting.nfs_path) if meeting.nfs_path else "",
            "host": meeting.host,
            "port": meeting.port,
            "tls_path": os.path.abspath(meeting.tls_path) if meeting.tls_path else "",
        }
        # The program of the user may have put msprobe on its path by hand.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        try:
            return subprocess.Popen(
                [sys.executable, "-m", courier.__name__, json.dumps(task)],
                stdin=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the training, which ends it in order
            )
        except OSError as error:
            log.warning("online check: no process can be started: %s", os.strerror(error.errno or 0))
            return None
