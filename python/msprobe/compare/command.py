# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe compare: exit code 0 when the runs agree, 1 when they differ or a part could not be compared, 2 on
errors.
"""

from __future__ import annotations

import argparse
import sys

from msprobe.commands import framework
from msprobe.files.regular_file import is_there
from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import (
    Parser,
    absent,
    add_force,
    add_noise,
    add_offset,
    add_output,
    add_screen,
    add_theirs,
    add_threads,
    add_timeout,
    add_two_runs,
    output_of,
)

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compare.framework_names import FrameworkNames
    from msprobe.compare.inputs import Paths
    from msprobe.compare.result import CompareResult
    from msprobe.compare.run import CompareOptions
    from msprobe.files.meeting import Process

_OUTPUT = "./comparison"

# Of the newest releases of mindstudio-probe, beside that for dumps.
_MODES = ("auto", "offline_data", "torchair", "offline_model", "atb")
_OTHER_MODES = (
    "data of offline models and graph modes of Ascend devices are not compared here, expected auto; arrays "
    "that were made of them are compared by msprobe parse vc and msprobe diff"
)

_EPILOG = """exit code: 0 the runs agree, 1 they differ or a part could not be compared, 2 an error.
REFERENCE is the run that you trust, TARGET the one that you examine: two folders of msprobe run, two dump
paths (step0, step1, ...), two folders of a step (rank0, rank1, ...) or of a rank, or two files dump.json (or
debug.json).
Under torchrun the processes share the ranks."""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    _check(parser, asked)  # answered here, before anything heavier is imported
    from msprobe.compare.inputs import find_pairs
    from msprobe.compare.run import RESULTS
    from msprobe.files.dump_folders import framework_of
    from msprobe.files.meeting import of_environment
    from msprobe.files.new_results import new_results
    from msprobe.native import log, log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        process = of_environment()
        paths = _paths(asked)
        if asked.layer_mapping is not None and framework_of(paths.target) != "mindspore":
            log.warning(
                "-lm is ignored: the layers of two PyTorch dumps are paired by their names and places"
            )
            asked.layer_mapping = None
        framework.tell_of_other((paths.reference, paths.target))
        is_helper = process is not None and process.number > 0
        options = _options(asked, paths, is_helper)
        if is_helper or not asked.is_ours:
            return _compare(asked, paths, options, process)
        find_pairs(paths, ranks=asked.rank, steps=asked.step)  # inputs are looked at before results are
        with new_results(options.output, RESULTS, force=asked.force):
            return _compare(asked, paths, options, process)


def _compare(
    asked: argparse.Namespace, paths: Paths, options: CompareOptions, process: Process | None
) -> int:
    from msprobe.compare.run import compare_runs

    result = compare_runs(paths, options, process)
    return 0 if result is None else _show(asked, result)  # else another process has the answer


def _show(asked: argparse.Namespace, result: CompareResult) -> int:
    from msprobe.compare.console import console_text
    from msprobe.compare.outputs import write_outputs
    from msprobe.compare.verdict_file import verdict_json

    culprits = result.culprits
    if asked.replay:
        from msprobe.compare.replay import replayed

        culprits = replayed(result, culprits)
    files = write_outputs(result, culprits, junit="junit" in asked.format, sarif="sarif" in asked.format)
    if asked.json:
        sys.stdout.write(verdict_json(result, culprits))
    elif not asked.quiet:
        sys.stdout.write(console_text(result, culprits, files, Paint(sys.stdout)))
    return exit_code(result, bitwise=asked.bitwise)


def exit_code(result: CompareResult, *, bitwise: bool = False) -> int:
    """0 when the runs agree, which with `bitwise` means that they are equal; else 1."""
    return 0 if result.status == "equal" or (result.status == "rounding" and not bitwise) else 1


def _check(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    """What needs nothing but the arguments and the names of files."""
    asked.is_ours = bool(asked.runs)  # and no command line of mindstudio-probe
    if asked.reference is None and asked.target is None and len(asked.runs) == 2:
        asked.reference, asked.target = asked.runs
        asked.runs = []
    if asked.mode != "auto":
        parser.error(f"-m {asked.mode}: {_OTHER_MODES}")
    two = asked.reference is not None and asked.target is not None
    if asked.runs or two == (asked.input is not None) or (not two and (asked.reference or asked.target)):
        parser.error("expected REFERENCE TARGET")
    for option, value in (("--consistent_check", asked.consistent_check), ("--backend", asked.backend)):
        if value is not None:
            parser.error(
                f"{option}: dumps of training and of inference are compared like any two runs; to pair items "
                "of other names use -dm FILE, with lines NAME: NAME_IN_THE_REFERENCE"
            )
    pairings = {
        "-f": asked.fuzzy_match,
        "-dm": asked.data_mapping is not None,
        "-cm": asked.cell_mapping is not None,
        "-am": asked.api_mapping is not None,
        "-lm": asked.layer_mapping is not None and not asked.fuzzy_match,
    }
    if sum(pairings.values()) > 1:
        parser.error(f"expected one of {' and '.join(name for name, asked in pairings.items() if asked)}")
    if "csv" in asked.format and (asked.xlsx or "xlsx" in asked.format):
        parser.error("expected one of the tables xlsx and csv")
    for path in (
        asked.reference,
        asked.target,
        asked.input,
        asked.data_mapping,
        asked.cell_mapping or None,
        asked.api_mapping or None,
        *asked.noise,
    ):
        if path is not None and not is_there(path):
            parser.error(absent(path))


def _paths(asked: argparse.Namespace) -> Paths:
    from dataclasses import replace
    from pathlib import Path

    from msprobe.compare.inputs import Paths, read_compare_file

    if asked.input is not None:
        return replace(read_compare_file(asked.input), offset=asked.offset)
    return Paths(target=Path(asked.target), reference=Path(asked.reference), offset=asked.offset)


def _options(asked: argparse.Namespace, paths: Paths, is_helper: bool) -> CompareOptions:
    from pathlib import Path

    from msprobe.compare.inputs import read_data_mapping
    from msprobe.compare.run import CompareOptions
    from msprobe.files.noise_answer import with_repeated_runs

    return CompareOptions(
        output=Path(output_of(asked, _OUTPUT, is_ours=asked.is_ours)),
        stack_mode=asked.stack_mode,
        advice=not asked.compare_only,
        fuzzy=asked.fuzzy_match,
        data_mapping=read_data_mapping(asked.data_mapping) if asked.data_mapping is not None else {},
        names=_names(asked),
        table="csv" if "csv" in asked.format else "xlsx",
        ranks=asked.rank,
        steps=asked.step,
        noise=with_repeated_runs(asked.noise),
        threads=asked.threads,
        shows_progress=not asked.quiet and not is_helper,
        timeout=asked.timeout,
    )


def _names(asked: argparse.Namespace) -> FrameworkNames | None:
    if asked.cell_mapping is None and asked.api_mapping is None and asked.layer_mapping is None:
        return None
    from msprobe.compare.framework_names import of_cells, of_functions
    from msprobe.compare.layer_names import of_layers

    if asked.layer_mapping is not None:
        return of_layers(asked.layer_mapping or None)
    if asked.cell_mapping is not None:
        return of_cells(asked.cell_mapping or None)
    return of_functions(asked.api_mapping or None)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe compare",
        usage="msprobe compare [options] REFERENCE TARGET",
        description="Compares two dumps: in which call does a difference begin?",
        epilog=_EPILOG,
    )
    _add_inputs(parser)
    _add_rules(parser)
    _add_results(parser)
    return parser


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is compared")
    add_two_runs(
        group,
        "REFERENCE TARGET",
        "the run that you trust, and the run that you examine",
        "JSON file that names them: npu_path (the target), bench_path (the reference), stack_path",
    )
    add = group.add_argument
    add("--ranks", dest="rank", metavar="N", type=_numbers, help="only these ranks: 0,2,8-15")
    add("--steps", dest="step", metavar="N", type=_numbers, help="only these steps of two dump paths")
    for name in ("rank", "step"):
        add_theirs(group, f"--{name}", dest=name, metavar="N", type=_numbers, help=f"the same as --{name}s")
    add_offset(group)
    add_theirs(
        group,
        "-s",
        "--stack_mode",
        action="store_true",
        help="show the stacks of stack_path; without stack_path, stack.json beside the dump is shown anyway",
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    add = group.add_argument
    add_theirs(group, "-m", "--mode", choices=_MODES, default="auto", help="auto: the only one here")
    add(
        "--fuzzy",
        dest="fuzzy_match",
        action="store_true",
        help="pair names that differ in the count of a call or the class of a module",
    )
    add_theirs(
        group,
        "-f",
        "-fm",
        "--fuzzy_match",
        action="store_true",
        help="the same as --fuzzy",
    )
    add(
        "--names",
        dest="data_mapping",
        metavar="FILE",
        help="YAML file: name of an item -> its name in the reference",
    )
    add_theirs(group, "-dm", "--data_mapping", metavar="FILE", help="the same as --names")
    add_theirs(
        group,
        "-lm",
        "--layer_mapping",
        metavar="FILE",
        nargs="?",
        const="",
        help="the target is of MindSpore: pair what stands at the same place of both models; YAML file: "
        "class of a layer -> its parts and their names in the reference",
    )
    add_theirs(
        group,
        "-cm",
        "--cell_mapping",
        metavar="FILE",
        nargs="?",
        const="",
        help="the target is of MindSpore: pair its Cells with Modules; YAML file: fc1.Dense: fc1.Linear",
    )
    add_theirs(
        group,
        "-am",
        "--api_mapping",
        metavar="FILE",
        nargs="?",
        const="",
        help="the target is of MindSpore: pair its functions with those of PyTorch, by a table that is built "
        "in; YAML file: a list of ms_api, pt_api, ms_args, pt_args, ms_output, pt_output",
    )
    for option in ("--consistent_check", "--backend"):
        add_theirs(
            group, option, metavar="X", nargs="?", const="", help="an error: any two runs are compared alike"
        )
    add_noise(
        group,
        "repeated runs of the reference: a difference is judged against their spread; or what "
        "msprobe repeat or msprobe perturb left of it",
    )
    add(
        "--bitwise",
        action="store_true",
        help="exit with 1 unless all is equal: rounding is a difference, too",
    )
    add(
        "--replay",
        action="store_true",
        help="run the suspect calls once more (dumps of task tensor; needs torch)",
    )
    add_threads(group)
    add_timeout(group)


def _add_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    add = group.add_argument
    add_output(group, "the results", _OUTPUT)
    add_force(group)
    add_theirs(group, "-c", "--compare_only", action="store_true", help="leave out advisor_{time}.txt")
    add_theirs(
        group,
        "-da",
        "--diff_analyze",
        action="store_true",
        help="accepted: the verdict is always there",
    )
    add_theirs(group, "--xlsx", action="store_true", help="the table as xlsx, which is the default")
    add_theirs(
        group,
        "-tensor_log",
        "--is_print_compare_log",
        action="store_true",
        help="accepted and ignored",
    )
    add(
        "--format",
        metavar="FORMAT",
        action="append",
        choices=("xlsx", "csv", "junit", "sarif"),
        default=[],
        help="xlsx or csv: the table; junit, sarif: also a report for automatic checks; may be repeated",
    )
    add_screen(group, "print the verdict as JSON, as in verdict.json")


def _numbers(text: str) -> set[int]:
    """ "0,2,8-15"."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        is_number = all(end.isascii() and end.isdigit() and len(end) <= 6 for end in ends)
        if not is_number or int(ends[0]) > int(ends[1]):
            raise argparse.ArgumentTypeError(f"expected numbers such as 0,2,8-15, found {text!r}")
        numbers.update(range(int(ends[0]), int(ends[1]) + 1))
    return numbers
