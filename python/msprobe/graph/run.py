# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a file of graphs, `.vis.db`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from msprobe.files.atomic_file import make_directory
from msprobe.files.left_out import left_out
from msprobe.files.result_time import unused_time
from msprobe.graph.inputs import Folders, Inputs, Layout, Paths, find_units
from msprobe.graph.model_names import add_model_names
from msprobe.native import InvalidArgument, core, log
from msprobe.terminal.progress import Progress

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Literal, Protocol

    from msprobe._core import GraphSummary

    class Place(Protocol):
        """What a comparison blames, as compare.Culprit has it."""

        @property
        def node(self) -> str: ...
        @property
        def sum_text(self) -> str: ...
        @property
        def reference_record(self) -> str: ...
        def in_a_graph(self, language: Literal["en", "zh"]) -> str: ...


# Names of the files that are written, for one run and for two; see new_results().
RESULTS_OF_ONE = ("build_*.vis.db",)
RESULTS_OF_TWO = ("compare_*.vis.db", "verdict.json")


@dataclass(frozen=True)
class Finding:
    """Where a difference may begin, for the table msprobe_findings."""

    step: int
    rank: int
    node: str
    sentence: str
    chinese: str = ""
    """The same sentence."""
    sum: str = ""
    """What is allowed there and what was found, in lines."""
    is_of_reference: bool = False
    """`node` is one of the reference."""

    @classmethod
    def of(cls, culprit: Place, step: int, rank: int) -> Finding:
        """A culprit at its node, at the step and rank as the graph counts them."""
        return cls(
            step,
            rank,
            culprit.node,
            culprit.in_a_graph("en"),
            culprit.in_a_graph("zh"),
            culprit.sum_text,
            is_of_reference=bool(culprit.reference_record),
        )


@dataclass(frozen=True)
class GraphOptions:
    """How to make graphs."""

    output: Path
    """Folder of the file; made if needed."""
    rule: Literal["default", "fuzzy", "mapped"] = "default"
    layer_rules: Mapping[str, Sequence[tuple[str, str]]] | None = None
    overflow_check: bool = False
    threads: int = 0
    """0: all cores."""
    shows_progress: bool = True
    ranks: Collection[int] | None = None
    """No others; None: all. Not with merged ranks."""
    findings: Callable[[], Sequence[Finding]] | None = None
    """Called when all graphs are written, just before the file gets its name."""


@dataclass(frozen=True)
class GraphResult:
    """A file that was made."""

    file: Path
    summary: GraphSummary
    inputs: Inputs
    seconds: float


class _Stopped(Exception):
    """The file is no longer wanted."""


class GraphWriter:
    """Writes a file in a thread of its own, while the findings that go into it are looked for:

    with GraphWriter(paths, options) as writer:
        result = writer.finish(find())

    When the block is left without finish(), the work ends and there is no file.
    """

    def __init__(self, paths: Paths, options: GraphOptions) -> None:
        """`options` are those of write_graph(), but for the findings."""
        self._findings: Future[Sequence[Finding]] = Future()
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(1, "graph")
        options = replace(options, findings=self._findings.result)
        self._result = self._pool.submit(write_graph, paths, options, self._stopped)

    def finish(self, findings: Sequence[Finding]) -> GraphResult:
        """Waits for the file. Raises what write_graph() does."""
        self._findings.set_result(findings)
        return self._result.result()

    def __enter__(self) -> GraphWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._findings.cancel()
        self._pool.shutdown()


def write_graph(paths: Paths, options: GraphOptions, stopped: threading.Event | None = None) -> GraphResult:
    """Builds the graphs of all steps and ranks, compares them when there is a reference, and writes the file.

    It is called build_{time}.vis.db or compare_{time}.vis.db; no earlier file is replaced. Raises
    InvalidArgument, NothingToCompare, FormatError, IoError, UnsupportedError, which name file and key; then
    there is no file, nor after an interruption. `stopped`: ends the work when it is set.
    """
    start = time.monotonic()
    inputs = find_units(paths)
    _check_count(paths.target, paths.target_layout, [unit.target for unit in inputs.units])
    _check_count(paths.reference, paths.reference_layout, [unit.reference for unit in inputs.units])
    make_directory(options.output)
    kind = "compare" if paths.reference is not None else "build"
    moment = unused_time(lambda text: (options.output / f"{kind}_{text}.vis.db").exists())
    file = options.output / f"{kind}_{moment}.vis.db"
    with Progress("graph", shown=options.shows_progress) as shown:

        def progress(done: int, total: int) -> None:
            if stopped is not None and stopped.is_set():
                raise _Stopped
            shown(done, total)

        summary = core.write_graph_file(
            [
                (unit.step, unit.target, unit.reference)
                for unit in inputs.units
                if options.ranks is None or unit.target[0][0] in options.ranks
            ],
            file,
            rule=options.rule,
            merge=paths.merges,
            target_layout=asdict(paths.target_layout) if paths.target_layout else None,
            reference_layout=asdict(paths.reference_layout) if paths.reference_layout else None,
            layer_rules={name: list(parts) for name, parts in options.layer_rules.items()}
            if options.layer_rules is not None
            else None,
            overflow_check=options.overflow_check,
            threads=options.threads,
            findings=partial(_tuples, options.findings) if options.findings is not None else None,
            progress=progress,
        )
    add_model_names(file, inputs)
    if summary.without_stacks:
        more = len(summary.without_stacks) - 1
        log.warning(
            "no stack.json in %s%s: nodes have no stacks",
            summary.without_stacks[0],
            f" and {more} more" if more else "",
        )
    for step, rank, reason in summary.left_out:
        inputs.left_out.append(left_out(reason, step, rank))
    return GraphResult(file, summary, inputs, time.monotonic() - start)


def _tuples(
    findings: Callable[[], Sequence[Finding]],
) -> list[tuple[int, int, str, str, str, str, bool]]:
    return [
        (one.step, one.rank, one.node, one.sentence, one.chinese, one.sum, one.is_of_reference)
        for one in findings()
    ]


def _check_count(path: Path | None, layout: Layout | None, ranks: list[Folders]) -> None:
    """Every step has as many ranks as were named. Raises InvalidArgument."""
    for folders in ranks:
        if layout is not None and len(folders) != layout.rank_size:
            raise InvalidArgument(
                f'{path}: expected {layout.rank_size} folders rank{{N}}, as "rank_size" says, '
                f"found {len(folders)}"
            )
