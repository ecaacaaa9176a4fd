# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""multi_run_ut: run_ut by several processes, which append to one pair of files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from msprobe.compat.accuracy.config import RunUtConfig, load_run_ut_config
from msprobe.compat.accuracy.run import Job, RunUtOptions, RunUtResult, device_of, prepare, result_of, work
from msprobe.native import Error, InternalError, InvalidArgument
from msprobe.terminal.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.context import SpawnProcess

MOST_PROCESSES = 64
_LOOK = 0.1  # seconds


def multi_run_ut(
    api_info: str | os.PathLike[str],
    out_path: str | os.PathLike[str] = "./",
    *,
    num_splits: int = 8,
    devices: Sequence[int | str] = (0,),
    config_path: str | os.PathLike[str] | None = None,
    save_error_data: bool = False,
    result_csv_path: str = "",
    filter_api: bool = False,
) -> RunUtResult:
    """As run_ut(), by `num_splits` processes, round robin over the devices. Call it below
    `if __name__ == "__main__"`, as multiprocessing wants it. Raises what run_ut() raises.
    """
    options = RunUtOptions(
        output=os.fspath(out_path),
        devices=tuple(devices),
        save_error_data=save_error_data,
        continue_from=result_csv_path,
        filter_api=filter_api,
        config=load_run_ut_config(config_path) if config_path else RunUtConfig(),
    )
    return check_dump_in_processes(os.fspath(api_info), options, num_splits)


def check_dump_in_processes(path: str, options: RunUtOptions, count: int) -> RunUtResult:
    """As multi_run_ut(), with options that are checked already."""
    if not 1 <= count <= MOST_PROCESSES:
        raise InvalidArgument(f"num_splits: expected 1 to {MOST_PROCESSES} processes, found {count}")
    job = prepare(path, options)
    shares = [job.names[i::count] for i in range(count)]
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", 0)
    faults = context.SimpleQueue()
    processes = [
        context.Process(
            target=_run_share,
            args=(job, options.devices[i % len(options.devices)], share, count, done, faults),
            daemon=True,
        )
        for i, share in enumerate(shares)
        if share
    ]
    try:
        for process in processes:
            process.start()
        with Progress("Processing", shown=options.shows_progress) as progress:
            _wait(processes, done, len(job.names), progress)
    finally:
        _end(processes)
    if not faults.empty():
        raise faults.get()
    _check_exits(processes, job)
    return result_of(job.files)


def _run_share(job: Job, device: int | str, names: list[str], count: int, done: Any, faults: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    try:
        import torch

        # Together the processes have the cores of one.
        torch.set_num_threads(max(1, torch.get_num_threads() // count))
        name = device_of(device, job.options.jit_compile)
        work(job, name, names, lambda *_: _count(done))
    except Error as error:
        faults.put(type(error)(str(error)))


def _count(done: Any) -> None:
    with done.get_lock():
        done.value += 1


def _wait(processes: list[SpawnProcess], done: Any, total: int, progress: Progress) -> None:
    while any(process.is_alive() for process in processes):
        progress(done.value, total)
        time.sleep(_LOOK)


def _end(processes: list[SpawnProcess]) -> None:
    for process in processes:
        if process.is_alive():
            process.terminate()
    for process in processes:
        if process.pid is not None:
            process.join()


def _check_exits(processes: list[SpawnProcess], job: Job) -> None:
    bad = [process.exitcode for process in processes if process.exitcode != 0]
    if bad:
        raise InternalError(
            f"{len(bad)} of {len(processes)} processes ended early (exit code {bad[0]}); what they have "
            f"checked is in {job.files.results}, which -csv_path continues"
        )
