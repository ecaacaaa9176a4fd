# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""GradComparator: compares two gradient records and says where they diverge."""

from __future__ import annotations

import heapq
import logging
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.run_folder import PACKED_GRADIENTS, gradients_of
from msprobe.grad_probe import verdict as verdicts
from msprobe.grad_probe.across_layouts import FOLDER, as_logical_records
from msprobe.grad_probe.pictures import SUFFIX, painter, picture_of, picture_of_summary
from msprobe.grad_probe.report import RankCells, report_html
from msprobe.grad_probe.verdict import Finding, Inputs, RankSummary, Verdict, number_or_none
from msprobe.native import Error, core, log
from msprobe.result import Result
from msprobe.terminal.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, Union

    from msprobe._core import Comparison
    from msprobe.grad_probe.across_layouts import Reasons
    from msprobe.grad_probe.pictures import Painter, Picture
    from msprobe.result import Cell

    Pictures = Union[bool, Literal["all"]]

SIMILARITIES = "similarities.csv"
PICTURES = "similarities_picture"
VERDICT = "verdict.json"
REPORT = "report.html"

# Names of the files that a comparison writes; see new_results().
RESULTS = (
    VERDICT,
    REPORT,
    SIMILARITIES,
    PICTURES,
    FOLDER,
    f"rank[0-9]*/{SIMILARITIES}",
    f"rank[0-9]*/{PICTURES}",
)
_MOST_LINES = 20
_MOST_PICTURES = 20  # of several ranks together


@dataclass(frozen=True, repr=False)
class ComparisonResult(Result):
    """The answer of a comparison, and where its files are."""

    verdict: Verdict
    output_dir: Path

    @property
    def same(self) -> bool:
        """Whether nothing points to a difference and nothing was left out."""
        return self.verdict.verdict == "same"

    @property
    def sentence(self) -> str:
        return self.verdict.sentence

    def table(self) -> Sequence[dict[str, Cell]]:
        """The findings, by step."""
        return [
            {
                "rank": finding.rank,
                "step": finding.step,
                "parameter": finding.parameter,
                "kind": finding.kind,
                "similarity": finding.similarity,
                "previous": finding.previous,
                "reason": finding.reason,
            }
            for finding in self.verdict.findings
        ]

    @property
    def verdict_path(self) -> Path:
        return self.output_dir / VERDICT

    @property
    def report_path(self) -> Path:
        return self.output_dir / REPORT


class GradComparator:
    """Compares the directions (signs) of the gradients of two training runs, as the gradient probe recorded
    them.

    Written are `similarities.csv` and, unless `pictures` is False, `similarities_picture/*.png` for each
    rank (over several ranks for the twenty worst parameters; "all": for every one), and for the whole
    comparison `verdict.json` (described in verdict.py) and `report.html`, a page to look at in a browser.
    Results of an earlier comparison are replaced. One line is logged for each
    suspicious parameter.

    threads: 0 means all cores.
    """

    @classmethod
    def compare_distributed(
        cls,
        dump_path1: str | os.PathLike[str],
        dump_path2: str | os.PathLike[str],
        output_dir: str | os.PathLike[str],
        *,
        pictures: Pictures = True,
        threads: int = 0,
    ) -> ComparisonResult:
        """Compares all ranks that both dump paths have; the files of a rank go to `output_dir`/rank{R}.

        A rank that cannot be read becomes a finding of the verdict. Raises NothingToCompare (a RuntimeError)
        when no rank or no step can be compared, InvalidArgument, IoError.
        """
        result = compare_ranks(dump_path1, dump_path2, output_dir, pictures=pictures, threads=threads)
        _log(result)
        return result

    @classmethod
    def compare(
        cls,
        rank_dir1: str | os.PathLike[str],
        rank_dir2: str | os.PathLike[str],
        output_dir: str | os.PathLike[str],
        *,
        pictures: Pictures = True,
        threads: int = 0,
    ) -> ComparisonResult:
        """Compares two directories rank{R}; the files go to `output_dir`. Raises as compare_distributed()."""
        result = compare_rank(rank_dir1, rank_dir2, output_dir, pictures=pictures, threads=threads)
        _log(result)
        return result


@dataclass(frozen=True)
class _Job:
    """One rank to compare."""

    rank: int | None
    directory1: Path
    directory2: Path
    output: Path


def compare_records(
    reference: str | os.PathLike[str],
    target: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    pictures: Pictures = True,
    threads: int = 0,
    show_progress: bool = True,
) -> ComparisonResult:
    """compare_rank() of two folders of one rank, else compare_ranks(): of two gradient records, or two
    folders of `msprobe run`.
    """
    paths = gradients_of(Path(reference)), gradients_of(Path(target))
    compare = compare_rank if all(map(_is_rank, paths)) else compare_ranks
    return compare(*paths, output_dir, pictures=pictures, threads=threads, show_progress=show_progress)


def _is_rank(path: Path) -> bool:
    """Whether a path is rank{R} itself rather than a folder of ranks."""
    names = os.listdir(path) if path.is_dir() else []
    return any(name.startswith("step") or name == PACKED_GRADIENTS for name in names) and not any(
        name.startswith("rank") for name in names
    )


def compare_ranks(
    dump_path1: str | os.PathLike[str],
    dump_path2: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    pictures: Pictures = True,
    threads: int = 0,
    show_progress: bool = True,
    offset: int = 0,
) -> ComparisonResult:
    """GradComparator.compare_distributed() without its log lines. offset: the step of the first record at
    which the second one begins. Records of other layouts are put together first, below `output_dir`.
    """
    path1, path2, output = Path(dump_path1), Path(dump_path2), Path(output_dir)
    ranks = core.matched_ranks(path1, path2)
    left_out: list[Finding] = []
    if (logical := as_logical_records(path1, path2, output, offset)) is not None:
        ((path1, path2), reasons), ranks = logical, [0]
        left_out = [_not_joined(reason, reasons) for reason in dict.fromkeys(reasons.values())]
    jobs = [
        _Job(rank, path1 / f"rank{rank}", path2 / f"rank{rank}", output / f"rank{rank}") for rank in ranks
    ]
    return _Run(output, pictures, threads, show_progress, offset).run(jobs, path1, path2, left_out)


def _not_joined(found: tuple[int, str], reasons: Reasons) -> Finding:
    """Of all parameters with this step and reason."""
    names = [name for name, one in reasons.items() if one == found]
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    step, reason = found
    return Finding("missing", 0, step, names[0], None, None, f"{names[0]}{others}: {reason}")


def compare_rank(
    rank_dir1: str | os.PathLike[str],
    rank_dir2: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    *,
    pictures: Pictures = True,
    threads: int = 0,
    show_progress: bool = True,
) -> ComparisonResult:
    """GradComparator.compare() without its log lines."""
    path1, path2, output = Path(rank_dir1), Path(rank_dir2), Path(output_dir)
    number = re.fullmatch(r"rank([0-9]+)", path1.resolve().name)
    job = _Job(int(number[1]) if number else None, path1, path2, output)
    return _Run(output, pictures, threads, show_progress).run([job], path1, path2)


class _Run:
    """One comparison: rank after rank, then the files about all of them."""

    def __init__(
        self, output: Path, pictures: Pictures, threads: int, show_progress: bool, offset: int = 0
    ) -> None:
        self._output = output
        self._pictures = pictures
        self._painter = painter() if pictures else None
        self._threads = threads
        self._show_progress = show_progress
        self._offset = offset
        self._ranks: list[RankSummary] = []
        self._cells: list[RankCells] = []
        self._findings: list[Finding] = []
        self._errors: list[Error] = []
        self._known = core.GradAgreements()  # replicas have the same signs

    def run(
        self, jobs: list[_Job], path1: Path, path2: Path, left_out: Sequence[Finding] = ()
    ) -> ComparisonResult:
        """left_out: what the paths do not have, and the records that they were made of have."""
        make_directory(self._output)
        self._findings += left_out
        if (self._output / VERDICT).exists():
            log.warning("%s holds the results of an earlier comparison: they are replaced", self._output)
        with Progress("gradients of ranks", shown=self._show_progress and len(jobs) > 1) as progress:
            for number, job in enumerate(jobs):
                try:
                    self._compare(job)
                except Error as error:
                    self._note_unreadable(job, error)
                progress(number + 1, len(jobs))
        if len(self._errors) == len(jobs):
            raise self._errors[0]
        if self._painter is not None:
            self._draw(self._painter, jobs)
        verdict = Verdict(_inputs(path1, path2, jobs), tuple(self._ranks), verdicts.in_order(self._findings))
        write_text(self._output / REPORT, report_html(verdict, self._cells))
        write_text(self._output / VERDICT, verdict.to_json())
        return ComparisonResult(verdict, self._output)

    def _compare(self, job: _Job) -> None:
        label = "comparison" if job.rank is None else f"rank {job.rank}"
        with Progress(label, shown=self._show_progress) as progress:
            comparison = core.compare(
                job.directory1,
                job.directory2,
                threads=self._threads,
                offset=self._offset,
                known=self._known,
                progress=progress,
            )
        make_directory(job.output)
        _clear(job.output)
        comparison.write_similarities(job.output / SIMILARITIES)
        values = [[number_or_none(value) for value in row] for row in comparison.values]
        summary = [number_or_none(value) for value in comparison.summary]
        findings = _findings(job, comparison)
        self._findings += findings
        steps = _alone(
            set(comparison.steps_of_first), {step + self._offset for step in comparison.steps_of_second}
        )
        parameters = comparison.names_alone
        self._cells.append(
            RankCells(job.rank, comparison.steps, comparison.names, values, comparison.problems)
        )
        self._ranks.append(
            RankSummary(
                rank=job.rank,
                steps=comparison.steps,
                parameters=len(comparison.names),
                compared=sum(len(row) - row.count(None) for row in values),
                summary=summary,
                findings=len(findings),
                steps_only_in_reference=steps[0],
                steps_only_in_target=steps[1],
                parameters_only_in_reference=parameters[0],
                parameters_only_in_target=parameters[1],
            )
        )

    def _draw(self, painter: Painter, jobs: list[_Job]) -> None:
        """The pictures of the worst parameters of all ranks, or of all, and of the sum of each of these
        ranks.
        """
        outputs = {job.rank: job.output for job in jobs}
        summaries = {rank.rank: rank.summary for rank in self._ranks}
        rows = [(cells, index) for cells in self._cells for index in range(len(cells.names))]
        if self._pictures != "all" and len(self._cells) > 1:
            rows = heapq.nsmallest(_MOST_PICTURES, rows, key=lambda row: _lowest(row[0].values[row[1]]))
        chosen: dict[int | None, list[Picture]] = {}
        for cells, index in rows:
            chosen.setdefault(cells.rank, []).append(picture_of(cells.names[index], cells.values[index]))
        for cells in self._cells:
            if cells.rank in chosen:
                pictures = [*chosen[cells.rank], picture_of_summary(summaries[cells.rank])]
                directory = make_directory(outputs[cells.rank] / PICTURES)
                with Progress("pictures", shown=self._show_progress) as progress:
                    painter.draw(directory, cells.steps, pictures, progress)

    def _note_unreadable(self, job: _Job, error: Error) -> None:
        _clear(job.output)
        self._errors.append(error)
        self._findings.append(Finding("unreadable", job.rank, None, None, None, None, str(error)))
        self._ranks.append(RankSummary(job.rank, [], 0, 0, [], 1, problem=str(error)))


def _findings(job: _Job, comparison: Comparison) -> list[Finding]:
    return [
        Finding(
            kind=finding.kind,
            rank=job.rank,
            step=finding.step,
            parameter=finding.name,
            similarity=number_or_none(finding.similarity),
            previous=number_or_none(finding.previous),
            reason=finding.reason,
        )
        for finding in comparison.judge(verdicts.FIRST_STEP_LEAST, verdicts.LARGEST_DROP)
    ]


def _lowest(values: Sequence[float | None]) -> float:
    return min((value for value in values if value is not None), default=math.inf)


def _clear(output: Path) -> None:
    """Removes what an earlier comparison wrote for a rank, so that old and new pictures do not mix."""
    (output / SIMILARITIES).unlink(missing_ok=True)
    for picture in (output / PICTURES).glob(f"*{SUFFIX}"):
        picture.unlink()


def _inputs(path1: Path, path2: Path, jobs: list[_Job]) -> Inputs:
    compared = {job.rank for job in jobs}
    ranks1, ranks2 = (_ranks_in(path) - compared for path in (path1, path2))
    return Inputs(os.path.abspath(path1), os.path.abspath(path2), sorted(ranks1), sorted(ranks2))


def _ranks_in(directory: Path) -> set[int]:
    """The numbers R with a directory rank{R}, as the native comparison counts them."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.name.startswith("rank") and entry.is_dir()]
    matches = (re.fullmatch(r"rank(0|[1-9][0-9]{0,18})", name, re.ASCII) for name in names)
    return {int(match[1]) for match in matches if match}


def _alone(numbers1: set[int], numbers2: set[int]) -> tuple[list[int], list[int]]:
    return sorted(numbers1 - numbers2), sorted(numbers2 - numbers1)


def _log(result: ComparisonResult) -> None:
    """One line for each suspicious parameter, and for each part that could not be compared."""
    for findings in (result.verdict.suspicious, result.verdict.not_compared):
        for finding in findings[:_MOST_LINES]:
            log.warning("%s", finding.line)
        if len(findings) > _MOST_LINES:
            log.warning("%d more are listed in %s", len(findings) - _MOST_LINES, result.verdict_path)
    level = logging.INFO if result.same else logging.WARNING
    log.log(level, "%s; see %s", result.verdict.sentence, result.report_path)
