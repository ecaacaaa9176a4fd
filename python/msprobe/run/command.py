# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run: runs a training script unchanged, and records it. The exit code is that of the script; 2
before it has begun. With --perturb, 1 where the script ends well and a call is fragile, 2 where nothing could
be measured.
"""

from __future__ import annotations

import argparse
import sys

from msprobe.terminal.command_line import Parser, add_junit

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.recorders import RunRecording

_WITH_VALUE = ("-c", "--config", "-o", "--output", "--steps", "--level", "--without", "--format", "--set")

# As in recording/settings.py, which is not loaded to answer a wrong command line.
_PERTURB = (
    "all", "calls", "modules",
    "improve_precision", "add_noise", "bit_noise", "change_value", "no_change", "to_cpu",
)  # fmt: skip

_EPILOG = """exit code: that of the script; 2 when it was not begun. With --perturb, when the script ends
well: 0 no call is fragile, 1 one is, 2 nothing could be measured.
example: msprobe run -o run_a train.py --lr 1e-3
         torchrun --nproc-per-node 2 -m -- msprobe run -o run_a train.py"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    ours, is_module, words = _split(arguments)
    asked = parser.parse_args(ours)
    if not words:
        parser.error(f"expected {'a module after -m' if is_module else 'a script, or -m and a module'}")
    from msprobe.autostart import disarm
    from msprobe.experiment.changes import at_start, recorders, with_torch
    from msprobe.experiment.plan import parse_change
    from msprobe.hooks.arming import when_torch_is_imported
    from msprobe.recorders import RunRecording
    from msprobe.recording.run_file import earlier_run, rank_of_process, remove_run
    from msprobe.recording.script import Program
    from msprobe.recording.settings import run_settings

    changes = tuple(parse_change(text) for text in asked.set)
    at_start(changes, in_this_process=True)
    settings = run_settings(
        asked.config,
        asked.output,
        asked.steps,
        asked.level,
        asked.without,
        monitor=asked.monitor,
        perturb=asked.perturb or "",
    )
    program = Program(words, is_module=is_module)
    if rank_of_process() == 0:  # the others begin when this one does
        earlier = earlier_run(settings)
        if earlier is not None and not asked.force:
            parser.error(f"{earlier}: there is a run already; choose another -o, or replace it with --force")
        if earlier is not None:
            remove_run(settings.output)
    disarm()
    recording = RunRecording(
        settings,
        [*(["-m"] if is_module else []), *words],
        shows_progress=not asked.quiet,
        junit="junit" in asked.format,
        beside=lambda: recorders(changes),
    )
    if changes:
        when_torch_is_imported(lambda: with_torch(changes))
    when_torch_is_imported(recording.begin)
    try:
        code = program.run(lambda ending: _end(recording, ending, quiet=asked.quiet))
    except SystemExit as ending:
        if ending.code or not asked.perturb:  # that of the script
            raise
        code = 0
    return code or _code_of_perturbation(recording, asked_for=bool(asked.perturb))


def _code_of_perturbation(recording: RunRecording, *, asked_for: bool) -> int:
    if not asked_for:
        return 0
    if recording.benchmark is not None:
        return recording.benchmark.exit_code
    found = recording.perturbation
    return 2 if found is None or not found.files else found.result.exit_code


def _split(arguments: list[str]) -> tuple[list[str], bool, list[str]]:
    """Our own options, whether a module is run, and the words behind: options there are the script's."""
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        word = arguments[place]
        if word in ("-m", "--"):
            return arguments[:place], word == "-m", arguments[place + 1 :]
        has_mode = (
            word == "--perturb" and arguments[place + 1 : place + 2] and arguments[place + 1] in _PERTURB
        )
        place += 2 if word in _WITH_VALUE or has_mode else 1
    return arguments[:place], False, arguments[place:]


def _end(recording: RunRecording, ending: BaseException | None, *, quiet: bool) -> None:
    recording.end(_outcome(ending), always=True)
    if quiet:
        return
    if recording.summary:
        print(f"msprobe: {recording.summary}", file=sys.stderr, flush=True)
    if recording.benchmark is not None:
        print(f"msprobe: {recording.benchmark.sentence}", file=sys.stderr, flush=True)
    if recording.perturbation is not None and recording.perturbation.files:
        from msprobe.perturb.console import console_text
        from msprobe.terminal.colour import Paint

        sys.stdout.flush()  # of the script
        text = console_text(recording.perturbation.result, recording.perturbation.files, Paint(sys.stderr))
        sys.stderr.write(text)
        sys.stderr.flush()


def _outcome(ending: BaseException | None) -> str:
    if ending is None:
        return "ended"
    if isinstance(ending, SystemExit):
        code = ending.code
        return f"exit code {code if isinstance(code, int) else 0 if code is None else 1}"
    return "interrupted" if isinstance(ending, KeyboardInterrupt) else type(ending).__name__


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe run",
        usage="msprobe run [options] SCRIPT [ARGUMENTS] | msprobe run [options] -m MODULE [ARGUMENTS]",
        description="Runs a training script, which need not be changed, and records it: the set-up, losses, "
        "gradients, and the inputs and outputs of modules and functions. Models and steps are found "
        "by themselves.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("-c", "--config", metavar="FILE", help="config.yaml or config.json; see msprobe init")
    add("-o", "--output", metavar="OUT", help="folder of the run (default: ./msprobe_run)")
    add("--steps", metavar="STEPS", help='steps to record: 0-2,10 or "all" (default: 0-2)')
    add("--level", choices=("L0", "L1", "mix"), help="modules, functions, or both (default: mix)")
    add(
        "--without",
        metavar="PART",
        action="append",
        choices=("config", "losses", "gradients", "dump"),
        default=[],
        help="leave out config, losses, gradients or dump; may be repeated",
    )
    add(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="change a setting, as layers.2.norm1.eps=1e-5, optimizer.lr=1e-4, seed.torch=0, "
        "torch.deterministic=True; may be repeated (docs/hunt.md)",
    )
    add("--monitor", action="store_true", help="also record the training at every step; see docs/monitor.md")
    add(
        "--perturb",
        nargs="?",
        const="all",
        choices=_PERTURB,
        metavar="MODE",
        help="find what is fragile, without a second run: make every call again with other rounding (calls), "
        "and see what rounding in each module does to the loss (modules); all: both, which is the default. "
        "bit_noise and the other modes of the free benchmark: make every call again with that change",
    )
    add_junit(parser, "with --perturb, ")
    add("--force", action="store_true", help="replace a run that is in OUT already")
    add("--quiet", action="store_true", help="print nothing of our own but errors")
    add("-m", dest="module", metavar="MODULE", help="run a module, as python -m does; ends our options")
    return parser
