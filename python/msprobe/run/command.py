# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run: runs a training script unchanged, and records it. The exit code is that of the script; 2
before it has begun. As msprobe perturb, 1 where the script ends well and a call is fragile, 2 where nothing
could be measured.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from msprobe.terminal.command_line import Parser, add_junit

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.port_recording import PortRecording
    from msprobe.recorders import RunRecording
    from msprobe.recording.recorder import Recorder
    from msprobe.recording.settings import RunSettings

_WITH_VALUE = (
    "-c", "--config", "-o", "--output", "--steps", "--level", "--with", "--without", "--format",
    "--mode", "--ranks", "--set", "--precision", "--transplant", "--keep",
)  # fmt: skip

# As in recording/settings.py, which is not loaded to answer a wrong command line.
_PERTURB = (
    "all", "calls", "modules",
    "improve_precision", "add_noise", "bit_noise", "change_value", "no_change", "to_cpu",
)  # fmt: skip

_EPILOG = """exit code: that of the script; 2 when it was not begun.
example: msprobe run -o run_a train.py --lr 1e-3
         msprobe run -o run_a train.ipynb
         torchrun --nproc-per-node 2 -m msprobe run -o run_a --with monitor train.py"""
_EPILOG_OF_PERTURB = """exit code: that of the script where it fails; else 0 no call is fragile, 1 one is, 2
nothing could be measured."""


def perturb(arguments: list[str]) -> int:
    """msprobe perturb."""
    return main(arguments, command="perturb")


def main(arguments: list[str], *, command: str = "run") -> int:
    parser = _parser(command)
    ours, is_module, words = _split(arguments)
    asked = parser.parse_args(ours)
    if not words:
        parser.error(f"expected {'a module after -m' if is_module else 'a script, or -m and a module'}")
    if asked.ranks is not None:
        return _run_ranks(parser, asked, ours, [*(["-m"] if is_module else []), *words])
    if asked.against_one:
        parser.error("--against-one needs --ranks N")
    from msprobe.autostart import disarm
    from msprobe.experiment.changes import at_start, recorders, with_torch
    from msprobe.experiment.inside import keepers
    from msprobe.experiment.kept import KINDS
    from msprobe.experiment.plan import parse_change
    from msprobe.hooks.arming import when_torch_is_imported
    from msprobe.port_recording import mindspore_recording
    from msprobe.recorders import RunRecording
    from msprobe.recording.launch import words_before_run
    from msprobe.recording.run_file import rank_of_process
    from msprobe.recording.script import Program
    from msprobe.run.ranks import PART_OF_RUN

    answered = [f"{kind}.{text}" for kind in ("precision", "transplant") for text in getattr(asked, kind)]
    changes = tuple(parse_change(text) for text in (*asked.set, *answered))
    at_start(changes, in_this_process=True)
    settings = _settings(asked, asked.output)
    program = Program(words, is_module=is_module)
    typed = [*(["-m"] if is_module else []), *words]
    part_of = os.environ.get(PART_OF_RUN)
    own = [*words_before_run(command), command, *_kept(ours)]
    started_as = own if part_of is None else shlex.split(part_of)
    if rank_of_process() == 0 and part_of is None:  # the others begin when this one does
        _make_room(parser, settings, force=asked.force)
    disarm()
    recording = RunRecording(
        settings,
        typed,
        shows_progress=not asked.quiet,
        junit="junit" in asked.format,
        started_as=started_as,
        beside=lambda: [
            *recorders(changes),
            *_live(asked),
            *keepers(
                settings.output,
                settings.steps or range(sys.maxsize),
                KINDS if asked.keep_values else (),
                asked.keep,
            ),
        ],
    )
    if changes or asked.keep_values:
        when_torch_is_imported(lambda: with_torch(changes))
    if asked.fold:
        from msprobe.recording.telling import tell
        from msprobe.training.folded import fold_reductions

        when_torch_is_imported(lambda: fold_reductions(lambda text: tell(f"--fold: {text}")))
    when_torch_is_imported(recording.begin)
    other = mindspore_recording(settings, typed, started_as)
    try:
        code = program.run(lambda ending: _end(recording, other, ending, quiet=asked.quiet))
    except SystemExit as ending:
        if ending.code or not asked.perturb:  # that of the script
            raise
        code = 0
    return code or _code_of_perturbation(recording, asked_for=bool(asked.perturb))


def _live(asked: argparse.Namespace) -> list[Recorder]:
    if not asked.replicas:
        return []
    from msprobe.recording.live_replicas import LiveReplicas

    return [LiveReplicas()]


def _settings(asked: argparse.Namespace, output: str | None) -> RunSettings:
    from msprobe.recording.settings import run_settings

    return run_settings(
        asked.config,
        output,
        asked.steps,
        asked.level,
        asked.without,
        monitor=asked.monitor or "monitor" in asked.with_,
        perturb=asked.perturb or "",
    )


def _make_room(parser: argparse.ArgumentParser, settings: RunSettings, *, force: bool) -> None:
    """A run that is there already is removed, or is an error."""
    from msprobe.recording.run_file import earlier_run, remove_run

    earlier = earlier_run(settings)
    if earlier is not None and not force:
        parser.error(f"{earlier}: there is a run already; choose another -o, or replace it with --force")
    if earlier is not None:
        remove_run(settings.output)


def _run_ranks(
    parser: argparse.ArgumentParser, asked: argparse.Namespace, ours: list[str], words: list[str]
) -> int:
    """Several processes on this machine; with --against-one also one, and the diagnosis."""
    from msprobe.recording.launch import words_before_run
    from msprobe.run.ranks import run_ranks

    settings = _settings(asked, asked.output)
    output = str(settings.output)
    runs = {output: asked.ranks, **({f"{output}_one": 1} if asked.against_one else {})}
    for folder in runs:
        _make_room(parser, _settings(asked, folder), force=asked.force)
    options = _without(ours, {"--ranks": 1, "--against-one": 0, "-o": 1, "--output": 1})
    for folder, count in runs.items():
        if not asked.quiet:
            many = "1 process" if count == 1 else f"{count} processes"
            print(f"msprobe: {many} -> {folder}", file=sys.stderr, flush=True)
        ranks = ["--ranks", str(count)] if count > 1 else []
        started_as = [*words_before_run(), "run", *ranks, *_kept(options)]
        code = run_ranks(count, ["run", *options, "-o", folder, *words], started_as)
        if code:
            return code
    if not asked.against_one:
        return 0
    from msprobe.diagnose.command import main as diagnose

    shown = ["--quiet"] if asked.quiet else []
    replace = ["--force"] if asked.force else []
    return diagnose([f"{output}_one", output, "-o", f"{output}_diagnosis", *shown, *replace])


def _without(arguments: list[str], options: dict[str, int]) -> list[str]:
    """Without some options and the words that belong to them; an option may hold its word: --ranks=2."""
    kept: list[str] = []
    skipped = 0
    for word in arguments:
        name = word.partition("=")[0]
        if skipped:
            skipped -= 1
        elif name in options:
            skipped = 0 if "=" in word else options[name]
        else:
            kept.append(word)
    return kept


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


def _kept(ours: list[str]) -> list[str]:
    """Of our own options those that a second recording has, too."""
    kept: list[str] = []
    rest = iter(ours)
    for word in rest:
        if word in ("-o", "--output", "--steps"):
            next(rest, None)
        elif word != "--force" and not word.startswith(("-o", "--output=", "--steps=")):
            kept.append(word)
    return kept


def _end(recording: RunRecording, other: PortRecording, ending: BaseException | None, *, quiet: bool) -> None:
    """other: of a framework behind a port; the file of the run is that of whichever saw a model."""
    from msprobe.recording.run_file import rank_of_process

    other.end(_outcome(ending))
    recording.end(_outcome(ending), always=not other.has_seen_a_model)
    if quiet:
        return
    if other.summary:
        print(f"msprobe: {other.summary}", file=sys.stderr, flush=True)
    elif recording.summary and (rank_of_process() == 0 or not recording.recorded):
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


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, found {text!r}")
    return int(text)


def _outcome(ending: BaseException | None) -> str:
    if ending is None:
        return "ended"
    if isinstance(ending, SystemExit):
        code = ending.code
        return f"exit code {code if isinstance(code, int) else 0 if code is None else 1}"
    return "interrupted" if isinstance(ending, KeyboardInterrupt) else type(ending).__name__


def _parser(command: str) -> Parser:
    records = (
        "Runs a training script, which need not be changed, and records it: the set-up, losses, gradients, "
        "and the inputs and outputs of modules and functions. Models and steps are found by themselves."
    )
    perturbs = (
        "Runs a training script, which need not be changed, and finds what is fragile, without a second "
        "run: every call is made again with other rounding (calls), and what rounding in each module does to "
        "the loss is measured (modules)."
    )
    parser = Parser(
        prog=f"msprobe {command}",
        usage=f"msprobe {command} [options] SCRIPT [ARGUMENTS] | "
        f"msprobe {command} [options] -m MODULE [ARGUMENTS]",
        description=perturbs if command == "perturb" else records,
        epilog=_EPILOG_OF_PERTURB if command == "perturb" else _EPILOG,
    )
    add = parser.add_argument
    add("-c", dest="config", metavar="FILE", help="config.yaml or config.json; see msprobe init")
    # Names that they had: accelerate and torchrun take them for short forms of options of their own.
    add("--config", metavar="FILE", help=argparse.SUPPRESS)
    add("--monitor", action="store_true", help=argparse.SUPPRESS)
    add("-o", "--output", metavar="OUT", help="folder of the run (default: ./msprobe_run)")
    add("--steps", metavar="STEPS", help='steps to record: 0-2,10 or "all" (default: 0-2)')
    add("--level", choices=("L0", "L1", "mix"), help="modules, functions, or both (default: mix)")
    add(
        "--without",
        metavar="PART",
        action="append",
        choices=("config", "losses", "gradients", "dump", "sketch"),
        default=[],
        help="leave out config, losses, gradients, dump, or the sketch of each tensor; may be repeated",
    )
    add(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="change a setting, as layers.2.norm1.eps=1e-5, optimizer.lr=1e-4, seed.torch=0, "
        "torch.deterministic=True; may be repeated (docs/hunt.md)",
    )
    add(
        "--precision",
        metavar="MODULE=DTYPE",
        action="append",
        default=[],
        help="have a module compute in float64, float32, bfloat16 or float16; may be repeated",
    )
    add(
        "--transplant",
        metavar="MODULE=RUN",
        action="append",
        default=[],
        help="answer the calls of a module with what run RUN kept of it: results and gradients, in the steps "
        "that it kept; may be repeated",
    )
    add(
        "--keep",
        metavar="MODULE",
        action="append",
        default=[],
        help="keep the calls of a module in the recorded steps, to be transplanted; may be repeated",
    )
    add("--keep-values", action="store_true", help="keep what the recorded steps begin with, for --set feed.")
    add(
        "--with",
        dest="with_",
        action="append",
        choices=("monitor",),
        default=[],
        help="monitor: also record norms, outliers and alarms at every step, for msprobe trend",
    )
    of_calls = "bit_noise and the other modes of the free benchmark: make every call again with that change"
    if command == "perturb":
        add(
            "--mode",
            dest="perturb",
            choices=_PERTURB,
            default="all",
            metavar="MODE",
            help=f"calls, modules or all (default: all); {of_calls}",
        )
    else:
        add(
            "--perturb",
            nargs="?",
            const="all",
            choices=_PERTURB,
            metavar="MODE",
            help="as msprobe perturb --mode MODE, which tells more",
        )
    add_junit(parser, "with --perturb, ")
    add(
        "--ranks",
        metavar="N",
        type=_count,
        help="start N processes on this machine, as torchrun does, and record them in one folder",
    )
    add(
        "--against-one",
        action="store_true",
        help="with --ranks: also run it in one process (OUT_one), and diagnose (OUT_diagnosis): does the "
        "parallel training compute what one process does? (docs/layouts.md)",
    )
    add(
        "--fold",
        action="store_true",
        help="sum over ranks in a fixed order, so that data-parallel layouts compare bit for bit; slower "
        "(docs/layouts.md)",
    )
    add(
        "--replicas",
        action="store_true",
        help="compare gradients and weights of all ranks of DistributedDataParallel after each step, and say "
        "at once which are not the same (docs/layouts.md)",
    )
    add("--force", action="store_true", help="replace a run that is in OUT already")
    add("--quiet", action="store_true", help="print nothing of our own but errors")
    add("-m", dest="module", metavar="MODULE", help="run a module, as python -m does; ends our options")
    return parser
