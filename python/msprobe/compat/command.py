# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Commands of mindstudio-probe whose one name means two jobs."""

from __future__ import annotations

from pathlib import Path

from msprobe.terminal.command_line import Parser


def config_check(arguments: list[str]) -> int:
    """Packs of the set-up, which end in .zip, and checkpoints."""
    from msprobe.config_check.command import main

    return (config_check_of_checkpoints if _names_checkpoints(arguments) else main)(arguments)


def overflow_check(arguments: list[str]) -> int:
    """Of newer releases the search for the first NaN, which takes the folder of a step; and calls that are
    run again, which take a dump.json.
    """
    if any(word in ("-i", "--input_path") for word in arguments):
        from msprobe.overflow.command import main
    else:
        from msprobe.compat.overflow_check.command import main
    return main(arguments)


def _names_checkpoints(arguments: list[str]) -> bool:
    from msprobe.config_check.command import parser
    from msprobe.files.run_folder import is_run

    asked, _ = parser(exits=False).parse_known_args(arguments)
    return (
        bool(asked.compare)
        and asked.dump is None
        and not asked.live
        and not asked.compare[0].endswith("zip")
        and not is_run(asked.compare[0])
    )


def config_check_of_checkpoints(arguments: list[str]) -> int:
    """`--compare A B -o OUT`: the answer is in the file; exit code 0 when it was written, 2 on errors."""
    from msprobe.checkpoint.command import DEFAULT_OUTPUT, check_paths

    parser = Parser(
        prog="msprobe config_check",
        usage="msprobe config_check --compare A B [-o OUT]",
        description="Compares the parameters of two checkpoints.",
    )
    add = parser.add_argument
    add("-c", "--compare", metavar=("A", "B"), nargs=2, required=True, help="the checkpoints")
    add(
        "-o",
        "--output",
        metavar="OUT",
        default=DEFAULT_OUTPUT,
        help=f"the result (default: {DEFAULT_OUTPUT})",
    )
    asked = parser.parse_args(arguments)
    output = Path(asked.output)
    check_paths(parser, asked.compare, output)
    from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
    from msprobe.checkpoint.similarity_file import write_similarity
    from msprobe.native import log, log_on_stderr
    from msprobe.terminal.progress import Progress

    with log_on_stderr("WARNING"):
        with Progress("ckpt", in_bytes=True) as progress:
            reference, target = asked.compare
            result = compare_checkpoints(reference, target, CheckpointOptions(progress=progress))
        for other, names in (("ckpt2", result.reference_only), ("ckpt1", result.target_only)):
            if names:
                log.warning("Parameters not in %s: %s", other, ", ".join(names))
        write_similarity(output, result, extended=False)
    print(f"Comparison results written to {output}")
    return 0
