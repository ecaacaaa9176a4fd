# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, and which run it belongs to."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import uuid
from typing import TYPE_CHECKING, Any

from msprobe.config_check.packs.pack_writer import Run
from msprobe.files.regular_file import open_text
from msprobe.native import log

if TYPE_CHECKING:
    from pathlib import Path

_STORE_KEY = "msprobe/config_check/run"

# How many packs this process has begun at a path. All processes of a run begin them in the same order.
_begun: dict[str, int] = {}


def current_rank() -> int:
    """Of torch.distributed; before it is initialised what the launcher says, 0 without one."""
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_rank())
    text = os.environ.get("RANK", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def process_count() -> int:
    """How many processes the run has: of torch.distributed, before it is initialised what the launcher says;
    1: it is alone, or does not know.
    """
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_world_size())
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 else 1


def own_run(path: Path) -> Run:
    """The run that this process belongs to, for the next pack at `path`."""
    key = os.path.realpath(path)
    number = _begun[key] = _begun.get(key, -1) + 1
    return Run(_run_id(), number)


def _run_id() -> str:
    """The same in all processes of a run, and in no other run."""
    shared = _of_store()
    if shared is not None:
        return shared
    # The launcher is the parent of all processes of a machine; one alone may have been started by a shell,
    # which starts the next run, too.
    is_launched = bool(os.environ.get("RANK")) and os.environ.get("WORLD_SIZE") != "1"
    if is_launched or multiprocessing.parent_process() is not None:
        return f"launcher {os.uname().nodename} {os.getppid()} {_start_of(os.getppid())}"
    return _id_of_process(os.getpid())


@functools.lru_cache(maxsize=1)
def _id_of_process(_: int) -> str:
    return f"process {uuid.uuid4().hex}"


def _of_store() -> str | None:
    """One process names the run; the others find the name. No collective: nobody waits for anybody."""
    distributed = _distributed()
    if distributed is None:
        return None
    try:
        store = distributed.distributed_c10d._get_default_store()
        proposal = f"group {uuid.uuid4().hex}"
        answer: bytes = store.compare_set(_STORE_KEY, "", proposal)
        return answer.decode()
    except Exception as error:  # whatever a store may raise
        log.debug("config check: the store of torch.distributed has no name for the run: %s", error)
        return None


def _distributed() -> Any | None:
    """torch.distributed once it is initialised; torch is not imported for it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _start_of(process: int) -> str:
    """When it started: numbers of processes are used again."""
    try:
        with open_text(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
