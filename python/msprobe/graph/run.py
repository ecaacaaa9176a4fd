# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a file of graphs, `.vis.db`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from msprobe.atomic_file import make_directory
from msprobe.graph.inputs import Inputs, Layout, Paths, find_units
from msprobe.native import InvalidArgument, core, log
from msprobe.progress import Progress

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Literal

    from msprobe._core import GraphSummary

_TIME = "%Y%m%d%H%M%S"


@dataclass(frozen=True)
class Finding:
    """Where a difference may begin, for the table msprobe_findings."""

    step: int
    rank: int
    node: str
    sentence: str


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
    findings: Callable[[], Sequence[Finding]] | None = None
    """Called when all graphs are written, just before the file gets its name."""


@dataclass(frozen=True)
class GraphResult:
    """A file that was made."""

    file: Path
    summary: GraphSummary
    inputs: Inputs
    seconds: float


def write_graph(paths: Paths, options: GraphOptions) -> GraphResult:
    """Builds the graphs of all steps and ranks, compares them when there is a reference, and writes the file.

    It is called build_{time}.vis.db or compare_{time}.vis.db; no earlier file is replaced. Raises
    InvalidArgument, NothingToCompare, FormatError, IoError, UnsupportedError, which name file and key; then
    there is no file, nor after an interruption.
    """
    start = time.monotonic()
    inputs = find_units(paths)
    if paths.target_layout is not None and any(
        len(unit.target) != paths.target_layout.rank_size for unit in inputs.units
    ):
        raise _wrong_count(paths.target, len(inputs.units[0].target), paths.target_layout)
    if paths.golden_layout is not None and any(
        len(unit.golden) != paths.golden_layout.rank_size for unit in inputs.units
    ):
        assert paths.golden is not None
        raise _wrong_count(paths.golden, len(inputs.units[0].golden), paths.golden_layout)
    make_directory(options.output)
    file = _free_name(options.output, "compare" if paths.golden is not None else "build")
    with Progress("graph", shown=options.shows_progress) as progress:
        summary = core.write_graph_file(
            [(unit.step, unit.target, unit.golden) for unit in inputs.units],
            file,
            rule=options.rule,
            merge=paths.merges,
            target_layout=asdict(paths.target_layout) if paths.target_layout else None,
            golden_layout=asdict(paths.golden_layout) if paths.golden_layout else None,
            layer_rules={name: list(parts) for name, parts in options.layer_rules.items()}
            if options.layer_rules is not None
            else None,
            overflow_check=options.overflow_check,
            threads=options.threads,
            findings=partial(_tuples, options.findings) if options.findings is not None else None,
            progress=progress,
        )
    if summary.without_stacks:
        more = len(summary.without_stacks) - 1
        log.warning(
            "no stack.json in %s%s: nodes have no stacks",
            summary.without_stacks[0],
            f" and {more} more" if more else "",
        )
    return GraphResult(file, summary, inputs, time.monotonic() - start)


def _tuples(findings: Callable[[], Sequence[Finding]]) -> list[tuple[int, int, str, str]]:
    return [(one.step, one.rank, one.node, one.sentence) for one in findings()]


def _wrong_count(path: Path, found: int, layout: Layout) -> InvalidArgument:
    return InvalidArgument(
        f'{path}: expected {layout.rank_size} folders rank{{N}}, as "rank_size" says, found {found}'
    )


def _free_name(folder: Path, kind: str) -> Path:
    moment = time.time()
    while True:
        file = folder / f"{kind}_{time.strftime(_TIME, time.localtime(moment))}.vis.db"
        if not file.exists():
            return file
        moment += 1
