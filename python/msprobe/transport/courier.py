# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The process that brings recorded steps to a checker: beside the training, so that nothing of it waits for a
network, for TLS or for the checker.

It is told of steps by lines on its standard input, and its end is the end of that. A step that is delivered
is removed from the spool; what is still there is not delivered. Where the end came without END, the training
was killed, and the courier removes the spool. (The number of the parent does not tell: that of one that is
dying stays for a while.)
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.regular_file import open_to_read
from msprobe.native import Error, FormatError, log, log_on_stderr
from msprobe.transport import frames
from msprobe.transport.shared_folder import FolderLink, Refused, files_of
from msprobe.transport.tls import context, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

_CONNECT = 10.0  # seconds
_ANSWER = 30.0  # seconds; a checker that is busy says so every 5
_BEAT = 10.0  # seconds between two signs of life
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0  # seconds between two attempts
END = "end\n"
"""The last line of a training that ends in order: it counts and removes itself what is left in the spool."""
REFUSED = 3
"""Exit code: the checker does not want this rank."""


class TcpLink:
    """A connection to a checker. Raises OSError, Error, Refused."""

    def __init__(self, task: dict[str, Any], tls: Any) -> None:
        connection: Any = socket.create_connection((task["host"], task["port"]), _CONNECT)
        try:
            connection.settimeout(_ANSWER)
            if tls is not None:
                connection = tls.wrap_socket(connection)
            self._connection = connection
            frames.exchange_magic(connection)
            hello = {"client": task["client"], "rank": task["rank"], "host": socket.gethostname()}
            frames.send(connection, frames.HELLO, hello)
            self._wait_for_okay()
        except BaseException:
            connection.close()
            raise

    def deliver(self, step: int, folder: Path, _over: Callable[[], bool]) -> None:
        """The answer has a time limit of its own."""
        connection = self._connection
        frames.send(connection, frames.STEP, {"step": step})
        files = files_of(folder)
        for name, path in files:
            with open_to_read(path) as file:
                frames.send_file(connection, name, file, os.fstat(file.fileno()).st_size)
        frames.send(connection, frames.DONE, {"files": len(files)})
        self._wait_for_okay()
        shutil.rmtree(folder, ignore_errors=True)

    def keep_alive(self) -> None:
        frames.send(self._connection, frames.ALIVE)

    def say_bye(self) -> None:
        frames.send(self._connection, frames.BYE)
        self._wait_for_okay()

    def close(self) -> None:
        self._connection.close()

    def _wait_for_okay(self) -> None:
        while True:
            answer = frames.receive(self._connection, (frames.OKAY, frames.WAIT, frames.STOP))
            if answer.kind == frames.STOP:
                raise Refused(str(answer.header.get("reason"))[:500])
            if answer.kind == frames.OKAY:
                return


class Courier:
    """task: client, rank, and nfs_path, or host, port and tls_path; patience: seconds for what is left at the
    end of the training.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._tls = context(task["tls_path"], "client") if task["tls_path"] else None
        self._steps: queue.SimpleQueue[tuple[int, Path] | None] = queue.SimpleQueue()
        self._ended_in_order = False
        self._deadline: float | None = None
        self._link: Any = None
        self._is_out = False

    def run(self) -> int:
        threading.Thread(target=self._listen, daemon=True).start()
        self._try(lambda: self._linked())
        while True:
            try:
                item = self._steps.get(timeout=_BEAT / 2)
            except queue.Empty:
                self._try(lambda: self._linked().keep_alive())
                continue
            if item is None:
                break
            self._deliver(*item)
        if self._link is not None:
            self._try(self._link.say_bye)
        if self._link is not None:
            self._link.close()
        if not self._ended_in_order:  # the training was killed: nobody else tidies up
            shutil.rmtree(self._task["spool"], ignore_errors=True)
        return 0

    def _listen(self) -> None:
        for line in sys.stdin:
            if line == END:
                self._ended_in_order = True
                break
            step, _, path = line.rstrip("\n").partition(" ")
            self._steps.put((int(step), Path(json.loads(path))))
        self._deadline = time.monotonic() + float(self._task["patience"])
        self._steps.put(None)

    def _over(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _linked(self) -> Any:
        if self._link is None:
            task = self._task
            if task["nfs_path"]:
                self._link = FolderLink(task["nfs_path"], task["client"], task["rank"])
            else:
                self._link = TcpLink(task, self._tls)
            if self._is_out:
                log.warning("online check: the checker is there again")
            self._is_out = False
        return self._link

    def _deliver(self, step: int, folder: Path) -> None:
        """Until it is delivered, or time is up."""
        pause = _FIRST_PAUSE
        while not self._over():
            if self._try(lambda: self._linked().deliver(step, folder, self._over)):
                return
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if self._deadline is not None:
                pause = _FIRST_PAUSE

    def _try(self, action: Any) -> bool:
        """Raises Refused."""
        try:
            action()
        except (OSError, Error, frames.Gone) as error:
            if not self._is_out:
                log.warning("online check: no checker at %s: %s", self._place(), _words(error))
            self._is_out = True
            if self._link is not None:
                self._link.close()
            self._link = None
            return False
        return True

    def _place(self) -> str:
        return self._task["nfs_path"] or f"{self._task['host']}:{self._task['port']}"


def _words(error: Exception) -> str:
    if isinstance(error, frames.Gone):
        return "it closed the connection"
    if isinstance(error, FormatError):
        return str(error)
    return reason_of(error)


def main() -> int:
    task = json.loads(sys.argv[1])
    with log_on_stderr("WARNING"):
        try:
            return Courier(task).run()
        except Refused as error:
            log.warning("online check: the checker refuses: %s", error)
            return REFUSED
        except Error as error:
            log.error("online check: %s", error)
            return 2
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
