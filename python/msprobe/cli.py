# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The command `msprobe`. Nothing but the wanted command is imported: help and wrong command lines answer at
once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from msprobe.commands import framework
from msprobe.commands.table import COMMANDS

_FRAMEWORKS = ("pytorch", "mindspore")

_USAGE = "usage: msprobe COMMAND ... | msprobe help [COMMAND] | msprobe --version"


class CommandLineError(Exception):
    """The command line is wrong; the text says what and what is expected."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Exit codes: that of the command; 2: an error; 130: ended by Ctrl-C."""
    words = sys.argv[1:] if arguments is None else arguments
    # The script of `msprobe run` finds the streams as they are, and leaves them to the interpreter.
    is_script = next((word for word in words if word in COMMANDS), None) == "run"
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and not is_script:
            stream.reconfigure(errors="backslashreplace")  # a name that this terminal cannot show
    try:
        code = _run(words)
        if not is_script:
            sys.stdout.flush()
    except CommandLineError as error:
        return _complain(f"msprobe: error: {error}")
    except KeyboardInterrupt:
        return _interrupted(words, is_script=is_script)
    except ImportError as error:
        if not _is_ctrl_c(error):
            raise
        return _interrupted(words, is_script=is_script)
    except BrokenPipeError:  # e.g. `msprobe ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    return code


def _run(arguments: list[str]) -> int:
    framework.asked = None
    words = _without_framework(arguments)
    if not words:
        raise CommandLineError(f"expected a command: {', '.join(COMMANDS)}; see msprobe --help")
    command = words[0]
    if command == "help" and len(words) > 1:
        return _call(_known(words[1]), ["--help"])
    if command in ("-h", "--help", "help"):
        print(_help())
        return 0
    if command in ("-V", "--version"):
        from msprobe.native import __version__

        print(f"msprobe {__version__}")
        return 0
    return _call(_known(command), words[1:])


def _known(command: str) -> str:
    """The word, where it is a command."""
    if command not in COMMANDS:
        from msprobe.compat.other_names import COMMANDS_NOT_HERE

        known = COMMANDS_NOT_HERE.get(command)
        raise CommandLineError(_unknown(command) if known is None else f"{command}: {known}")
    return command


def _interrupted(words: list[str], *, is_script: bool) -> int:
    """A word, so that nobody takes what there is for the whole."""
    if not is_script:
        command = next((word for word in words if word in COMMANDS), None)
        print(f"msprobe{f' {command}' if command else ''}: interrupted", file=sys.stderr)
    return 130


def _call(command: str, arguments: list[str]) -> int:
    module, function, _ = COMMANDS[command]
    try:
        code: int = getattr(import_module(module), function)(arguments)
    except Exception as error:
        if _is_ours(error):
            return _complain(f"msprobe {command}: error: {error}")
        if isinstance(error, (BrokenPipeError, CommandLineError)) or _is_ctrl_c(error):
            raise
        return _internal_fault(command)
    return code


def _is_ctrl_c(error: Exception) -> bool:
    """While a native module starts, it arrives as the cause of an ImportError."""
    return isinstance(error, ImportError) and isinstance(error.__cause__, KeyboardInterrupt)


def _internal_fault(command: str) -> int:
    """Python's own exit code, 1, would say that two runs differ."""
    import traceback

    traceback.print_exc()
    return _complain(
        f"msprobe {command}: error: a fault of msprobe; please report the lines above, and what "
        "`msprobe doctor` says"
    )


def _is_ours(error: Exception) -> bool:
    """Whether `error` is an msprobe.Error; that class is not loaded just to ask."""
    native = sys.modules.get("msprobe.native")
    return native is not None and isinstance(error, native.Error)


def _complain(text: str) -> int:
    from msprobe.terminal.printable import printable

    print(printable(text), file=sys.stderr)
    return 2


def _without_framework(arguments: list[str]) -> list[str]:
    """Takes away `-f pytorch`, which mindstudio-probe wants before every command; the files here are the
    same for all.
    """
    words: list[str] = []
    rest = iter(enumerate(arguments))
    for index, word in rest:
        if words[:1] == ["run"]:  # the rest is that of a script
            return [*words, *arguments[index:]]
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if word.startswith("--framework="):
            _check_framework(word.partition("=")[2])
        elif word == "--framework" or (word == "-f" and (following in _FRAMEWORKS or not words)):
            _check_framework(following)
            next(rest, None)
        else:
            words.append(word)
    return words


def _check_framework(name: str) -> None:
    if name not in _FRAMEWORKS:
        raise CommandLineError(f'expected {" or ".join(_FRAMEWORKS)} after -f, found "{name}"')
    framework.asked = name


def _unknown(command: str) -> str:
    import difflib

    what = "option" if command.startswith("-") else "command"
    close = difflib.get_close_matches(command, [*COMMANDS, "help", "--help", "--version"], n=1)
    expected = (
        f'did you mean "{close[0]}"?' if close else f"expected {', '.join(COMMANDS)}; see msprobe --help"
    )
    return f'unknown {what} "{command}": {expected}'


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {text}" for name, (_, _, text) in COMMANDS.items())
    return f"""{_USAGE}

Finds where two training runs part numerically.

commands:
{commands}

options:
  -h, --help                 this text; msprobe help COMMAND, or msprobe COMMAND --help: that of a command
  -V, --version              the version
  -f, --framework FRAMEWORK  pytorch or mindspore; accepted for scripts written for mindstudio-probe"""
