# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A whole comparison: every pair of dumps is read, measured, written as a table and walked; then comes the
verdict.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

from msprobe.compare.framework_names import FrameworkNames
from msprobe.compare.inputs import DumpFiles, Inputs, Paths, find_pairs, stack_path
from msprobe.compare.layouts import as_logical_runs
from msprobe.compare.pair_result import PairResult, ReportRows, TableSummary
from msprobe.compare.processes import Part, lost_share, of_json, share_of, to_json
from msprobe.compare.result import CompareResult
from msprobe.compare.translated import FOLDER, REFERENCE_FOLDER, translated
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.dump_folders import form_of, framework_of, level_of
from msprobe.files.left_out import left_out
from msprobe.files.meeting import Meeting, Process
from msprobe.files.noise_answer import find_answers, merged, read_answer
from msprobe.files.result_time import unused_time
from msprobe.files.run_folder import dump_of
from msprobe.layout.joining import FOLDER as JOINED
from msprobe.native import Error, InvalidArgument, core
from msprobe.terminal.progress import Progress, Working

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal, TypeVar

    from msprobe._core import DumpPair, StepWalk
    from msprobe.files.left_out import LeftOut
    from msprobe.files.noise_answer import NoiseAnswer

    _Copied = TypeVar("_Copied", TableSummary, ReportRows)

# Names of the files that a comparison writes into its folder; the first one is written last.
RESULTS = (
    "verdict.json",
    "report.html",
    "junit.xml",
    "result.sarif",
    JOINED,
    FOLDER,
    REFERENCE_FOLDER,
    *(
        f"{folder}{name}"
        for folder in ("", "step[0-9]*/")
        for kind in ("", "debug_")
        for name in (f"{kind}compare_result*_[0-9]*.*", f"{kind}advisor*_[0-9]*.txt")
    ),
)
_MOST_PAIRS_AT_ONCE = 8  # each holds two dumps in memory
_MOST_REPORT_ROWS = 100_000  # in the page, over all pairs
_LEAST_REPORT_ROWS = 100  # of one pair


@dataclass(frozen=True)
class CompareOptions:
    """How to compare."""

    output: Path
    """Folder of the results; made if needed."""
    stack_mode: bool = False
    """Use the stack.json that the user named."""
    advice: bool = True
    """Write mindstudio-probe's advisor file."""
    fuzzy: bool = False
    data_mapping: Mapping[str, str] = field(default_factory=dict)
    names: FrameworkNames | None = None
    """In place of data_mapping: the target is of MindSpore, the reference of PyTorch."""
    table: Literal["xlsx", "csv"] | None = "xlsx"
    """None: only the verdict is wanted."""
    suffix: str = ""
    """Added to the names of the results."""
    ranks: Collection[int] | None = None
    """No others; None: all."""
    steps: Collection[int] | None = None
    noise: list[Path] = field(default_factory=list)
    """Repeated runs of the reference, in the same form as it, and answers of `msprobe perturb`."""
    threads: int = 0
    """0: all cores."""
    shows_progress: bool = True
    timeout: float = 120
    """Seconds without a sign of life after which another process of this comparison counts as lost."""


def compare_runs(
    paths: Paths, options: CompareOptions, process: Process | None = None
) -> CompareResult | None:
    """Compares all steps and ranks that both runs have, and writes the tables.

    A pair that cannot be compared is left out with its reason; when none can be, its error is raised. Raises
    InvalidArgument, NothingToCompare, FormatError, IoError, UnsupportedError. Interrupted
    (KeyboardInterrupt), it leaves no half file.

    `process`: this one is one of several that share the work; process 0 returns the result, the others None.
    """
    start = time.monotonic()
    apart: list[LeftOut] = []
    if process is None and options.ranks is None:
        paths, apart = as_logical_runs(paths, options.output)
    inputs = find_pairs(paths, ranks=options.ranks, steps=options.steps)
    inputs.left_out.extend([*apart, *_of_other_levels(paths)])
    given = options.noise
    known = merged(read_answer(file) for run in given for file in find_answers(run))
    options = replace(options, noise=[run for run in given if not find_answers(run)])
    for run in options.noise:
        if (form := form_of(dump_of(run))) is not inputs.form:
            raise InvalidArgument(
                f"{run} is {form.value}: expected {inputs.form.value}, as the reference it repeats"
            )
    make_directory(options.output)
    count = len(inputs.pairs)
    repeated = [_noise_pairs(paths, options, run) for run in options.noise]
    if process is None:
        comparison = _Comparison(paths, options, _free_time(options, inputs.pairs), count)
        part = comparison.run(inputs.pairs, repeated)
        return _conclude(paths, options, inputs, [part], start, known, given)
    with Meeting(options.output, process, options.timeout, name="compare") as meeting:
        moment = meeting.agree_on(lambda: _free_time(options, inputs.pairs))
        comparison = _Comparison(paths, options, moment, count)
        part = comparison.run(
            share_of(inputs.pairs, process), [share_of(pairs, process) for pairs in repeated]
        )
        if process.number != 0:
            meeting.deliver(to_json(part))
            return None
        delivered, lost = meeting.collect()
    missing = [Part([], lost_share(inputs.pairs, number, process.count)) for number in lost]
    parts = [part, *map(of_json, delivered), *missing]
    return _conclude(paths, options, inputs, parts, start, known, given)


def _of_other_levels(paths: Paths) -> list[LeftOut]:
    """The kinds of calls that one run has not at its level."""
    levels = level_of(paths.reference), level_of(paths.target)
    reason = f"the reference has level {levels[0]}, the target {levels[1]}"
    kinds = {"L0": "calls of functions", "L1": "calls of modules"}
    missing = [kinds[level] for level in sorted(set(levels)) if level in kinds]
    return [left_out(reason, name=name, is_difference=False) for name in missing if levels[0] != levels[1]]


def _conclude(
    paths: Paths,
    options: CompareOptions,
    inputs: Inputs,
    parts: list[Part],
    start: float,
    known: NoiseAnswer,
    noise: list[Path],
) -> CompareResult:
    pairs = sorted((pair for part in parts for pair in part.pairs), key=_place)
    if not pairs:
        raise next(part.error for part in parts if part.error is not None)
    with Working(f"verdict of {len(pairs)} dumps", shown=options.shows_progress):
        verdict = core.judge(
            [pair.walk for pair in pairs],
            noise=_noise(options, parts),
            amplification=known.amplification,
        )
    apart = _of_unknown_size(pairs) if verdict.status == "rounding" else []
    return CompareResult(
        target=paths.target,
        reference=paths.reference,
        output=options.output,
        verdict=verdict,
        pairs=pairs,
        left_out=[*inputs.left_out, *(one for part in parts for one in part.left_out), *apart],
        offset=inputs.offset,
        fuzzy=options.fuzzy,
        names=options.data_mapping,
        noise=list(noise),
        seconds=time.monotonic() - start,
    )


def _noise_pairs(paths: Paths, options: CompareOptions, run: Path) -> list[DumpFiles]:
    """A repeated run of the reference beside the reference."""
    return find_pairs(Paths(run, paths.reference), ranks=options.ranks, steps=options.steps).pairs


def _noise(options: CompareOptions, parts: list[Part]) -> list[list[StepWalk]]:
    """The walks over each repeated run of the reference."""
    runs = range(len(options.noise))
    return [[walk for part in parts for walk in part.noise.get(run, [])] for run in runs]


def _place(pair: PairResult) -> tuple[int, int, bool]:
    return pair.step, pair.rank, pair.is_debug


def _free_time(options: CompareOptions, pairs: list[DumpFiles]) -> str:
    """The time for the names of the results."""
    return unused_time(lambda text: any(_table_path(options, files, text).exists() for files in pairs))


def _table_path(options: CompareOptions, files: DumpFiles, moment: str) -> Path:
    kind = "debug_" if files.target.name.startswith("debug") else ""
    name = f"{kind}compare_result{options.suffix}{files.suffix}_{moment}.{options.table}"
    return options.output / files.folder / name


class _Cancelled(Exception):
    """Another thread asked for an end."""


class _Comparison:
    """Compares pairs: ranks at the same time, the steps of one rank in their order."""

    def __init__(self, paths: Paths, options: CompareOptions, moment: str, pair_count: int) -> None:
        """`pair_count`: of the whole comparison."""
        self._paths = paths
        self._options = options
        self._moment = moment
        self._pair_count = pair_count
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._done = 0
        self._part = Part()
        self._threads = 1  # for one pair
        self._report_rows = _LEAST_REPORT_ROWS
        self._with_dump: set[tuple[int, int]] = set()

    def run(self, pairs: list[DumpFiles], repeated: list[list[DumpFiles]]) -> Part:
        """`repeated`: for each repeated run of the reference its pairs with it; of these only the walks are
        wanted.
        """
        for files in pairs:
            if files.target.name == "dump.json":
                self._with_dump.add((files.step, files.rank))
        self._report_rows = max(_LEAST_REPORT_ROWS, _MOST_REPORT_ROWS // max(self._pair_count, 1))
        jobs: list[Callable[[], None]] = []
        with Progress("compare", shown=self._options.shows_progress) as progress:
            report = self._reporter(progress, len(pairs) + sum(map(len, repeated)))
            for chain in _chains(pairs):
                jobs.append(partial(self._compare_chain, chain, report))
            for number, noise in enumerate(repeated):
                for chain in _chains(noise):
                    jobs.append(partial(self._walk_chain, number, chain, report))
            self._run_all(jobs)
        return self._part

    def _run_all(self, jobs: list[Callable[[], None]]) -> None:
        cores = self._options.threads or len(os.sched_getaffinity(0))
        at_once = max(1, min(len(jobs), cores, _MOST_PAIRS_AT_ONCE))
        self._threads = max(1, cores // at_once)
        with ThreadPoolExecutor(at_once, "compare") as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self._cancelled.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _reporter(self, progress: Progress, pair_count: int) -> Callable[[int, int], None]:
        """Called with the rows of a pair that are done; (0, 0): a pair is done."""

        def report(done: int, total: int) -> None:
            if self._cancelled.is_set():
                raise _Cancelled
            if pair_count == 1:
                progress(done, total)
            elif total == 0:
                with self._lock:
                    self._done += 1
                progress(self._done, pair_count)

        return report

    def _compare_chain(self, chain: list[DumpFiles], report: Callable[[int, int], None]) -> None:
        before: StepWalk | None = None
        for files in chain:
            if self._cancelled.is_set():
                return
            earlier = before
            try:
                result, before = self._compare(files, before, report)
            except Error as error:
                before = None
                with self._lock:
                    self._part.note_error(files, error)
                continue
            with self._lock:
                self._part.pairs.append(result)
                self._part.left_out += _nothing_matched(files, result.summary)
            if earlier is not None:
                earlier.forget_state()
            report(0, 0)
        if before is not None:
            before.forget_state()

    def _walk_chain(self, number: int, chain: list[DumpFiles], report: Callable[[int, int], None]) -> None:
        """Of a repeated run of the reference; one that cannot be compared is an error."""
        walk: StepWalk | None = None
        for files in chain:
            if self._cancelled.is_set():
                return
            walk = self._walk(files, self._open(files, None, report), walk)
            with self._lock:
                self._part.noise.setdefault(number, []).append(walk)
            report(0, 0)

    def _compare(
        self, files: DumpFiles, before: StepWalk | None, report: Callable[[int, int], None]
    ) -> tuple[PairResult, StepWalk]:
        stacks = stack_path(files, self._paths, stack_mode=self._options.stack_mode)
        pair = self._open(files, stacks, report)
        files, judged = self._judged(files, pair, report)
        with ThreadPoolExecutor(1, "table") as other:
            writing = other.submit(self._write, files, pair)
            if self._threads == 1:
                writing.result()
            walk = self._walk(files, judged, before)
            rows = core.report_rows(pair, self._report_rows)
            table, advice, summary = writing.result()
        mode = pair.mode
        del pair, judged  # before what is said of it stands in memory once more
        result = PairResult(
            step=files.step,
            rank=files.rank,
            mode=mode,
            target=files.target,
            reference=files.reference,
            table=table,
            advice=advice,
            summary=summary,
            walk=walk,
            report=_copy(ReportRows, rows),
        )
        return result, walk

    def _open(self, files: DumpFiles, stacks: Path | None, report: Callable[[int, int], None]) -> DumpPair:
        pair = core.open_dump_pair(
            files.target,
            files.reference,
            fuzzy=self._options.fuzzy,
            data_mapping=self._mapping(files),
            stack_path=stacks,
            threads=self._threads,
        )
        if pair.mode == "real_data":
            pair.measure(threads=self._threads, progress=report)
        return pair

    def _judged(
        self, files: DumpFiles, pair: DumpPair, report: Callable[[int, int], None]
    ) -> tuple[DumpFiles, DumpPair]:
        """What the verdict is found in: of two frameworks, the target as the other one would name it."""
        names = self._options.names
        if names is None and framework_of(files.target) == "mindspore":  # MSAdapter has the names of PyTorch
            names = FrameworkNames() if framework_of(files.reference) == "pytorch" else None
        if names is None or files.target.name != "dump.json":
            return files, pair
        place = Path(f"step{files.step}", f"rank{files.rank}")
        names = names.of_pair(files.target, files.reference)
        wanted = names.common_records()
        files = replace(
            files, target=translated(files.target, names, self._options.output / FOLDER / place, wanted)
        )
        if wanted is not None:
            folder = self._options.output / REFERENCE_FOLDER / place
            files = replace(files, reference=translated(files.reference, FrameworkNames(), folder, wanted))
        judged = core.open_dump_pair(files.target, files.reference, threads=self._threads)
        if judged.mode == "real_data":
            judged.measure(threads=self._threads, progress=report)
        return files, judged

    def _mapping(self, files: DumpFiles) -> dict[str, str]:
        names = self._options.names
        if names is None:
            return dict(self._options.data_mapping)
        target = core.read_trace(files.target)
        if target.framework != "mindspore":
            raise InvalidArgument(
                f"{files.target}: expected a dump of MindSpore as the target of -cm, -am and -lm, found "
                f"framework {target.framework}; the reference, which comes first, is that of PyTorch"
            )
        return names.of_pair(files.target, files.reference).mapping_of(target)

    def _walk(self, files: DumpFiles, pair: DumpPair, before: StepWalk | None) -> StepWalk:
        return pair.walk(step=files.step, rank=files.rank, before=before, threads=self._threads)

    def _write(self, files: DumpFiles, pair: DumpPair) -> tuple[Path | None, Path | None, TableSummary]:
        if pair.row_count == 0:
            return None, None, TableSummary(reference_only=pair.reference_only_count)
        if self._options.table is None:
            return None, None, _copy(TableSummary, pair.summarize(threads=self._threads))
        table = _table_path(self._options, files, self._moment)
        make_directory(table.parent)
        native = pair.write_table(table, threads=self._threads)
        advice = None
        if self._options.advice:
            # mindstudio-probe has one name for the advice about dump.json and about debug.json.
            is_second = pair.is_debug and (files.step, files.rank) in self._with_dump
            name = f"advisor{self._options.suffix}{files.suffix}_{self._moment}.txt"
            advice = table.with_name(f"debug_{name}" if is_second else name)
            write_text(advice, native.advice)
        return table, advice, _copy(TableSummary, native)


def _chains(pairs: list[DumpFiles]) -> Iterable[list[DumpFiles]]:
    """The steps of one rank each, in their order."""
    chains: dict[tuple[int, str], list[DumpFiles]] = {}
    for files in pairs:
        chains.setdefault((files.rank, files.target.name), []).append(files)
    return chains.values()


def _copy(kind: type[_Copied], native: object) -> _Copied:
    """As an object of Python, which can be sent to another process."""
    return kind(**{one.name: getattr(native, one.name) for one in fields(kind)})


def _nothing_matched(files: DumpFiles, summary: TableSummary) -> list[LeftOut]:
    """Two dumps without anything in common do not agree."""
    if summary.matched > 0 or summary.rows + summary.reference_only == 0:
        return []
    counts = f"{summary.rows} items in the target, {summary.reference_only} in the reference"
    return [files.left_out(f"nothing matches ({counts})")]


def _of_unknown_size(pairs: list[PairResult]) -> list[LeftOut]:
    """Checksums tell that tensors differ, and not whether rounding explains it."""
    reason = "tensors differ of which nothing but checksums is recorded; statistics would tell by how much"
    return [
        left_out(reason, one.step, one.rank) for one in pairs if one.mode == "md5" and one.walk.unseen > 0
    ]
