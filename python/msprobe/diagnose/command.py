# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe diagnose: exit code 0 when the target follows the reference, 1 when it does not or a part
could not be compared, 2 on errors.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from msprobe.files.regular_file import read_text
from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, absent, add_force, add_noise, add_offset, add_screen

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msprobe.diagnose.answer import Answer, Missing, PartResult, Status
    from msprobe.diagnose.cause import Cause
    from msprobe.diagnose.parts import Comparison
    from msprobe.diagnose.run_folder import RunFolder
    from msprobe.files.left_out import LeftOut

_FOLDERS = ("config", "gradients", "dump", "graph", "joined")  # of parts, below the output

_EPILOG = """exit code: 0 the runs are equal or differ by rounding, 1 they differ or a part could not be
compared, 2 an error.
REFERENCE is the run that you trust, TARGET the one that you examine: folders of msprobe run, or folders that
hold any of config packs, checkpoints, logs with losses, gradient records and dumps.
With one run of several processes, alone: are the values equal that its layout says are the same on several
ranks (docs/layouts.md)?
example: msprobe diagnose run_a run_b -o diagnosis"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.target is None:
        return _replicas(parser, asked)
    reference, target, output = Path(asked.reference), Path(asked.target), Path(asked.output)
    for path in (reference, target):  # answered here, before anything heavier is imported
        if not path.exists():
            parser.error(absent(path))
        if not path.is_dir():
            parser.error(f"{path}: expected the folder of a run")
    for path in asked.noise:
        if not os.path.exists(path):
            parser.error(absent(path))
    from msprobe.diagnose.answer_file import FILE, console_text
    from msprobe.files.noise_answer import with_repeated_runs
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        answer = diagnose_runs(
            reference,
            target,
            output,
            graph=not asked.no_graph,
            force=asked.force,
            noise=with_repeated_runs(asked.noise),
            offset=asked.offset,
            all_tables=asked.all_tables,
            cells=_cells(asked.cell_mapping),
            ignore=asked.ignore,
            shows_progress=not asked.quiet,
        )
    if asked.json:
        sys.stdout.write(read_text(output / FILE))
    elif not asked.quiet:
        sys.stdout.write(console_text(answer, output, Paint(sys.stdout)))
    return 0 if answer.follows else 1


def _replicas(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> int:
    """Of one run alone."""
    run, output = Path(asked.reference), Path(asked.output)
    if not run.exists():
        parser.error(absent(run))
    if not run.is_dir():
        parser.error(f"{run}: expected the folder of a run")
    given = [option for option in ("noise", "offset", "all_tables", "no_graph") if getattr(asked, option)]
    if given:
        parser.error(f"--{given[0].replace('_', '-')} needs two runs: REFERENCE and TARGET")
    from msprobe.diagnose.replica_answer import FILE, console_text, write_answer
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        result = write_answer(run, output, force=asked.force)
    if asked.json:
        sys.stdout.write(read_text(output / FILE))
    elif not asked.quiet:
        sys.stdout.write(console_text(result, output, Paint(sys.stdout)))
    return 0 if result.status == "equal" else 1


def diagnose_runs(
    reference: Path,
    target: Path,
    output: Path,
    *,
    graph: bool,
    force: bool,
    noise: Sequence[Path] = (),
    offset: int | None = None,
    all_tables: bool = False,
    cells: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    shows_progress: bool,
) -> Answer:
    """Compares everything that both runs have, and fills `output`. noise, offset, all_tables, cells: see
    DiagnoseOptions. ignore: places of intended differences. Raises InvalidArgument, NothingToCompare and
    IoError.
    """
    from msprobe.diagnose.across_layouts import comparison_of
    from msprobe.diagnose.answer_file import FILE, PAGE, answer_json
    from msprobe.diagnose.page import page_html
    from msprobe.diagnose.parts import DiagnoseOptions
    from msprobe.diagnose.run_folder import find_run
    from msprobe.files.atomic_file import make_directory, write_text
    from msprobe.files.new_results import new_results
    from msprobe.native import InvalidArgument

    runs = find_run(reference), find_run(target)
    for path in (reference, target):
        if _would_harm(output, path):
            raise InvalidArgument(f"{output}: holds {path}, which would be written over; choose another -o")
    results = (FILE, PAGE, "checkpoint.json", "checkpoint.html", "graph.html", *_FOLDERS)
    with new_results(output, results, force=force):
        make_directory(output)
        options = DiagnoseOptions(shows_progress, noise, offset, all_tables, cells)
        comparison = comparison_of(*runs, output, options)
        answer = _diagnose(comparison, *runs, with_graph=graph, ignore=ignore)
        write_text(output / PAGE, page_html(answer, reference, target, output))
        write_text(
            output / FILE, answer_json(answer, reference, target, output)
        )  # last: all the rest is there
    return answer


def _cells(file: str | None) -> Mapping[str, str] | None:
    """Raises InvalidArgument."""
    from msprobe.compare.inputs import read_data_mapping

    return None if file is None else read_data_mapping(file)


def _would_harm(output: Path, run: Path) -> bool:
    """Whether results in `output` may hit a run: it is that folder, or lies where a part is written, or the
    folder holds a run.
    """
    output, run = output.resolve(), run.resolve()
    places = {output, *(output / name for name in _FOLDERS)}
    return (
        bool(places & {run, *run.parents} - {output}) or output == run or any(output.glob("run.rank*.json"))
    )


def _diagnose(
    comparison: Comparison, a: RunFolder, b: RunFolder, *, with_graph: bool, ignore: Sequence[str] = ()
) -> Answer:
    """Raises NothingToCompare when no part is in both runs and can be compared."""
    from msprobe.diagnose.answer import COMPARED, ORDER_OF_PARTS, Answer, conclude
    from msprobe.diagnose.forward_only import differences
    from msprobe.diagnose.ignored import explains, without_ignored
    from msprobe.native import NothingToCompare

    parts = [comparison.compare(part, look) for part, look in comparison.parts]
    parts.sort(key=lambda part: ORDER_OF_PARTS.index(part.part))
    if not any(part.status in COMPARED for part in parts):
        failed = [f"{part.part}: {part.sentence}" for part in parts if part.status == "failed"]
        have = "; ".join(f"{run.path} has {_parts_of(run)}" for run in (a, b))
        raise NothingToCompare(
            f"the runs have nothing in common that can be compared: {have}"
            + (f" ({'; '.join(failed)})" if failed else "")
        )
    parts, ignored = without_ignored(parts, ignore)
    cause, others = conclude(parts)
    not_compared = [*comparison.left_out, *(one for part in parts for one in part.left_out)]
    is_explained = cause is None and explains(ignored, parts)
    status = "rounding" if is_explained else _status(cause, parts)
    if status in ("equal", "rounding") and any(one.is_difference for one in not_compared):
        status = "incomplete"
    commands = []
    page = None
    if cause is not None and cause.part == "dump" and with_graph:
        graph = comparison.graph(cause)
        if graph is not None:
            file, page = graph
            commands.append(f"msprobe view {file.parent}")
    if cause is not None and a.program and b.program and not comparison.is_across:
        commands.append(_hunt(a, b))
    beside = differences(a.forward_only, b.forward_only, comparison.offset, values=status == "equal")
    sentence = _sentence(cause, parts, status, not_compared, rank_count=comparison.rank_count)
    if is_explained and status == "rounding":
        sentence = f"Nothing differs but {ignored[0].said}, which is ignored, and what follows from it"
    return Answer(
        status=status,
        sentence=sentence,
        ignored=tuple(ignored),
        not_compared=tuple(not_compared),
        cause=cause,
        others=tuple(one for one in others if cause is None or one.name != cause.name),  # in later steps, too
        parts=tuple(parts),
        missing=()
        if is_explained
        else tuple(_missing(cause, parts, a, b, comparison.offset, can_have_packs=not comparison.is_across)),
        next_commands=tuple(commands),
        noticed=(*comparison.noticed, *_without_consequence(parts), *beside) if cause is None else (),
        again=_again(a, b) if cause is not None else (),
        graph=page,
        notes=(
            *_notes(a, b, comparison.offset, is_joined=comparison.is_joined),
            *comparison.notes,
            *_not_found(ignore, ignored),
        ),
    )


def _without_consequence(parts: list[PartResult]) -> list[str]:
    return [
        f"{one.plain}, without consequence in what was recorded" for part in parts for one in part.settings
    ]


def _not_found(ignore: Sequence[str], ignored: Sequence[Cause]) -> list[str]:
    if not ignore or ignored:
        return []
    return [f"nothing was ignored: no difference is at {' or '.join(ignore)}"]


def _parts_of(run: RunFolder) -> str:
    """In words; of a run that recorded nothing, why."""
    if run.parts:
        return ", ".join(run.parts)
    return f"nothing: {'; '.join(run.notes)}" if run.notes else "nothing"


def _hunt(reference: RunFolder, target: RunFolder) -> str:
    """What proves the answer by experiments."""

    reference_words, target_words = (shlex.quote(shlex.join(run.training)) for run in (reference, target))
    return f"msprobe hunt --reference {reference_words} --target {target_words}"


def _notes(a: RunFolder, b: RunFolder, offset: int, *, is_joined: bool) -> list[str]:
    """The command lines are no setting of the training, but a hint where to look."""
    from msprobe.compare.console import began

    notes = [began(offset)] if offset else []
    notes += [f"{run.path.name}: {note}" for run in (a, b) for note in run.notes]
    if a.processes and b.processes and a.processes != b.processes and not is_joined:
        notes.append(
            f"{a.processes} and {b.processes} processes trained: where they share a batch, a rank sees a "
            "part of it, and its inputs and losses differ; the gradients are those of the batch"
        )
    if a.program and b.program and a.program != b.program:
        notes.append(f"the command lines differ: {' '.join(a.program)} -> {' '.join(b.program)}")
    return notes


def _status(cause: Cause | None, parts: list[PartResult]) -> Status:
    """One answer of all parts. What differs in the set-up, or in weights that a training left behind, is a
    difference in how something is done: the runs follow each other while what they compute does.
    """
    from msprobe.diagnose.answer import COMPARED, NUMBERS, numbers_agree

    statuses = {part.part: part.status for part in parts}
    if cause is not None or any(statuses[part] == "differ" for part in NUMBERS):
        return "differ"
    if any(status in ("failed", "incomplete") for status in statuses.values()):
        return "incomplete"
    if numbers_agree(parts):
        return "rounding" if any(statuses[part] == "rounding" for part in NUMBERS) else "equal"
    differs = any(status == "differ" for part, status in statuses.items() if part != "config")
    return (
        "differ"
        if differs
        else "equal"
        if any(status in COMPARED for status in statuses.values())
        else "incomplete"
    )


def _sentence(
    cause: Cause | None,
    parts: list[PartResult],
    status: Status,
    not_compared: list[LeftOut],
    *,
    rank_count: int,
) -> str:
    from msprobe.compare.culprit import difference
    from msprobe.diagnose.answer import COMPARED
    from msprobe.files.left_out import sentence as missing_words
    from msprobe.files.ranges import which_ranks
    from msprobe.terminal.printable import printable

    if cause is not None:
        before = [one for one in not_compared if cause.may_follow_from(one)]
        names_rank = rank_count > 1 or any(one.rank is not None for one in before)
        return difference(
            printable(cause.plain) or cause.where,
            cause.step,
            which_ranks(cause.ranks or [cause.rank], rank_count)
            if names_rank and cause.rank is not None
            else "",
            missing_words(before),
        )
    first = min((part.first_step for part in parts if part.first_step is not None), default=None)
    if first is not None and status == "differ":
        return f"First difference: step {first}; what was recorded does not show why"
    if status == "differ":
        said = next(part for part in parts if part.status == "differ" and part.part != "config")
        return f"{said.sentence.rstrip('.')}; what was recorded does not show why"
    compared = ", ".join(part.part for part in parts if part.status in COMPARED)
    if status == "incomplete":
        open_parts = [part.part for part in parts if part.status in ("failed", "incomplete")]
        missing = [one for one in not_compared if one.is_difference]
        what = missing_words(missing) or ", ".join(open_parts)
        return f"Nothing differs beyond rounding, but not everything could be compared: {printable(what)}"
    if status == "rounding":
        return f"The runs differ by no more than rounding explains, in what was compared: {compared}"
    return f"The runs are equal in what was compared: {compared}"


def _missing(
    cause: Cause | None,
    parts: list[PartResult],
    a: RunFolder,
    b: RunFolder,
    offset: int,
    *,
    can_have_packs: bool,
) -> list[Missing]:
    """What would bring the answer nearer to the cause; nothing when it is as near as it gets."""
    from msprobe.diagnose.answer import Missing

    by_name = {part.part: part for part in parts}
    result = []
    if cause is not None and cause.part in ("config", "checkpoint", "dump"):
        return []
    dump = by_name["dump"]
    step = _step_to_dump(parts, dump.steps)
    if step is not None:
        result.append(
            Missing(
                f"a dump of step {step}",
                f"the runs diverge there, and {_words(dump.steps)}",
                _commands(a, b, (step, step - offset)),
            )
        )
    elif dump.status == "absent" and not (a.dump and b.dump):
        result.append(
            Missing("dumps of both runs", "they show the operator in which a difference begins",
                    _commands(a, b))
        )  # fmt: skip
    if by_name["config"].status == "absent" and can_have_packs:
        result.append(
            Missing("config packs of both runs", "they show whether both were set up alike", _commands(a, b))
        )
    return result[:1]  # its commands record everything else as well


def _words(steps: tuple[int, ...]) -> str:
    if not steps:
        return "no step was dumped in both"
    return (
        f"the dumps that both have end with step {steps[-1]}"
        if len(steps) > 1
        else (f"only step {steps[0]} was dumped in both")
    )


def _step_to_dump(parts: list[PartResult], dumped: tuple[int, ...]) -> int | None:
    """The first step that differs and is not dumped: clearly, or else at all."""
    clear = [part.clear_step for part in parts if part.clear_step is not None and part.part != "dump"]
    first = [part.first_step for part in parts if part.first_step is not None and part.part != "dump"]
    for steps in (first, clear):
        if steps and min(steps) not in dumped:
            return min(steps)
    return None


def _commands(a: RunFolder, b: RunFolder, steps: tuple[int, int] | None = None) -> tuple[str, ...]:
    """Those that record both again; steps: the step of each that is to be dumped."""
    outputs = [f"{run.path}_again" for run in (a, b)]
    options = [("--steps", str(step)) for step in steps] if steps is not None else [(), ()]
    return (
        *(run.command(output, *words) for run, output, words in zip((a, b), outputs, options)),
        shlex.join(["msprobe", "diagnose", *outputs, "-o", "diagnosis_again"]),
    )


def _again(a: RunFolder, b: RunFolder) -> tuple[str, ...]:
    output = f"{b.path}_again"
    return b.command(
        output
    ), f"msprobe diagnose {shlex.quote(str(a.path))} {shlex.quote(output)} -o diagnosis_again"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe diagnose",
        description="Finds where two runs diverge, from everything that both have: configuration, data, "
        "initial weights, losses, gradients, operators, optimizer.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("reference", metavar="REFERENCE", help="folder of msprobe run, of the run that you trust; alone: its "
        "ranks are held against each other")  # fmt: skip
    add("target", metavar="TARGET", nargs="?", help="the same of the run that you examine")
    add("-o", "--output", metavar="OUT", default="./diagnosis", help="folder for the results, made if needed "
        "(default: ./diagnosis)")  # fmt: skip
    add_force(parser)
    add_offset(parser)
    add_noise(
        parser,
        "what msprobe repeat or msprobe perturb left of the reference, or dumps of repeated runs "
        "of it: a difference is judged against what these show",
    )
    add(
        "--ignore",
        metavar="PLACE",
        action="append",
        default=[],
        help="an intended difference: the module, parameter, setting or call, as an answer names it; * and ? "
        "stand for other letters; may be repeated",
    )
    add(
        "--all-tables",
        action="store_true",
        help="write the csv tables of all steps and ranks of the dumps, not of the one in question only",
    )
    add(
        "-cm",
        "--cell_mapping",
        metavar="FILE",
        help="of a run of MindSpore and one of PyTorch: YAML file with lines PATH.CELL: PATH.MODULE, for "
        "Cells that are no Module of the same path",
    )
    add("--no-graph", action="store_true", help="leave out the graph of the step of the cause")
    add_screen(parser, "print the answer as JSON, as in diagnose.json")
    return parser
