# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe graph: the graph of a run, or of two; with two also the verdict of msprobe compare.

Exit code 0 when the runs agree or there is only one, 1 when they differ or a part could not be compared or
shown, 2 on errors.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from msprobe.commands import framework
from msprobe.files.regular_file import is_there
from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import (
    Parser,
    absent,
    add_force,
    add_output,
    add_screen,
    add_theirs,
    add_threads,
    add_two_runs,
    output_of,
)

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from msprobe._core import GraphSummary
    from msprobe.compare.culprit import Culprit
    from msprobe.compare.result import CompareResult
    from msprobe.files.dump_folders import Form
    from msprobe.files.left_out import LeftOut
    from msprobe.graph.inputs import Layout, Paths
    from msprobe.graph.run import Finding, GraphOptions, GraphResult

_OUTPUT = "./graph"

# Distance between nodes of merged ranks, in rounding errors, that another order of sums explains.
_MERGED_ULPS = 1024

_EPILOG = """exit code: 0 the runs agree, 1 they differ or not all could be compared or shown, 2 an
error.
REFERENCE is the run that you trust, TARGET the one that you examine: a folder of msprobe run, a dump path
(step0, step1, ...), the folder of a step (rank0, rank1, ...) or of a rank (with dump.json, construct.json and
stack.json).
example: msprobe graph run_a run_b -o result && msprobe view result"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    _check(parser, asked)  # answered here, before anything heavier is imported
    from contextlib import nullcontext

    from msprobe.files.new_results import new_results
    from msprobe.graph.inputs import find_units
    from msprobe.graph.run import RESULTS_OF_ONE, RESULTS_OF_TWO
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"), _progress_log(asked):
        paths = _paths(asked)
        framework.tell_of_other((paths.reference, paths.target))
        options = _options(asked)
        kind = RESULTS_OF_ONE if paths.reference is None else RESULTS_OF_TWO
        find_units(paths)  # inputs are looked at before results are
        room = new_results(options.output, kind, force=asked.force) if asked.is_ours else nullcontext()
        with room:
            if paths.reference is None:
                return _show_build(asked, _write(paths, options))
            paths, not_joined = _joined(asked, paths, options)
            return _compare(asked, paths, options, not_joined)


def _joined(asked: argparse.Namespace, paths: Paths, options: GraphOptions) -> tuple[Paths, list[LeftOut]]:
    """With --merge, two runs that say how they are laid out, in other ways, become one logical process each.
    What is not said is found out from the communication of the ranks, or stands in the sizes.
    """
    if not asked.merge or paths.target_layout is not None or paths.reference is None:
        return paths, []
    from msprobe.layout.joining import joined

    runs = joined(paths.reference, paths.target, options.output, 0)
    if runs is None or not runs.has_calls:
        return paths, []
    return replace(paths, target=runs.target, reference=runs.reference, merges=False), runs.left_out


def _write(paths: Paths, options: GraphOptions) -> GraphResult:
    from msprobe.graph.run import write_graph

    return write_graph(paths, options)


# ---- two runs


def _compare(
    asked: argparse.Namespace, paths: Paths, options: GraphOptions, not_joined: list[LeftOut]
) -> int:
    """Of merged ranks and of structures there is no verdict: the graph itself decides."""
    if paths.merges or _has_no_data(paths):
        return _show_counts(asked, _write(paths, options))
    from msprobe.files.dump_folders import folder_of, form_of
    from msprobe.graph.run import GraphWriter

    # Much of the work on the file is that of one thread; meanwhile the others find the verdict.
    with GraphWriter(paths, options) as writer:
        verdict = _verdict(paths, options)
        verdict.left_out.extend(not_joined)
        culprits = verdict.culprits
        result = writer.finish(list(_findings(culprits, form_of(folder_of(paths.target)))))
    return _show_verdict(asked, result, verdict, culprits)


def _has_no_data(paths: Paths) -> bool:
    from msprobe.files.dump_folders import records_only_structure
    from msprobe.graph.inputs import find_units

    return records_only_structure(find_units(paths).units[0].target[0][1])


def _verdict(paths: Paths, options: GraphOptions) -> CompareResult:
    """What msprobe compare says of the two."""
    from msprobe.compare.inputs import Paths as ComparedPaths
    from msprobe.compare.run import CompareOptions, compare_runs
    from msprobe.files.dump_folders import folder_of

    assert paths.reference is not None
    result = compare_runs(
        ComparedPaths(target=folder_of(paths.target), reference=folder_of(paths.reference)),
        CompareOptions(
            output=options.output,
            table=None,
            advice=False,
            threads=options.threads,
            shows_progress=False,
        ),
    )
    assert result is not None  # there is one process
    return result


def _findings(culprits: list[Culprit], form: Form) -> Iterator[Finding]:
    """At their places in a graph: of a single folder it counts steps and ranks from 0."""
    from msprobe.files.dump_folders import Form
    from msprobe.graph.run import Finding

    for culprit in culprits:
        yield Finding.of(
            culprit,
            culprit.step if form is Form.RUN else 0,
            culprit.rank if form is not Form.RANK else 0,
        )


def _show_verdict(
    asked: argparse.Namespace, result: GraphResult, verdict: CompareResult, culprits: list[Culprit]
) -> int:
    from msprobe.compare.console import console_text
    from msprobe.compare.verdict_file import verdict_json, write_verdict

    file = result.file.parent / "verdict.json"
    write_verdict(file, verdict, culprits)
    if asked.json:
        sys.stdout.write(verdict_json(verdict, culprits))
    elif not asked.quiet:
        sys.stdout.write(console_text(verdict, culprits, [file], Paint(sys.stdout)))
        sys.stdout.write(_counts(result))
    return 0 if verdict.agree else 1


def _show_counts(asked: argparse.Namespace, result: GraphResult) -> int:
    agree = _agree(result)
    if asked.json:
        _print_json(result, agree=agree)
    elif not asked.quiet:
        sentence = f"The runs {'agree' if agree else 'differ'}: {_why(result.summary)}"
        sentence = Paint(sys.stdout).answer(sentence, good=agree)
        sys.stdout.write(f"{sentence}\n{_left_out(result, 'not compared')}{_counts(result)}")
    return 0 if agree else 1


def _agree(result: GraphResult) -> bool:
    """Structures agree when nothing is without a match. Ranks that were merged sum in another order, and
    communicate in other places: there only distances count.
    """
    summary = result.summary
    if result.inputs.left_out:
        return False
    if summary.mode == "structure":
        return summary.unmatched + summary.reference_unmatched == 0
    return summary.worst_ulps <= _MERGED_ULPS


def _why(summary: GraphSummary) -> str:
    from msprobe.graph.view import measured
    from msprobe.terminal.printable import printable

    if summary.mode == "structure":
        return (
            f"{summary.unmatched} nodes are only in the target, "
            f"{summary.reference_unmatched} only in the reference"
        )
    if summary.worst_ulps == 0:
        return "no node differs"
    return f"{printable(summary.worst_node)} differs most, {measured(summary.worst_ulps)}"


def _show_build(asked: argparse.Namespace, result: GraphResult) -> int:
    if asked.json:
        _print_json(result, agree=True)
    elif not asked.quiet:
        sys.stdout.write(f"{_left_out(result, 'not shown')}{_counts(result)}")
    return 1 if result.inputs.left_out else 0


def _left_out(result: GraphResult, word: str) -> str:
    from msprobe.files.left_out import lines
    from msprobe.terminal.printable import printable

    return "".join(f"  {word}: {printable(one)}\n" for one in lines(result.inputs.left_out))


def _counts(result: GraphResult) -> str:
    from msprobe.terminal.printable import printable

    summary = result.summary
    graphs = "1 graph" if summary.graphs == 1 else f"{summary.graphs} graphs"
    text = f"{graphs}, {summary.nodes} nodes"
    if result.file.name.startswith("compare"):
        text += f": {summary.unmatched} without a match, {summary.worst} with a large difference"
    return f"{text}\n  {printable(str(result.file))}\n"


def _print_json(result: GraphResult, *, agree: bool) -> None:
    import json

    from msprobe.files.left_out import joined

    summary = result.summary
    counts = {"graphs": summary.graphs, "nodes": summary.nodes}
    counts.update(unmatched=summary.unmatched, worst_colour=summary.worst)
    left_out = [one.content for one in joined(result.inputs.left_out)]
    verdict = "agree" if agree else "differ"
    content = {"verdict": verdict, "file": str(result.file), **counts, "left_out": left_out}
    sys.stdout.write(json.dumps(content, indent=1) + "\n")


# ---- the command line


def _check(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    """What needs nothing but the arguments and the names of files."""
    asked.is_ours = bool(asked.runs)  # and no command line of mindstudio-probe
    if asked.runs and asked.target is None and asked.reference is None and len(asked.runs) <= 2:
        *reference, asked.target = asked.runs
        asked.reference = reference[0] if reference else None
        asked.runs = []
    if asked.runs or (asked.target is not None) == (asked.input is not None):
        parser.error("expected [REFERENCE] TARGET: one run, or two")
    if asked.reference is not None and asked.target is None:
        parser.error("-gp: expected -tp TARGET beside it")
    for path in (asked.reference, asked.target, asked.input, asked.layer_mapping or None):
        if path is not None and not is_there(path):
            parser.error(absent(path))
    if asked.file_type == "json":
        parser.error("--file_type json: merged data are written as .vis.db only")
    sizes = {"--rank_size": asked.rank_size, "--tp": asked.tp, "--pp": asked.pp}
    given = [name for name, value in sizes.items() if value is not None]
    if given and len(given) < len(sizes):
        parser.error(f"expected --rank_size, --tp and --pp together, found {', '.join(given)} only")
    if given and asked.input is not None:
        parser.error("with -i the sizes of parallel_merge stand in the file, not on the command line")
    wanted = 2 if asked.reference is not None else 1
    for name in given:
        if len(sizes[name]) != wanted:
            parser.error(f"{name}: expected {wanted} number{'s'[: wanted - 1]}, found {len(sizes[name])}")


def _paths(asked: argparse.Namespace) -> Paths:
    from msprobe.graph.inputs import Paths, read_compare_file

    if asked.input is not None:
        paths = read_compare_file(asked.input)
        return replace(paths, merges=paths.merges or asked.merge)
    reference = Path(asked.reference) if asked.reference is not None else None
    return Paths(
        Path(asked.target),
        reference,
        asked.merge or asked.rank_size is not None,
        _layout(asked, 0),
        _layout(asked, 1) if reference is not None else None,
    )


def _layout(asked: argparse.Namespace, side: int) -> Layout | None:
    from msprobe.graph.inputs import Layout

    if asked.rank_size is None:
        return None
    sizes = {"rank_size": asked.rank_size[side], "tp": asked.tp[side], "pp": asked.pp[side]}
    # As in the newest release: for two runs these count only when both are given.
    both = 2 if asked.reference is not None else 1
    for name in ("vpp", "cp", "ep"):
        given = getattr(asked, name)
        if given is not None and len(given) >= both:
            sizes[name] = given[side]
    order = asked.order[side] if asked.order is not None and len(asked.order) >= both else None
    layout = Layout(**sizes, **({} if order is None else {"order": order}))
    return layout.check("the command line")


def _options(asked: argparse.Namespace) -> GraphOptions:
    from msprobe.graph.run import GraphOptions

    rules = None
    if asked.layer_mapping and not asked.fuzzy_match:
        from msprobe.files.layer_rules import read_layer_rules

        rules = read_layer_rules(asked.layer_mapping)
    is_mapped = asked.layer_mapping is not None
    return GraphOptions(
        output=Path(output_of(asked, _OUTPUT, is_ours=asked.is_ours)),
        rule="fuzzy" if asked.fuzzy_match else "mapped" if is_mapped else "default",
        layer_rules=rules,
        overflow_check=asked.overflow_check,
        threads=asked.threads,
        shows_progress=not asked.quiet,
    )


def _progress_log(asked: argparse.Namespace) -> AbstractContextManager[object]:
    from contextlib import nullcontext

    return _ProgressLog() if asked.progress_log else nullcontext()


class _ProgressLog:
    """The lines that a program around the newest release reads: PROGRESS: {...}."""

    def __enter__(self) -> None:
        self._say(0, running=True)

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._say(0 if error else 100, running=False, error=error)

    def _say(self, progress: int, *, running: bool, error: BaseException | None = None) -> None:
        import json

        errors = [str(error)] if error is not None else []
        content = {"current_progress": progress, "process_running": running, "error_msg": errors}
        print("PROGRESS: " + json.dumps(content), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe graph",
        usage="msprobe graph [options] [REFERENCE] TARGET",
        description="Shows the hierarchy of a model and where two runs of it differ; see msprobe view.",
        epilog=_EPILOG,
    )
    _add_inputs(parser)
    _add_rules(parser)
    _add_merging(parser)
    _add_results(parser)
    return parser


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    add_two_runs(
        parser.add_argument_group("what is shown"),
        "[REFERENCE] TARGET",
        "the run that you trust, if any, and the run that you examine",
        "JSON file that names them: npu_path (the target), bench_path (the reference), parallel_merge",
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    add = group.add_argument
    add(
        "--fuzzy",
        dest="fuzzy_match",
        action="store_true",
        help="pair modules by name, and calls in them by their order",
    )
    add_theirs(group, "-f", "-fm", "--fuzzy_match", action="store_true", help="the same as --fuzzy")
    add(
        "--layers",
        dest="layer_mapping",
        metavar="FILE",
        nargs="?",
        const="",
        help="YAML file: class of a layer -> names of its parts in both runs; without FILE: equal names",
    )
    add_theirs(
        group, "-lm", "--layer_mapping", metavar="FILE", nargs="?", const="", help="the same as --layers"
    )
    add("--nan", dest="overflow_check", action="store_true", help="mark where NaN and infinities come from")
    add_theirs(group, "-oc", "--overflow_check", action="store_true", help="the same as --nan")
    add_threads(group)
    add_theirs(
        group, "-cs", "--complete_stack", action="store_true", help="accepted: stacks are always complete"
    )


def _add_merging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "merging the ranks of a parallel job; for two runs two numbers, as in mindstudio-probe "
        "that of TARGET first"
    )
    group.add_argument("--merge", action="store_true", help="how they were split is found out")
    for name, text in (
        ("rank_size", "number of ranks"),
        ("tp", "size of tensor parallelism"),
        ("pp", "stages of the pipeline"),
        ("vpp", "chunks of each stage (default: 1)"),
        ("cp", "size of context parallelism (default: 1)"),
        ("ep", "size of expert parallelism (default: 1)"),
    ):
        group.add_argument(f"--{name}", metavar="N", type=_size, nargs="+", help=text)
    group.add_argument("--order", metavar="S", nargs="+", help="how ranks are numbered (tp-cp-ep-dp-pp)")


def _add_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    add_output(group, "the results", _OUTPUT)
    add_force(group)
    add_theirs(group, "--file_type", choices=("db", "json"), default="db", help="db")
    add_theirs(
        group, "-tensor_log", "--is_print_compare_log", action="store_true", help="accepted and ignored"
    )
    add_theirs(group, "-progress_log", "--is_print_progress_log", dest="progress_log", action="store_true",
        help="print lines PROGRESS: {...} for a program")  # fmt: skip
    add_screen(group, "print the verdict as JSON")


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return int(text)
