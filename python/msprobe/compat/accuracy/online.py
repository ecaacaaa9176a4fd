# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The checking side of an online check: calls of trainings that run now, as they come in."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compat.accuracy.checker import Checker, ReceivedResult
from msprobe.compat.accuracy.details import DETAILS_HEADER, ERROR
from msprobe.compat.accuracy.error_data import save_error_data
from msprobe.compat.accuracy.precision_compare import COMPARE_HEADER, compare_details
from msprobe.compat.accuracy.precision_compare import RESULT_HEADER as COMPARE_RESULT_HEADER
from msprobe.compat.accuracy.result_files import STEP, ResultFiles, new_files, write_header
from msprobe.compat.accuracy.run import RunUtOptions, check_lists, device_of
from msprobe.compat.accuracy.server import Server
from msprobe.files.appending import append_rows
from msprobe.files.atomic_file import make_directory
from msprobe.native import Error, InvalidArgument, log
from msprobe.replay.dump_file import Dump
from msprobe.replay.execution import quiet
from msprobe.replay.memory import limited_memory
from msprobe.transport.received import Arrivals, ReceivedStep
from msprobe.transport.shared_folder import FolderWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.compat.accuracy.checker import CallResult
    from msprobe.config.online_check import Meeting

_WAITING = 4  # steps


@dataclass
class RankResult:
    """Of one rank: where the files are, and what they say."""

    files: ResultFiles
    compare_results: Path
    compare_details: Path
    seen: set[int] = field(default_factory=set)
    """Steps."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many calls have which status, forward and backward together. Of a call with three parties that of
    the comparison with the device here counts.
    """

    @property
    def steps(self) -> int:
        return len(self.seen)

    @property
    def agrees(self) -> bool:
        """No call is judged an error."""
        return self.counts[ERROR] == 0


def check_online(
    options: RunUtOptions, ready: Callable[[int], None] = lambda port: None
) -> dict[int, RankResult]:
    """Checks what the trainings of `options.config.rank_list` send until each has ended; by rank.

    ready: called when trainings may begin, with the port (0 for a shared folder).
    Raises InvalidArgument, and IoError where nothing can be received or written. Ctrl-C leaves whole rows.
    """
    config = options.config
    if config.online is None:
        raise InvalidArgument('expected "run_ut.is_online" true')
    if options.continue_from:
        raise InvalidArgument("-csv_path: expected no file to continue with an online check")
    check_lists(config)
    device = device_of(options.devices[0], options.jit_compile)
    make_directory(options.output)
    arrivals = Arrivals(config.rank_list, _WAITING)
    checker = _StepChecker(options, device)
    with ExitStack() as stack:
        stack.enter_context(limited_memory(device))
        ready(_open(stack, config.online, arrivals, options))
        for step in arrivals:
            try:
                checker.check(step)
            finally:
                step.discard()
    return checker.results


def _open(stack: ExitStack, meeting: Meeting, arrivals: Arrivals, options: RunUtOptions) -> int:
    if meeting.nfs_path:
        stack.enter_context(FolderWatch(meeting.nfs_path, arrivals))
        return 0
    folder = Path(tempfile.mkdtemp(prefix=".online_check_", dir=options.output))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    server = Server(
        meeting.host,
        meeting.port,
        meeting.tls_path,
        arrivals,
        folder / "steps",
        accept_pickle=options.config.accept_pickle,
    )
    return stack.enter_context(server).port


class _StepChecker:
    def __init__(self, options: RunUtOptions, device: str) -> None:
        import torch

        config = options.config
        self._options = options
        self._checker = Checker(device, config.white_list, config.black_list, threads=torch.get_num_threads())
        self.results: dict[int, RankResult] = {}

    def check(self, step: ReceivedStep) -> None:
        """Raises IoError where the files cannot be written; what is wrong with the step is told."""
        try:
            dump = Dump(str(step.folder / "dump.json"))
        except Error as error:
            log.warning("step %d of rank %d is left out: %s", step.step, step.rank, error)
            return
        result = self._result_of(step.rank)
        result.seen.add(step.step)
        for name in dump.names:
            try:
                call = dump.call(name)
            except Error as error:
                log.warning("%s of step %d, rank %d is left out: %s", name, step.step, step.rank, error)
                continue
            with quiet():
                skipped = self._checker.skipped(name)
                found = ReceivedResult(skipped) if skipped else self._checker.check_received(call)
            self._write(result, found, step)

    def _result_of(self, rank: int) -> RankResult:
        if rank not in self.results:
            files = new_files(self._options.output, self._options.config.precision, rank)
            compare_results, compare_details = (
                files.results.with_name(f"api_precision_compare_{what}_{files.time}_rank{rank}.csv")
                for what in ("result", "details")
            )
            write_header(compare_details, [*COMPARE_HEADER, STEP])
            write_header(compare_results, [*COMPARE_RESULT_HEADER, STEP])
            self.results[rank] = RankResult(files, compare_results, compare_details)
        return self.results[rank]

    def _write(self, to: RankResult, found: ReceivedResult, of: ReceivedStep) -> None:
        options = self._options
        if options.save_error_data:
            folder = Path(options.config.error_data_path) / f"ut_error_data{to.files.time}"
            save_error_data(folder / f"rank{of.rank}_step{of.step}", found.result)
        statuses = (found.result.forward, found.result.backward)
        if found.local is not None:
            statuses = self._compare(to, found.result, found.local, of.step) or statuses
        to.files.write(replace(found.result, data=None), of.step)
        to.counts.update(status for status in statuses if status != " ")

    def _compare(
        self, to: RankResult, received: CallResult, local: CallResult, step: int
    ) -> tuple[str, str] | None:
        """The errors of the training's device next to those of the device here."""
        mine, theirs = (
            [dict(zip(DETAILS_HEADER, row)) for row in to.files.detail_rows(result)]
            for result in (local, received)
        )
        rows, summary = compare_details(theirs, {row["API Name"]: row for row in mine})
        append_rows(to.compare_details, [[*row.cells(to.files.precision), str(step)] for row in rows])
        append_rows(to.compare_results, [[*row, str(step)] for row in summary.rows])
        return summary.statuses.get(received.name)
