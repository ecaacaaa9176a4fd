# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe rl_compare: exit code 0 when the records agree, 1 when they differ or a part could not be compared,
2 on errors.
"""

from __future__ import annotations

import argparse
import math
import os
import sys

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import (
    Parser,
    absent,
    add_force,
    add_output,
    add_screen,
    add_threads,
    output_of,
)

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.checkpoint.result import ParameterRow
    from msprobe.rl.comparison import CompareOptions
    from msprobe.rl.result import RlResult, WeightResult

_OUTPUT = "./rl_comparison"

_EPILOG = """exit code: 0 the records agree, 1 they differ or a part could not be compared, 2 an error.
REFERENCE and TARGET are dump paths of SingleSave, which are compared key by key. Of one record alone, the log
probabilities of its rollout are compared with those of its training.
example: msprobe rl_compare run_a run_b -o comparison
         msprobe rl_compare run --log-probs rollout_log_probs=old_log_probs --mask response_mask
         msprobe rl_compare --weights sent.safetensors received.safetensors"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    _check(parser, asked)  # answered here, before anything heavier is imported
    from pathlib import Path

    from msprobe.native import log_on_stderr
    from msprobe.rl.outputs import compare_into
    from msprobe.rl.verdict_file import verdict_json

    reference, target = (Path(asked.records[i]) if i < len(asked.records) else None for i in range(2))
    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        result, files = compare_into(
            Path(output_of(asked, _OUTPUT)),
            reference,
            target,
            _options(asked),
            (lambda: _weights(asked)) if asked.weights else None,
            force=asked.force,
            junit="junit" in asked.format,
        )
    if asked.json:
        sys.stdout.write(verdict_json(result))
    elif not asked.quiet:
        sys.stdout.write(_text(result, files))
    return 0 if result.same else 1


def _text(result: RlResult, files: list[Path]) -> str:
    from msprobe.rl.console import console_text

    return console_text(result, files, Paint(sys.stdout))


def _check(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    if len(asked.records) > 2 or not (asked.records or asked.weights):
        parser.error("expected one or two records, or --weights SENT RECEIVED")
    for record in asked.records:
        if not os.path.lexists(record):
            parser.error(absent(record))
        if not os.path.isdir(os.path.join(record, "data")):
            parser.error(f"{record}: expected the dump path of SingleSave, with a folder data")
    for path in asked.weights or ():
        if not os.path.exists(path):
            parser.error(absent(path))
    if asked.log_probs and not asked.records:
        parser.error("--log-probs: expected a record")
    if asked.mapping is not None and not asked.weights:
        parser.error("--mapping is for --weights")


def _options(asked: argparse.Namespace) -> CompareOptions:
    from msprobe.rl.comparison import CompareOptions
    from msprobe.rl.result import Rule

    return CompareOptions(
        rule=Rule(
            tolerance=asked.tolerance,
            log_prob_tolerance=asked.log_prob_tolerance,
            share=asked.share,
        ),
        log_probs=asked.log_probs,
        mask=asked.mask,
        threads=asked.threads,
        shows_progress=not asked.quiet,
        table="csv" if "csv" in asked.format else "xlsx",
    )


def _weights(asked: argparse.Namespace) -> WeightResult:
    sent, received = asked.weights
    return compare_weights(
        sent, received, asked.mapping, threads=asked.threads, shows_progress=not asked.quiet
    )


def compare_weights(
    sent: str, received: str, mapping: str | None, *, threads: int = 0, shows_progress: bool = False
) -> WeightResult:
    """Weights after a sync, next to those that were sent: read as checkpoints, of any layout. Raises as
    msprobe ckpt does.
    """
    from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
    from msprobe.rl.result import WeightDifference, WeightResult
    from msprobe.terminal.progress import Progress

    with Progress("weights", shown=shows_progress, in_bytes=True) as progress:
        found = compare_checkpoints(
            sent, received, CheckpointOptions(mapping=mapping, threads=threads, progress=progress)
        )
    rounded = [row for row in found.rows if not row.equal and _is_rounding(row)]
    differing = [
        WeightDifference(row.name, _reason(row))
        for row in found.differing
        if not row.equal and not _is_rounding(row)
    ]
    differing += [WeightDifference(name, "was sent and not received") for name in found.reference_only]
    differing += [WeightDifference(name, "was received and not sent") for name in found.target_only]
    differing += [WeightDifference(name, f"not compared: {reason}") for name, reason in found.not_compared]
    return WeightResult(
        sent=sent,
        received=received,
        parameters=len(found.rows) + len(found.reference_only) + len(found.target_only),
        equal=sum(row.equal for row in found.rows),
        rounded=len(rounded),
        differing=differing,
        notes=found.notes,
    )


def _is_rounding(row: ParameterRow) -> bool:
    """Whether a weight was only rounded to a narrower dtype on its way. Numbers so small that float16 has no
    full precision for them do not count as rounding.
    """
    if row.max_relative is None or row.dtypes[0] == row.dtypes[1] or row.reshaped:
        return False
    from msprobe.native import core

    largest = max(core.unit_roundoff(dtype) for dtype in row.dtypes)
    return 0 < row.max_relative <= largest * (1 + largest)


def _reason(row: ParameterRow) -> str:
    if row.reshaped:
        return f"the shapes are {row.shapes[0]} and {row.shapes[1]}"
    if not row.compared:
        return "the hashes differ"
    share = 100 * (row.equal_bits or 0) / max(row.count, 1)
    dtypes = "" if row.dtypes[0] == row.dtypes[1] else f", {row.dtypes[0]} and {row.dtypes[1]}"
    return (
        f"largest absolute error {row.max_absolute:.3g}, relative {row.max_relative:.3g}; "
        f"{min(share, 99.9):.1f}% of the elements are equal{dtypes}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe rl_compare",
        usage="msprobe rl_compare [options] REFERENCE [TARGET] | "
        "msprobe rl_compare [options] --weights SENT RECEIVED",
        description="Compares the key data of two runs of reinforcement learning, the log probabilities of "
        "rollout and training token by token, and the weights after a sync with those that were sent.",
        epilog=_EPILOG,
    )
    _add_inputs(parser)
    _add_rules(parser)
    group = parser.add_argument_group("results")
    add_output(group, "the results", _OUTPUT)
    add_force(group)
    group.add_argument(
        "--format",
        metavar="FORMAT",
        action="append",
        choices=("xlsx", "csv", "junit"),
        default=[],
        help="xlsx (default) or csv: the tables; junit: also a report for automatic checks; may be repeated",
    )
    add_screen(group, "print the verdict as JSON, as in verdict.json")
    return parser


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is compared")
    add = group.add_argument
    add(
        "records",
        metavar="REFERENCE TARGET",
        nargs="*",
        help="one or two dump paths of SingleSave: the run that you trust, and the one that you examine",
    )
    add(
        "--log-probs",
        metavar="KEY=KEY",
        type=_pair,
        action="append",
        default=[],
        help="compare token by token: the first key of REFERENCE with the second of TARGET (of REFERENCE, "
        "where it is alone); may be repeated (default: rollout_log_probs with the training's in each record "
        "that has both)",
    )
    add(
        "--mask",
        metavar="KEY",
        help="tokens where this key is 0 are left out (default: response_mask or loss_mask, where the record "
        'has one; "" for all tokens)',
    )
    add(
        "--weights",
        metavar=("SENT", "RECEIVED"),
        nargs=2,
        help="two checkpoints of any layout: the weights that the training sent, and those of the rollout",
    )
    add(
        "--mapping", metavar="NAME|FILE", help="names of the weights, as in msprobe ckpt (vllm: fused layers)"
    )


def _add_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what counts as a difference")
    add = group.add_argument
    add(
        "--tolerance",
        metavar="T",
        type=_number,
        default=0.01,
        help="relative, of values; tokens and masks must be equal (default: 0.01)",
    )
    add(
        "--log-prob-tolerance",
        metavar="T",
        type=_number,
        default=0.1,
        help="absolute, of log probabilities (default: 0.1)",
    )
    add(
        "--share",
        metavar="S",
        type=_number,
        default=0.01,
        help="of the tokens, how many may be beyond it (default: 0.01)",
    )
    add_threads(group)


def _pair(text: str) -> tuple[str, str]:
    left, sign, right = text.partition("=")
    if not (left and sign and right):
        raise argparse.ArgumentTypeError(f"expected KEY=KEY, found {text!r}")
    return left, right


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, found {text!r}")
    return value
