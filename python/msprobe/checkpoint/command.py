# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe ckpt: exit code 0 when the checkpoints are the same, 1 when they differ, 2 on errors."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import (
    Parser,
    absent,
    add_force,
    add_junit,
    add_screen,
    add_threads,
    add_timeout,
)

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.checkpoint.comparison import CheckpointOptions
    from msprobe.checkpoint.result import CheckpointResult

_OUTPUT = "./ckpt_comparison"
DEFAULT_OUTPUT = "./ckpt_similarity.json"  # as in mindstudio-probe

_EPILOG = """exit code: 0 the checkpoints are the same (with --fail-above: nothing is beyond a limit), 1 they
differ, 2 an error. REFERENCE and TARGET: a folder with latest_checkpointed_iteration.txt, of an iteration or
of a rank; a distributed checkpoint; safetensors; a file of torch.save; a .ckpt of MindSpore; or a file that
--hash-only wrote. Under torchrun the processes share the work."""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    if len(asked.checkpoints) != (1 if asked.hash_only else 2):
        parser.error(f"expected {'one checkpoint' if asked.hash_only else 'two checkpoints'}")
    if asked.hash_only and (asked.fail_above or asked.format or asked.json):
        parser.error("--hash-only only writes hashes: --fail-above, --format and --json are for comparing")
    from msprobe.checkpoint.outputs import result_file

    name = "hashes.json" if asked.hash_only else "similarity.json"
    output = result_file(asked.output if asked.output is not None else _OUTPUT, name)
    check_paths(
        parser, asked.checkpoints, output, force=asked.force
    )  # answered here, before anything heavier is imported
    from msprobe.checkpoint.comparison import CheckpointOptions
    from msprobe.checkpoint.sharing import process_of_environment
    from msprobe.files.atomic_file import make_directory
    from msprobe.native import log_on_stderr
    from msprobe.terminal.progress import Progress

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        process = process_of_environment()
        is_helper = process is not None and process.number > 0
        if process is not None:  # they meet there
            make_directory(output.parent)
        with Progress("ckpt", shown=not asked.quiet and not is_helper, in_bytes=True) as progress:
            options = CheckpointOptions(
                mapping=asked.mapping,
                rules=asked.rules,
                optimizer=asked.optimizer,
                hash=asked.hash,
                threads=asked.threads,
                progress=progress,
            )
            if asked.hash_only:
                return 0 if is_helper else _write_hashes(asked, output, options)
            from msprobe.checkpoint.sharing import compare_shared

            result = compare_shared(asked.checkpoints, options, process, output.parent, asked.timeout)
        return 0 if result is None else _show(asked, output, result)


def check_paths(
    parser: argparse.ArgumentParser, checkpoints: list[str], output: Path, *, force: bool = False
) -> None:
    for path in checkpoints:
        if not os.path.exists(path):
            parser.error(absent(path))
    if output.is_dir() or (os.path.lexists(output) and not force):
        parser.error(f"{output}: there is such a file; choose another name, or replace it with --force")
    if output.parent.exists() and not output.parent.is_dir():
        parser.error(f"{output}: {output.parent} is no folder")


def _write_hashes(asked: argparse.Namespace, output: Path, options: CheckpointOptions) -> int:
    from msprobe.checkpoint.comparison import hash_checkpoint
    from msprobe.checkpoint.hash_file import write_hash_file
    from msprobe.files.atomic_file import make_directory

    hashes = hash_checkpoint(asked.checkpoints[0], options)
    make_directory(output.parent)
    write_hash_file(output, hashes)
    if not asked.quiet:
        print(f"hashes of {len(hashes.parameters)} parameters: {output}")
    return 0


def _show(asked: argparse.Namespace, output: Path, result: CheckpointResult) -> int:
    import json

    from msprobe.checkpoint.console import console_text
    from msprobe.checkpoint.limits import beyond
    from msprobe.checkpoint.outputs import write_outputs
    from msprobe.checkpoint.similarity_file import similarity

    failing = beyond(result, asked.fail_above)
    files = write_outputs(output, result, failing, junit="junit" in asked.format, report=not asked.no_report)
    if asked.json:
        sys.stdout.write(json.dumps(similarity(result, extended=True), indent=4) + "\n")
    elif not asked.quiet:
        sys.stdout.write(console_text(result, failing, files, Paint(sys.stdout)))
    return 1 if failing else 0


def _parser() -> argparse.ArgumentParser:
    from msprobe.checkpoint.limits import METRICS, limit

    parser = Parser(
        prog="msprobe ckpt",
        usage="msprobe ckpt [options] REFERENCE TARGET | msprobe ckpt [options] CHECKPOINT --hash-only",
        description="Compares two checkpoints of any layout, parameter by parameter; nothing in them is run.",
        epilog=_EPILOG,
    )
    add = parser.add_argument_group("what is compared").add_argument
    add(
        "checkpoints",
        metavar="REFERENCE TARGET",
        nargs="+",
        help="the checkpoints: of the run that you trust, and of the one that you examine",
    )
    add(
        "--mapping",
        metavar="NAME",
        help="llama, qwen_moe, mixtral, gpt2, mindspore or a file: names of one in those of the other",
    )
    add(
        "--rules",
        metavar="FILE",
        help="how shards become parameters, in place of the table that comes with msprobe",
    )
    add("--optimizer", action="store_true", help="also the states of the optimizer")
    group = parser.add_argument_group("how")
    add = group.add_argument
    add("--hash", action="store_true", help="also a hash of the content of each parameter")
    add(
        "--hash-only",
        action="store_true",
        help="write the hashes of one checkpoint, to be compared in its place",
    )
    add_threads(group)
    add_timeout(group)
    group = parser.add_argument_group("results")
    add = group.add_argument
    add(
        "-o",
        "--output",
        metavar="OUT",
        help=f"folder for the results, made if needed (default: {_OUTPUT}); or the JSON file: OUT.json",
    )
    add_force(group)
    add(
        "--fail-above",
        metavar="METRIC=VALUE",
        type=limit,
        action="append",
        default=[],
        help=f"differ only beyond this: {', '.join(METRICS)}; may be repeated",
    )
    add_junit(group)
    add("--no-report", action="store_true", help="leave out the page")
    add_screen(group, "print the result as JSON")
    return parser
