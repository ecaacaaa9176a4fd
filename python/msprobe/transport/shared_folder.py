# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Steps over a folder that both sides see (docs/formats/online_check.md). Each process of a training has a
folder of its own there, in which a step is complete when it has its name. Ages are told by the clock of the
file system.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.regular_file import open_to_write, read_text
from msprobe.native import InvalidArgument, IoError, log
from msprobe.transport.frames import is_file_of_step
from msprobe.transport.received import Arrivals, ReceivedStep, refusal, say_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCK = "checker.lock"
_BEAT = 5.0  # seconds between two signs of life
_SILENCE = 60.0  # seconds without one, after which a process is lost
_LOOK = 0.1
_WAITING = 2  # steps of one process that wait in the folder
_CLIENT = re.compile(r"rank([0-9]{1,6})_([0-9a-zA-Z]{1,64})")
_STEP = re.compile(r"step([0-9]{1,9})")


# ---- the training's end


class FolderLink:
    """Puts steps into the folder."""

    def __init__(self, folder: str, client: str, rank: int) -> None:
        self._own = make_directory(Path(folder) / f"rank{rank}_{client}")
        write_text(self._own / "client.json", json.dumps(_identity()))
        self._beat = time.monotonic()

    def deliver(self, step: int, folder: Path, over: Callable[[], bool]) -> None:
        """Gives up when it is `over` before there is room. Raises OSError, Refused where nobody wants it."""
        while self._waiting() >= _WAITING:
            self.keep_alive()
            if over():
                return
            time.sleep(_LOOK)
        target = self._own / f"step{step}"
        try:
            os.rename(folder, target)
        except OSError:  # another file system
            part = self._own / f".step{step}.part"
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(folder, part)
            os.rename(part, target)
            shutil.rmtree(folder, ignore_errors=True)

    def keep_alive(self) -> None:
        """Raises OSError, Refused."""
        refused = self._own / "refused"
        if refused.exists():
            reason = read_text(refused, errors="replace")[:500]
            shutil.rmtree(self._own, ignore_errors=True)
            raise Refused(reason)
        if time.monotonic() - self._beat > _BEAT:
            self._beat = time.monotonic()
            os.utime(self._own / "client.json")

    def say_bye(self) -> None:
        write_text(self._own / "end", "")

    def close(self) -> None:
        pass

    def _waiting(self) -> int:
        return sum(1 for name in os.listdir(self._own) if _STEP.fullmatch(name))


class Refused(Exception):
    """The checker does not want what this process sends."""


# ---- the checker's end


class FolderWatch:
    """`with FolderWatch(...):`, then `arrivals` has the steps. Raises InvalidArgument where another checker
    has the folder, IoError where it cannot be written.
    """

    def __init__(self, folder: str, arrivals: Arrivals, *, silence: float = _SILENCE) -> None:
        self._folder = Path(folder)
        self._arrivals = arrivals
        self._silence = silence
        self._lock_file = self._folder / LOCK
        self._taken: set[Path] = set()
        self._over: set[Path] = set()
        self._warned = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> FolderWatch:
        self._take_lock()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._arrivals.close()
        self._thread.join()
        for folder in self._over:
            shutil.rmtree(folder, ignore_errors=True)
        self._lock_file.unlink(missing_ok=True)

    # ---- one checker for a folder

    def _take_lock(self) -> None:
        for _ in range(2):
            try:
                with open_to_write(self._lock_file, is_new=True) as file:
                    file.write(json.dumps(_identity()).encode())
                return
            except FileExistsError:
                self._remove_stale_lock()
            except OSError as error:
                raise IoError(f"cannot write {self._lock_file}: {os.strerror(error.errno or 0)}") from error
        raise InvalidArgument(f"{self._lock_file}: another checker has just taken the folder")

    def _remove_stale_lock(self) -> None:
        holder = _read(self._lock_file)
        if not self._is_lost(self._lock_file, holder):
            raise InvalidArgument(
                f"{self._lock_file}: another checker works in this folder (process {holder.get('pid')} on "
                f"{holder.get('host')}); expected one for each folder"
            )
        log.warning("%s: its checker is gone: the lock is taken over", self._lock_file)
        with contextlib.suppress(OSError):
            aside = self._lock_file.with_name(f".{LOCK}.{os.getpid()}")
            os.rename(self._lock_file, aside)  # one of several wins
            aside.unlink()

    def _is_lost(self, sign: Path, who: dict[str, Any]) -> bool:
        """Whether the process that keeps a file young is gone."""
        if who.get("host") == socket.gethostname() and isinstance(who.get("pid"), int):
            return not _is_alive(who["pid"], who.get("started"))
        try:
            return self._now() - sign.stat().st_mtime > self._silence
        except OSError:
            return True

    def _now(self) -> float:
        probe = self._folder / f".now.{os.getpid()}"
        try:
            probe.write_bytes(b"")
            return probe.stat().st_mtime
        except OSError:
            return time.time()
        finally:
            probe.unlink(missing_ok=True)

    # ---- steps

    def _watch(self) -> None:
        beat = 0.0
        while not self._arrivals.is_closed:
            try:
                if time.monotonic() - beat > _BEAT:
                    beat = time.monotonic()
                    os.utime(self._lock_file)
                for client in self._clients():
                    self._look_at(client)
            except OSError as error:
                self._arrivals.fail(IoError(f"{self._folder}: {os.strerror(error.errno or 0)}"))
                return
            time.sleep(_LOOK)

    def _clients(self) -> Iterator[Path]:
        for name in sorted(os.listdir(self._folder)):
            if _CLIENT.fullmatch(name):
                client = self._folder / name
                if client not in self._over and client.is_dir() and not client.is_symlink():
                    yield client
            elif name.endswith(".pt") or name.startswith(("start_", "end_")):
                if not self._warned:
                    log.warning(
                        "%s: files like %s are pickles, which are not read: both sides have to be msprobe",
                        self._folder,
                        name,
                    )
                self._warned = True

    def _look_at(self, client: Path) -> None:
        match = _CLIENT.fullmatch(client.name)
        assert match is not None
        rank = int(match[1])
        reason = refusal(rank, self._arrivals.ranks)
        if reason:
            with contextlib.suppress(OSError, IoError):
                write_text(client / "refused", reason)
            self._over.add(client)
            return
        self._arrivals.begin(rank)
        names = os.listdir(client)
        waiting = sorted(int(m[1]) for m in map(_STEP.fullmatch, names) if m)
        for step in waiting:
            folder = client / f"step{step}"
            if folder in self._taken or folder.is_symlink() or not folder.is_dir():
                continue
            if not self._arrivals.put(ReceivedStep(match[2], rank, step, folder)):
                return
            self._taken.add(folder)
        if waiting:
            return
        if "end" in names:
            if any(map(_STEP.fullmatch, os.listdir(client))):
                return  # it came while the names were read
        else:
            sign = client / "client.json"
            if not self._is_lost(sign, _read(sign)):
                return
            say_lost(client.name, rank)
        self._over.add(client)
        self._arrivals.end(rank)


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """The files of a recorded step that travel."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if is_file_of_step(name) and path.is_file() and not path.is_symlink():
            found.append((name, path))
    return found


def _identity() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _start_of(os.getpid())}


def _start_of(pid: int) -> str:
    """Tells a process from another one with its number; empty: the system does not say."""
    try:
        text = read_text(f"/proc/{pid}/stat", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _is_alive(pid: int, started: object) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return not started or _start_of(pid) == started


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
