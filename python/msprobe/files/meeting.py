# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One job done by several processes, on one or many nodes: each does a share, process 0 puts the parts
together. They meet in the output folder, which all of them see; nothing else connects them.

In {output}/.{command}_{run}/ process N keeps `hello.N.json` with a number it drew at random, and writes it
again every second. Process 0 answers with `start.json`: a number of its own, and those it has seen. Process N
begins once its number stands there, and puts process 0's number into its `part.N.json`. So nothing that an
earlier run left behind can be taken for a part of this one, whatever its age. All files are written under
another name and renamed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.regular_file import read_text
from msprobe.native import Error, InvalidArgument, IoError

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_BEAT = 1.0  # seconds between two signs of life
_LOOK = 0.05  # seconds between two looks at files that are waited for; of many processes longer, up to a beat


@dataclass(frozen=True)
class Process:
    """One of several that share a job."""

    number: int
    count: int
    run: str
    """The same for all processes of one run, and a name for a folder."""


def of_environment(environment: Mapping[str, str] = os.environ) -> Process | None:
    """What torchrun says; None outside of it, and for a single process. Raises InvalidArgument."""
    if "TORCHELASTIC_RUN_ID" not in environment or "RANK" not in environment:
        return None
    number, count = _whole(environment, "RANK"), _whole(environment, "WORLD_SIZE")
    if number >= count:
        raise InvalidArgument(
            f"the environment says RANK={number} of WORLD_SIZE={count}, expected a smaller RANK"
        )
    if count == 1:
        return None
    run = f"{environment['TORCHELASTIC_RUN_ID']}_{environment.get('MASTER_PORT', '')}"
    return Process(number, count, re.sub(r"[^A-Za-z0-9_-]", "_", run)[:80])


def _whole(environment: Mapping[str, str], key: str) -> int:
    text = environment.get(key, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidArgument(f"the environment says {key}={text!r}, expected a whole number")
    return int(text)


class Meeting:
    """`with Meeting(...) as meeting:` in every process; see above."""

    def __init__(self, output: Path, process: Process, timeout: float, *, name: str) -> None:
        """`output`: a folder that all processes see. `name`: of the command, so that two do not meet."""
        self._folder = output / f".{name}_{process.run}"
        self._process = process
        self._timeout = timeout
        self._own = os.urandom(16).hex()
        self._interval = min(_BEAT, _LOOK * max(1.0, process.count / 16))
        self._start = ""
        """The number of process 0."""
        self._moment = ""
        self._over = threading.Event()
        self._watch = _Watch(process.count)
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Meeting:
        make_directory(self._folder)
        if self._process.number != 0:
            self._say_hello(0)
            self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._process.number == 0:
            shutil.rmtree(self._folder, ignore_errors=True)

    def agree_on(self, choose: Callable[[], str]) -> str:
        """The text that process 0 chooses, in every process. Raises IoError when process 0 does not come."""
        if self._process.number == 0:
            self._start, self._moment = self._own, choose()
            self._thread.start()
            return self._moment
        deadline = time.monotonic() + self._timeout
        while True:
            start = _read(self._file("start"))
            if start.get("seen", {}).get(str(self._process.number)) == self._own:
                self._start = start["number"]
                return str(start["chosen"])
            if time.monotonic() > deadline:
                raise IoError(
                    f"{self._folder}: process 0 of {self._process.count} did not answer within "
                    f"{self._timeout:g} s; expected it to run in the same output folder"
                )
            time.sleep(self._interval)

    def deliver(self, part: dict[str, Any]) -> None:
        """Gives process 0 what this one found: what JSON can hold, without the key "start"."""
        content = {"start": self._start, **part}
        write_text(self._file("part", self._process.number), json.dumps(content))

    def collect(self) -> tuple[list[dict[str, Any]], list[int]]:
        """In process 0: the parts of the others, and the numbers of those that are lost."""
        waiting = set(range(1, self._process.count))
        parts: list[dict[str, Any]] = []
        lost: list[int] = []
        while waiting:
            for number in sorted(waiting):
                content = _read(self._file("part", number))
                if content.get("start") == self._start:
                    parts.append(content)
                    waiting.remove(number)
                elif self._watch.silence(number) > self._timeout:
                    lost.append(number)
                    waiting.remove(number)
            if waiting:
                time.sleep(self._interval)
        return parts, lost

    def _live(self) -> None:
        """Process 0 answers who says hello; the others go on saying it. A full disk or a folder that is gone
        for a moment ends nothing: whoever waits has a time limit.
        """
        beat = 0
        while not self._over.wait(self._interval if self._process.number == 0 else _BEAT):
            beat += 1
            with contextlib.suppress(Error):
                if self._process.number == 0:
                    self._answer()
                else:
                    self._say_hello(beat)

    def _say_hello(self, beat: int) -> None:
        text = json.dumps({"number": self._own, "beat": beat})
        write_text(self._file("hello", self._process.number), text)

    def _answer(self) -> None:
        hellos = {number: _read(self._file("hello", number)) for number in range(1, self._process.count)}
        if self._watch.has_new(hellos) or not self._file("start").exists():
            seen = {number: hello.get("number") for number, hello in hellos.items() if hello}
            content = {"number": self._own, "chosen": self._moment, "seen": seen}
            write_text(self._file("start"), json.dumps(content))

    def _file(self, kind: str, number: int | None = None) -> Path:
        return self._folder / (f"{kind}.json" if number is None else f"{kind}.{number}.json")


class _Watch:
    """When each process last gave a sign of life, by the clock of the one that watches."""

    def __init__(self, count: int) -> None:
        self._hellos: dict[int, dict[str, Any]] = {}
        self._heard = dict.fromkeys(range(1, count), time.monotonic())

    def has_new(self, hellos: dict[int, dict[str, Any]]) -> bool:
        """Takes notice of what the processes say; True when one of them is there for the first time."""
        is_new = False
        for number, hello in hellos.items():
            known = self._hellos.get(number, {})
            if hello and hello != known:
                self._heard[number] = time.monotonic()
                is_new = is_new or hello.get("number") != known.get("number")
                self._hellos[number] = hello
        return is_new

    def silence(self, number: int) -> float:
        return time.monotonic() - self._heard[number]


def _read(path: Path) -> dict[str, Any]:
    """Empty when the file is not there, or is not ours."""
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
