# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the parsers of several commands share."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import sys

from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Any, NoReturn


# What the help of a command shows last, where its own text has no example.
_EXAMPLES = {
    "init": "msprobe init && msprobe run -c config.yaml train.py",
    "config": "msprobe config check config.yaml",
    "doctor": "msprobe doctor --json > report.json",
    "completion": 'eval "$(msprobe completion bash)"',
    "compare": "msprobe compare run_a run_b",
    "ckpt": "msprobe ckpt run_a/checkpoints run_b/checkpoints",
    "grad_compare": "msprobe grad_compare run_a run_b",
    "merge_result": "msprobe merge_result -i comparisons -o merged -config indexes.yaml",
    "view": "msprobe view run_a run_b",
    "export": "msprobe export dump",
    "config_check": "msprobe config_check run_a run_b",
    "nan_analyze": "msprobe nan_analyze run_b",
    "run_overflow_check": "msprobe run_overflow_check -api_info run_b",
    "check": "msprobe check run_b",
    "perturb": "msprobe perturb -o run_a train.py --lr 1e-3",
    "reproduce": "msprobe reproduce run_b Functional.softmax.3",
    "op_generate": "msprobe op_generate -i config_op.json -o scripts",
    "run_ut": "msprobe run_ut -api_info run_b -o result",
    "multi_run_ut": "msprobe multi_run_ut -api_info run_b -n 4 -o result",
    "api_precision_compare": "msprobe api_precision_compare -npu details_npu.csv -gpu details_gpu.csv",
}


HELP_OF_THEIRS = "--help-mindstudio"


class Theirs(str):
    """The help of an option that is there for command lines of mindstudio-probe: `msprobe help mindstudio`
    shows it, and not the help of the command.
    """

    __slots__ = ()


class _HelpOfTheirs(argparse.Action):
    """Prints the options of mindstudio-probe, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        for action in parser._actions:
            if isinstance(action.help, Theirs):
                value = f" {action.metavar}" if isinstance(action.metavar, str) else ""
                print(f"  {', '.join(action.option_strings)}{value}\n      {action.help}")
        parser.exit()


# As argparse says it, with quotes or without.
_INVALID = re.compile(
    r"^argument (?P<name>\S+): invalid choice: (?P<found>.+) \(choose from (?P<known>.+)\)$"
)


def _expected(said: re.Match[str]) -> str:
    known = [one.strip("'") for one in said["known"].split(", ")]
    words = f"{', '.join(known[:-1])} or {known[-1]}" if len(known) > 1 else known[0]
    name = said["name"].rpartition("/")[2]
    return f"{name}: expected {words}, found {said['found']}"


class Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        """No option can be abbreviated, so that a new one takes nothing from an old one. Texts of more than
        one line keep their lines.
        """
        has_lines = any("\n" in settings.get(text, "") for text in ("description", "epilog"))
        shape = argparse.RawDescriptionHelpFormatter if has_lines else argparse.HelpFormatter
        super().__init__(**{"formatter_class": shape, "allow_abbrev": False, **settings})
        self._words: list[str] = []
        if settings.get("add_help", True):
            self.add_argument(HELP_OF_THEIRS, action=_HelpOfTheirs, nargs=0, help=argparse.SUPPRESS)

    def add_theirs(self, *names: str, help: str, **settings: Any) -> None:
        """An option of mindstudio-probe, or another spelling of one of ours (with its `dest`)."""
        add_theirs(self, *names, help=help, **settings)

    def format_help(self) -> str:
        """With an example in every one."""
        hidden = [action for action in self._actions if isinstance(action.help, Theirs)]
        texts = [action.help for action in hidden]
        for action in hidden:
            action.help = argparse.SUPPRESS
        text = super().format_help()
        for action, said in zip(hidden, texts):
            action.help = said
        example = _EXAMPLES.get(self.prog.rpartition(" ")[2])
        return text if example is None or "example: " in text else f"{text}example: {example}\n"

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """With a suggestion for a mistyped option."""
        self._words = sys.argv[1:] if args is None else list(args)
        asked, unknown = self.parse_known_args(self._words, namespace)
        if unknown:
            self.error(self._said_of(unknown[0]))
        return asked

    def error(self, message: str) -> NoReturn:
        """One line; the help has the rest. What is missing is often a word that was taken for an option."""
        if message.startswith("the following arguments are required"):
            unknown = [word for word in self._words if self._is_mistyped(word)]
            message = self._said_of(unknown[0]) if unknown else message
        message = _INVALID.sub(_expected, message)
        self.exit(2, printable(f"{self.prog}: error: {message}; see {self.prog} --help") + "\n")

    def _said_of(self, word: str) -> str:
        if not word.startswith("-"):
            return f'unexpected argument "{word}"'
        close = difflib.get_close_matches(word.partition("=")[0], self._option_string_actions, n=1)
        return f'unknown option "{word}"' + (f': did you mean "{close[0]}"?' if close else "")

    def _is_mistyped(self, word: str) -> bool:
        """Whether it looks like an option, but is none, and no value such as -1 or -oOUT."""
        is_long = word.startswith("--") and len(word) > 2
        return is_long and word.partition("=")[0] not in self._option_string_actions


def add_theirs(group: argparse._ActionsContainer, *names: str, help: str, **settings: Any) -> None:
    """See Theirs. A spelling of an option of ours leaves its default alone."""
    group.add_argument(*names, help=Theirs(help), **settings)


def add_runs(group: argparse._ActionsContainer, what: str) -> None:
    """The two runs that every comparison takes, in this order."""
    group.add_argument("reference", metavar="REFERENCE", help=f"{what}, of the run that you trust")
    group.add_argument("target", metavar="TARGET", help="the same of the run that you examine")


def add_offset(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--offset",
        metavar="N",
        type=int,
        help="the target begins at step N of the reference, as a training that was resumed (default: as the "
        "step counts of their optimizers say, or equal losses)",
    )


def add_noise(group: argparse._ActionsContainer, meaning: str) -> None:
    """meaning: what the runs are, and what is done with them."""
    group.add_argument("--noise", metavar="RUN", nargs="+", action="extend", default=[], help=meaning)


def add_force(group: argparse._ActionsContainer) -> None:
    group.add_argument("--force", action="store_true", help="replace results that are there already")


def absent(path: str | os.PathLike[str]) -> str:
    """What is said of a path that does not exist, with the name beside it that may be meant."""
    folder, name = os.path.split(os.fspath(path))
    names = []
    with contextlib.suppress(OSError):
        names = os.listdir(folder or ".")
    close = difflib.get_close_matches(name, names, n=1)
    said = f": did you mean {os.path.join(folder, close[0])}?" if close else ""
    return printable(f"{os.fspath(path)} does not exist{said}")


def add_two_runs(group: argparse._ActionsContainer, runs: str, runs_help: str, file_help: str) -> None:
    """Two dumps, in all spellings: in their places, or as mindstudio-probe has them, by option or by file.

    `runs`: what the help calls those in their places.
    """
    group.add_argument("runs", metavar=runs, nargs="*", help=runs_help)
    add_theirs(group, "-gp", "--golden_path", dest="reference", metavar="REFERENCE", help="the reference")
    add_theirs(group, "-tp", "--target_path", dest="target", metavar="TARGET", help="the target")
    add_theirs(group, "-i", "--input_path", dest="input", metavar="FILE", help=file_help)


def add_output(group: argparse._ActionsContainer, what: str, default: str) -> None:
    """The folder for `what`. It is None where none was named (see output_of()), and has a default as in
    mindstudio-probe with the option alone.
    """
    settings: dict[str, Any] = {"dest": "output", "metavar": "OUT", "nargs": "?", "const": _THEIR_OUTPUT}
    text = f"folder for {what}, made if needed (default: {default})"
    group.add_argument("-o", "--output", help=text, **settings)
    add_theirs(group, "--output_path", default=argparse.SUPPRESS, help="the same as --output", **settings)


_THEIR_OUTPUT = "./output"


def output_of(asked: argparse.Namespace, default: str, *, is_ours: bool = True) -> str:
    """The folder of add_output(). is_ours: it is no command line of mindstudio-probe, which has one folder
    for all.
    """
    return asked.output if asked.output is not None else default if is_ours else _THEIR_OUTPUT


def add_threads(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--threads", metavar="N", type=thread_count, default=0, help="threads to use (default: all cores)"
    )


def add_screen(
    group: argparse._ActionsContainer, json_help: str, quiet_help: str = "print nothing but errors"
) -> None:
    """What stands on the screen instead of the few lines for a person."""
    shown = group.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help=json_help)
    shown.add_argument("--quiet", action="store_true", help=quiet_help)


def add_junit(group: argparse._ActionsContainer, when: str = "") -> None:
    """when: "with --perturb, "."""
    group.add_argument(
        "--format",
        metavar="FORMAT",
        action="append",
        choices=("junit",),
        default=[],
        help=f"junit: {when}also a report for automatic checks",
    )


def add_place(group: argparse._ActionsContainer) -> None:
    """Which dump of a run or of a folder of dumps."""
    for name in ("step", "rank"):
        group.add_argument(
            f"--{name}",
            metavar="N",
            type=whole_number,
            help=f"of a run, or a folder of dumps: this {name} (default: the first)",
        )


def whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, found {text!r}")
    return int(text)


def say_files(files: list[str], asked: argparse.Namespace) -> None:
    """The answer of a command that only writes files. asked: with the options of add_screen()."""
    if asked.json:
        import json

        print(json.dumps({"files": files}, indent=1))
    elif not asked.quiet:
        for file in files:
            print(printable(file))


def add_timeout(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=120,
        help="under torchrun: how long to wait for a process that gives no sign of life (default: 120)",
    )


def _seconds(text: str) -> float:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected whole seconds, found {text!r}")
    return float(text)


def thread_count(text: str) -> int:
    """Of an option --threads."""
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= 1024):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1024, found {text!r}")
    return int(text)


def add_limits(group: argparse._ActionsContainer) -> None:
    """Of commands that start trainings."""
    add = group.add_argument
    add("--limit", metavar="SECONDS", type=whole_number, help="end a run that takes longer (default: none)")
    add("--max-runs", metavar="N", type=whole_number, default=20, help="of all together (default: 20)")


def split_at_command(arguments: list[str], with_value: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Our own options, and the command behind them, whose options are its own. with_value: of our options."""
    place = 0
    while (
        place < len(arguments) and arguments[place].startswith("-") and arguments[place] not in ("-m", "--")
    ):
        place += 2 if arguments[place] in with_value else 1
    words = arguments[place:]
    return arguments[:place], words[1:] if words[:1] == ["--"] else words
