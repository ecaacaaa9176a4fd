# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The commands as functions: msprobe.diagnose(), msprobe.compare(), ... Each takes what its command takes,
the reference first, and returns a typed result (msprobe.result.Result).
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Union

from msprobe.files.new_results import check_new_file, new_results
from msprobe.files.noise_answer import with_repeated_runs
from msprobe.overflow.analysis import NanResult, nan_analyze
from msprobe.proof import hunt, repeat, resume
from msprobe.result import Result, with_page

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Literal

    from msprobe.check.result import CheckResult
    from msprobe.checkpoint.result import CheckpointResult
    from msprobe.compare.result import CompareResult
    from msprobe.config_check.comparison import ConfigComparison
    from msprobe.diagnose.answer import Answer
    from msprobe.diff.command import DiffResult
    from msprobe.grad_probe.comparator import ComparisonResult
    from msprobe.graph.view import GraphView
    from msprobe.layout.replicas import ReplicaResult
    from msprobe.result import Cell
    from msprobe.rl.result import RlResult
    from msprobe.trend.comparison import Comparison
    from msprobe.trend.record import Record

    StrPath = Union[str, os.PathLike[str]]

__all__ = [
    "NanResult",
    "RunResult",
    "Shown",
    "TrendResult",
    "check",
    "ckpt",
    "compare",
    "config_check",
    "diagnose",
    "diff",
    "grad_compare",
    "graph",
    "hunt",
    "nan_analyze",
    "repeat",
    "replicas",
    "resume",
    "rl_compare",
    "run",
    "show",
    "trend",
    "view",
]


@dataclass(frozen=True, repr=False)
class RunResult(Result):
    """A training that was run and recorded."""

    folder: Path
    exit_code: int
    """Of the program."""
    recorded: dict[str, str]
    """Part: file or folder below `folder`."""
    steps: int

    @property
    def sentence(self) -> str:
        ended = "" if self.exit_code == 0 else f", which ended with {self.exit_code}"
        return f"{self.steps} steps{ended}; recorded: {', '.join(self.recorded) or 'nothing'}: {self.folder}"

    def table(self) -> Sequence[dict[str, Cell]]:
        return [{"part": part, "path": path} for part, path in self.recorded.items()]


def run(
    program: StrPath | Sequence[str],
    output: StrPath = "./msprobe_run",
    *,
    config: StrPath | None = None,
    steps: str | None = None,
    level: Literal["L0", "L1", "mix"] | None = None,
    without: Collection[str] = (),
    monitor: bool = False,
    force: bool = False,
) -> RunResult:
    """Runs a training in a process of its own, and records it, as `msprobe run` does (docs/first_hour.md).
    What it prints is printed here. msprobe.capture() records a part of this program.

    program: a script or notebook; or the words behind `python`: ["train.py", "--lr", "1e-3"], ["-m", "pkg"].
    output: folder of the run. steps: "0-2,10" or "all"; None: the first three. without: "config", "losses",
    "gradients", "dump", "sketch". monitor: record the monitor, too. force: replace a run that is there.

    Raises InvalidArgument for wrong arguments; how the program ends is `exit_code` of the result.
    """
    from msprobe.run.child import run_program

    words = [os.fspath(program)] if isinstance(program, (str, os.PathLike)) else list(program)
    options = [("-c", config), ("--steps", steps), ("--level", level)]
    flags = [
        *(word for name, value in options if value is not None for word in (name, os.fspath(value))),
        *(word for part in without for word in ("--without", part)),
        *(["--with", "monitor"] if monitor else []),
        *(["--force"] if force else []),
    ]
    code, recorded, count = run_program(Path(output), flags, words)
    return RunResult(Path(output), code, recorded, count)


@dataclass(frozen=True, repr=False)
class Shown(Result):
    """What is in a file; print() shows the lines."""

    title: str
    rows: list[dict[str, Cell]]

    @property
    def sentence(self) -> str:
        return self.title

    def table(self) -> Sequence[dict[str, Cell]]:
        return self.rows

    def __str__(self) -> str:
        lines = (" ".join(str(cell) for cell in row.values() if cell is not None) for row in self.rows)
        return "\n".join((self.title, *(f"  {line}".rstrip() for line in lines)))


def show(
    file: StrPath, name: str | None = None, *, step: int | None = None, rank: int | None = None
) -> Shown:
    """What is in a file, or in an entry of it? `print(msprobe.show("run_a"))` (docs/show.md)

    file: a file or folder of any kind that msprobe knows. name: an entry of it; with * or ? all that match.
    step, rank: of folders with several dumps. Raises InvalidArgument, FormatError and IoError.
    """
    from msprobe.show.command import shown

    return Shown(*shown(os.fspath(file), name, step, rank))


def view(
    reference: StrPath,
    target: StrPath | None = None,
    output: StrPath | None = None,
    *,
    step: int | None = None,
    rank: int | None = None,
    force: bool = False,
) -> Path | None:
    """Opens the viewer in the browser, until it is interrupted; with `output` it writes one page that needs
    nothing but a browser, and returns its path (docs/viewer.md).

    reference: a run, a graph (*.vis.db), a dump or a record of the monitor; target: another one. step, rank:
    of the page. Raises InvalidArgument, FormatError and IoError.
    """
    from msprobe.native import InvalidArgument
    from msprobe.viewer.command import main

    words = [os.fspath(path) for path in (reference, target) if path is not None]
    for path in words:
        if not os.path.exists(path):
            raise InvalidArgument(f"{path} does not exist")
    if output is not None:
        words += ["--export", os.fspath(output), *(["--force"] if force else [])]
        words += [word for name, value in (("--step", step), ("--rank", rank)) if value is not None
                  for word in (name, str(value))]  # fmt: skip
    with contextlib.redirect_stdout(None) if output is not None else contextlib.nullcontext():
        main(words)
    return None if output is None else Path(output)


def diagnose(
    reference: StrPath,
    target: StrPath,
    output: StrPath = "./diagnosis",
    *,
    graph: bool = True,
    noise: Sequence[StrPath] = (),
    offset: int | None = None,
    ignore: Sequence[str] = (),
    force: bool = False,
) -> Answer:
    """Where do two runs diverge, and why? From everything that both recorded (docs/first_hour.md).

    reference, target: folders of `msprobe run`, or folders that hold parts of a run.
    output: folder for index.html, diagnose.json and the reports. graph: with that of the step of the cause.
    noise: what `msprobe perturb` left of the reference, or dumps of repeated runs of it.
    offset: the step of the reference at which the target begins, as one that was resumed; None: as the step
        counts of their optimizers say.
    ignore: places of intended differences, as an answer names them: "layers.1.norm1.eps"
        (docs/confidence.md).
    force: replace results that are there already.

    Raises InvalidArgument, NothingToCompare and IoError.
    """
    from msprobe.diagnose.command import diagnose_runs

    answer = diagnose_runs(
        Path(reference),
        Path(target),
        Path(output),
        graph=graph,
        noise=with_repeated_runs(noise),
        offset=offset,
        ignore=ignore,
        force=force,
        shows_progress=False,
    )
    return with_page(answer, Path(output) / "index.html")


def replicas(run: StrPath) -> ReplicaResult:
    """Do the ranks of one run agree where its layout says that they must? (docs/layouts.md)

    run: folder of `msprobe run`, or a dump path. Raises InvalidArgument and NothingToCompare.
    """
    from msprobe.layout.job import open_job
    from msprobe.layout.replicas import check_replicas

    return check_replicas(open_job(Path(run)))


def compare(
    reference: StrPath,
    target: StrPath,
    output: StrPath | None = None,
    *,
    ranks: Collection[int] | None = None,
    steps: Collection[int] | None = None,
    fuzzy: bool = False,
    data_mapping: StrPath | Mapping[str, str] | None = None,
    noise: Sequence[StrPath] = (),
    table: Literal["xlsx", "csv"] = "xlsx",
    threads: int = 0,
    offset: int | None = None,
    force: bool = False,
) -> CompareResult:
    """Where does a difference of two dumps come into being? (docs/compare.md)

    reference, target: folders of `msprobe run`, dump paths, folders of a step or a rank, or files dump.json.
    output: folder for the tables, report.html and verdict.json; None: nothing is written.
    ranks, steps: no others. fuzzy: pair names that differ in the count of a call or the class of a module.
    data_mapping: a YAML file or a mapping: name of an item -> its name in the reference.
    noise: repeated runs of the reference: a difference is judged against their spread.
    offset: as diagnose() has it, of two dump paths.
    force: replace results that are there already.

    Raises InvalidArgument, NothingToCompare, FormatError and IoError.
    """
    from msprobe.compare.inputs import Paths, mapping_of
    from msprobe.compare.outputs import write_outputs
    from msprobe.compare.run import RESULTS, CompareOptions, compare_runs

    with _folder(output, RESULTS, force=force) as folder:
        options = CompareOptions(
            output=folder,
            fuzzy=fuzzy,
            data_mapping=mapping_of(data_mapping),
            table=None if output is None else table,
            advice=False,
            ranks=ranks,
            steps=steps,
            noise=with_repeated_runs(noise),
            threads=threads,
            shows_progress=False,
        )
        paths = Paths(target=Path(target), reference=Path(reference), offset=offset)
        result = compare_runs(paths, options)
        assert result is not None  # there is one process only
        if output is not None:
            write_outputs(result, result.culprits)
            with_page(result, folder / "report.html")
    return result


def graph(
    *runs: StrPath,
    step: int | None = None,
    rank: int | None = None,
    rule: Literal["default", "fuzzy"] = "default",
    threads: int = 0,
) -> GraphView:
    """The hierarchy of one run, graph(run), or of two compared, graph(reference, target): of one step and
    rank, in memory. `save(folder)` of the result writes the file for `msprobe view` (docs/graph.md).

    step, rank: of folders with several dumps; None: the first. Raises InvalidArgument, FormatError, IoError.
    """
    from msprobe.files.dump_folders import dump_file
    from msprobe.graph.view import build
    from msprobe.graph.view import compare as compare_graphs
    from msprobe.native import InvalidArgument

    folders = [dump_file(Path(run), step, rank).parent for run in runs]
    if len(folders) == 1:
        return build(folders[0])
    if len(folders) != 2:
        raise InvalidArgument(f"graph: expected one run, or a reference and a target, found {len(folders)}")
    return compare_graphs(*folders, rule=rule, threads=threads)


def ckpt(
    reference: StrPath,
    target: StrPath,
    output: StrPath | None = None,
    *,
    mapping: str | None = None,
    rules: str | None = None,
    optimizer: bool = False,
    hash: bool = False,
    threads: int = 0,
    force: bool = False,
) -> CheckpointResult:
    """Do two checkpoints differ, and where? Of any layout; nothing in them is run (docs/checkpoint.md).

    output: folder for similarity.json and a page, or the name of the JSON file; None: nothing is written.
    mapping: names of one in those of the other: "llama", "gpt2", ... or a file. rules: how shards become
    parameters. optimizer: also its states. hash: also a hash of the content of each parameter.

    Raises InvalidArgument, FormatError, UnsupportedError and IoError.
    """
    from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
    from msprobe.checkpoint.limits import beyond
    from msprobe.checkpoint.outputs import result_file, write_outputs

    if output is not None:
        file = result_file(output)
        check_new_file(file, force=force, makes_folder=True)
    options = CheckpointOptions(mapping=mapping, rules=rules, optimizer=optimizer, hash=hash, threads=threads)
    result = compare_checkpoints(reference, target, options)
    if output is not None:
        files = write_outputs(file, result, beyond(result, []), junit=False, report=True)
        with_page(result, files[0])
    return result


def grad_compare(
    reference: StrPath,
    target: StrPath,
    output: StrPath | None = None,
    *,
    pictures: bool = True,
    threads: int = 0,
    force: bool = False,
) -> ComparisonResult:
    """At which step and parameter do the gradients of two runs diverge? (docs/grad_probe.md)

    reference, target: folders of `msprobe run`, of a gradient record, or of one rank of it.
    output: folder for the tables, pictures, report.html and verdict.json; None: nothing is written.

    Raises InvalidArgument, NothingToCompare, FormatError and IoError.
    """
    from msprobe.grad_probe.comparator import RESULTS, compare_records

    with _folder(output, RESULTS, force=force) as folder:
        result = compare_records(
            reference,
            target,
            folder,
            pictures=pictures and output is not None,
            threads=threads,
            show_progress=False,
        )
        return result if output is None else with_page(result, result.report_path)


def config_check(
    reference: StrPath, target: StrPath, output: StrPath | None = None, *, force: bool = False
) -> ConfigComparison:
    """Were two runs set up alike? (docs/config_check.md)

    reference, target: folders of `msprobe run`, or packs of the config check (.zip).
    output: folder for the tables, report.html and result.json; None: nothing is written.

    Raises InvalidArgument, FormatError and IoError.
    """
    from msprobe.config_check.comparison import compare_packs
    from msprobe.config_check.outputs import check_output, write_outputs
    from msprobe.config_check.packs.pack_reader import read_pack
    from msprobe.files.run_folder import pack_of

    packs = pack_of(Path(reference)), pack_of(Path(target))
    if output is not None:
        check_output(Path(output), packs, replaces_earlier=force)
    with read_pack(packs[0]) as reference_pack, read_pack(packs[1]) as target_pack:
        result = compare_packs(reference_pack, target_pack)
        if output is not None:
            write_outputs(Path(output), result, reference_pack, target_pack)
            with_page(result, Path(output) / "report.html")
    return result


def check(
    dump: StrPath,
    output: StrPath | None = None,
    *,
    calls: Collection[str] = (),
    device: str = "",
    dtype: str = "",
    repeat: int = 1,
    results: Literal["auto", "recorded", "rerun"] = "auto",
    inputs_of: StrPath | None = None,
    operators: Mapping[str, Callable[..., Any]] | None = None,
    force: bool = False,
) -> CheckResult:
    """Is an operator wrong? Judges every call of a dump against the same call in float64 (docs/check.md).

    dump: a folder of `msprobe run`, a dump path, the folder of a step or a rank, or a dump.json; level L1 or
    mix, task tensor or statistics. output: folder for calls.csv, verdict.json and report.html; None: nothing
    is written. operators: implementations to judge in place of torch's, {"Functional.softmax": my_softmax}.

    Raises InvalidArgument, FormatError, UnsupportedError and IoError.
    """
    from msprobe.check.outputs import LOG, RESULTS
    from msprobe.check.run import check as check_calls

    with contextlib.ExitStack() as stack:
        if output is not None:
            stack.enter_context(new_results(Path(output), RESULTS, force=force, log=LOG))
        result = check_calls(
            Path(dump),
            None if output is None else Path(output),
            calls=calls,
            device=device,
            dtype=dtype,
            repeat=repeat,
            results=results,
            inputs_of=None if inputs_of is None else Path(inputs_of),
            operators=operators,
        )
        return result if output is None else with_page(result, Path(output) / "report.html")


def rl_compare(
    reference: StrPath | None = None,
    target: StrPath | None = None,
    output: StrPath | None = None,
    *,
    weights: tuple[StrPath, StrPath] | None = None,
    mapping: str | None = None,
    log_probs: Sequence[tuple[str, str]] = (),
    mask: str | None = None,
    tolerance: float = 0.01,
    log_prob_tolerance: float = 0.1,
    share: float = 0.01,
    table: Literal["xlsx", "csv"] = "xlsx",
    threads: int = 0,
    force: bool = False,
) -> RlResult:
    """Where do two runs of reinforcement learning, or rollout and training of one, part? (docs/rl.md)

    reference, target: dump paths of SingleSave; without a target rollout and training of the reference are
    compared. output: folder for the tables, report.html and verdict.json; None: nothing is written.
    weights: also two checkpoints, those that the training sent and those of the rollout; mapping: their
    names, as for ckpt().
    log_probs: pairs of keys to compare token by token. mask: tokens where this key is 0 are left out; None:
    by response_mask or loss_mask, "": all count.
    tolerance: relative, of values. log_prob_tolerance: absolute. share: of the tokens, how many may be beyond
    it. force: replace results that are there already.

    Raises InvalidArgument, FormatError, UnsupportedError and IoError.
    """
    from msprobe.native import InvalidArgument
    from msprobe.rl.command import compare_weights
    from msprobe.rl.comparison import CompareOptions, compare_records
    from msprobe.rl.outputs import compare_into
    from msprobe.rl.result import Rule

    if reference is None and (weights is None or target is not None or log_probs):
        raise InvalidArgument("rl_compare: expected a reference, or the weights alone")
    if mapping is not None and weights is None:
        raise InvalidArgument("rl_compare: mapping is that of weights, which are not there")
    ours = None if reference is None else Path(reference)
    theirs = None if target is None else Path(target)
    options = CompareOptions(
        rule=Rule(tolerance=tolerance, log_prob_tolerance=log_prob_tolerance, share=share),
        log_probs=log_probs,
        mask=mask,
        threads=threads,
        table=table,
    )
    of_weights = None
    if weights is not None:
        sent, received = (os.fspath(path) for path in weights)
        of_weights = functools.partial(compare_weights, sent, received, mapping, threads=threads)
    if output is not None:
        result = compare_into(Path(output), ours, theirs, options, of_weights, force=force)[0]
        return with_page(result, Path(output) / "report.html")
    return compare_records(ours, theirs, None, options, None if of_weights is None else of_weights())


def diff(
    reference: StrPath,
    target: StrPath,
    name: str | None = None,
    target_name: str | None = None,
    *,
    step: int | None = None,
    rank: int | None = None,
    rtol: float = 0.001,
    atol: float = 0.001,
) -> DiffResult:
    """How do two tensors differ, or two files of one kind? (docs/show.md)

    reference, target: files or folders of any kind that msprobe knows. name: an entry of both; None: all
    entries are compared. target_name: its name in the target, where it is another.
    step, rank: of folders with several dumps. rtol, atol: from when on elements are not close.

    Raises InvalidArgument, FormatError and IoError.
    """
    from msprobe.diff.command import DiffOptions, compare_sources
    from msprobe.sources.opening import open_source

    ours, theirs = (open_source(os.fspath(path), step, rank) for path in (reference, target))
    return compare_sources(ours, theirs, DiffOptions(name, target_name, rtol, atol))


@dataclass(frozen=True, repr=False)
class TrendResult(Result):
    """What trainings did by the records of their monitors; the first is the reference of the others."""

    records: list[Record]
    comparisons: list[Comparison]

    @property
    def sentence(self) -> str:
        if self.comparisons:
            return "; ".join(one.sentence for one in self.comparisons)
        record = self.records[0]
        return (
            f"{record.name}: {record.steps} steps, {len(record.series)} series, {len(record.alarms)} alarms"
        )

    def table(self) -> Sequence[dict[str, Cell]]:
        """Of two runs where they diverge; of one its alarms."""
        if not self.comparisons:
            return [
                {
                    "step": one.step,
                    "rule": one.rule,
                    "series": one.series,
                    "value": one.value,
                    "said": one.message,
                }
                for one in self.records[0].alarms
            ]
        return [
            {
                "target": one.target,
                "step": part.step,
                "series": part.series,
                "reference_value": part.reference,
                "target_value": part.target,
                "band": part.band,
            }
            for one in self.comparisons
            for part in one.partings
        ]


def trend(
    reference: StrPath, *targets: StrPath, rank: int | None = None, offset: int | None = None
) -> TrendResult:
    """What did a training do, and where do other trainings diverge from it? By the record of the monitor
    (docs/monitor.md): folders of `msprobe run --with monitor`, or of such a record.

    rank: of a record with a store for each process; None: all. offset: as diagnose() has it. Raises
    InvalidArgument, NothingToCompare, FormatError and IoError.
    """
    from msprobe.trend.ranks import compare_all_ranks
    from msprobe.trend.record import open_records

    records = open_records([os.fspath(path) for path in (reference, *targets)], rank, offset)
    return TrendResult(records, [compare_all_ranks(records[0], record) for record in records[1:]])


@contextlib.contextmanager
def _folder(output: StrPath | None, patterns: Sequence[str], *, force: bool) -> Iterator[Path]:
    """Where results go; without a wish a folder that goes away with them."""
    if output is None:
        with tempfile.TemporaryDirectory(prefix="msprobe-") as folder:
            yield Path(folder)
        return
    with new_results(Path(output), patterns, force=force):
        yield Path(output)
