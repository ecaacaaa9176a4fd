# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe parse: a prompt, or one command of it. Exit code 0; 2 when the one command fails."""

from __future__ import annotations

import argparse
import cmd
import contextlib
import glob
import os
import shlex
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING

from msprobe.terminal.command_line import Parser
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_EPILOG = """Without COMMAND a prompt opens, which takes them one after the other; Ctrl-C leaves it.
exit code: 0, or 2 when the one command fails
example: msprobe parse
         msprobe parse pt -n a.npy
         msprobe parse cn -m a.npy -g b.npy -p 5"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    if arguments[:1] and not arguments[0].startswith("-"):
        from msprobe.native import log_on_stderr

        with log_on_stderr("WARNING"):
            return _once(parser, arguments)
    asked = parser.parse_args(arguments)
    if asked.dump_path is not None:
        return _convert(asked)
    return _prompt()


def _once(parser: argparse.ArgumentParser, words: list[str]) -> int:
    from msprobe.compat.parse.commands import WrongCommand, run

    try:
        return 0 if run(words) == 0 else 2
    except WrongCommand as error:
        if not str(error):
            return 0  # after its help
        parser.error(str(error))


def _convert(asked: argparse.Namespace) -> int:
    """What newer releases of mindstudio-probe do with -d."""
    from msprobe.compat.parse import vendor
    from msprobe.native import log_on_stderr

    with log_on_stderr("WARNING"):
        if asked.type != "npy":
            print("note: the converter writes .npy; torch.save of the arrays gives .pt", file=sys.stderr)
        return 0 if vendor.convert(asked.dump_path, None, asked.output, None, print) == 0 else 2


def _prompt() -> int:
    from msprobe.compat.parse.commands import DATA
    from msprobe.files.atomic_file import make_directory
    from msprobe.native import log_on_stderr

    make_directory(DATA)
    with log_on_stderr("WARNING"), _line_editing():
        try:
            _Prompt().cmdloop()
        except KeyboardInterrupt:
            print()
    return 0


class _Prompt(cmd.Cmd):
    prompt = "Parse >>> "

    def onecmd(self, line: str) -> bool:
        """True ends the prompt."""
        if line == "EOF":
            print()
            return True
        line = line.strip()
        if line in ("exit", "quit"):
            return True
        if line in ("", "help", "?"):
            self._help()
        elif line.startswith("!"):
            sys.stdout.flush()
            subprocess.run(line[1:], shell=True, check=False)
        else:
            self._command(line)
        return False

    def _help(self) -> None:
        from msprobe.compat.parse.commands import summary

        print(f"{summary()}\n  !... a command of the shell\nCOMMAND -h shows its options; Ctrl-C leaves")

    def _command(self, line: str) -> None:
        from msprobe.compat.parse.commands import WrongCommand, run
        from msprobe.native import Error

        try:
            run(shlex.split(line))
        except ValueError as error:  # a quote that is not closed; errors of ours are of this kind as well
            print(printable(f"error: {error}"))
        except (WrongCommand, Error) as error:
            if str(error):
                print(printable(f"error: {error}"))
        except Exception:  # one command must not end the prompt
            traceback.print_exc(file=sys.stdout)
            print("error: a fault of msprobe; please report the lines above")

    def completenames(self, text: str, *ignored: object) -> list[str]:
        from msprobe.compat.parse.commands import COMMANDS

        return [name for name in (*COMMANDS, "help", "exit") if name.startswith(text)]

    def completedefault(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Names of files."""
        word = line[:end].rpartition(" ")[2]
        cut = len(word) - len(text)
        found = sorted(glob.glob(glob.escape(word) + "*"))
        return [f"{name}/"[cut:] if os.path.isdir(name) else name[cut:] for name in found]


@contextlib.contextmanager
def _line_editing() -> Iterator[None]:
    """Where this Python has it and a person types."""
    readline: ModuleType | None = None
    with contextlib.suppress(ImportError):
        import readline
    if readline is not None:
        readline.set_completer_delims(" \t\n")
    yield


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe parse",
        usage="msprobe parse [COMMAND ...] | msprobe parse -d PATH [-t npy] [-o OUT]",
        description="A prompt for arrays and kernel dumps. COMMAND: cad, vc, dc (kernel dumps; with the CANN "
        "toolkit), pt (print an array), pk (an API of a dump), cn (compare two arrays). msprobe show and "
        "msprobe diff do the same for any file.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("-d", "--dump_path", metavar="PATH", help="convert a kernel dump, as newer releases do")
    add("-t", "--type", choices=("npy", "pt"), default="npy", help="of the converted files (npy)")
    add("-o", "--output_path", "--output", dest="output", metavar="OUT", default="./output",
        help="folder for them (default: ./output)")  # fmt: skip
    return parser
