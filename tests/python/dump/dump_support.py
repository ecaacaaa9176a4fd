# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Recording in a child process, and reading what the data dump wrote."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from children import CONTEXT, Child, run, run_ranks  # noqa: F401  (for the tests beside)

LEVELS = ("L0", "L1", "mix")


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
