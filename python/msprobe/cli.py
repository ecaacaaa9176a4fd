# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The command `msprobe`. Nothing but the wanted command is imported: help and wrong command lines answer at
once.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module

from msprobe.commands.table import COMMANDS, GROUPS

_FRAMEWORKS = ("pytorch", "mindspore")

# Commands that run a script in this process: words behind it are its own.
_WITH_SCRIPT = ("run", "perturb")

_USAGE = "usage: msprobe COMMAND ... | msprobe help [COMMAND] | msprobe --version"


_ENDING = """The commands and options of mindstudio-probe work, too: msprobe help mindstudio

example: msprobe run -o run_a train.py && msprobe run -o run_b train_new.py && msprobe diagnose run_a run_b

  -h, --help     this text; msprobe help COMMAND, or msprobe COMMAND --help: that of a command
  -V, --version  the version"""

# What others call what is here.
_ALSO_CALLED = {
    "monitor": "msprobe run --with monitor SCRIPT records, msprobe trend shows",
    "record": 'did you mean "run"?',
    "probe": 'did you mean "run"?',
    "visualize": 'did you mean "view"?',
    "plot": 'did you mean "trend"?',
    "checkpoint": 'did you mean "ckpt"?',
    "gradients": 'did you mean "grad_compare"?',
    "nan": 'did you mean "nan_analyze"?',
    "notebook": "msprobe run NOTEBOOK.ipynb",
}


class CommandLineError(Exception):
    """The command line is wrong; the text says what and what is expected."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Exit codes: that of the command; 2: an error; 130: ended by Ctrl-C."""
    words = sys.argv[1:] if arguments is None else arguments
    # The script of `msprobe run` finds the streams as they are, and leaves them to the interpreter.
    is_script = next((word for word in words if word in COMMANDS), None) in _WITH_SCRIPT
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
    words, named = _without_framework(arguments)
    command = words[0] if words else "help"
    if command == "help" and words[1:2] == ["mindstudio"]:
        from msprobe.compat.help import mindstudio_help

        print(mindstudio_help())
        return 0
    if command == "help" and len(words) > 1:
        return _call(_known(words[1]), ["--help"])
    if command in ("-h", "--help", "help"):
        print(_help())
        return 0
    if command in ("-V", "--version"):
        from msprobe.native import __version__

        print(f"msprobe {__version__}")
        return 0
    _known(command)
    if named or "msprobe.commands.framework" in sys.modules:
        from msprobe.commands import framework

        framework.asked = named
    return _call(command, words[1:])


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
            return _complain(f"msprobe {command}: error: {_as_options(str(error))}")
        if isinstance(error, (BrokenPipeError, CommandLineError)) or _is_ctrl_c(error):
            raise
        return _internal_fault(command)
    return code


def _as_options(message: str) -> str:
    """Errors speak Python; here its arguments are options."""
    message = re.sub(r"\b(step|rank)=(\d+)", r"--\1 \2", message.replace("force=True", "--force"))
    return re.sub(r"^(steps|level|without|perturb): ", r"--\1: ", message)


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


def _without_framework(arguments: list[str]) -> tuple[list[str], str | None]:
    """Takes away `-f pytorch`, which mindstudio-probe wants before every command; the files here are the
    same for all. Returns the other words, and the framework that was named.
    """
    words: list[str] = []
    named = None
    rest = iter(enumerate(arguments))
    for index, word in rest:
        if words and words[0] in _WITH_SCRIPT:  # the rest is that of a script
            return [*words, *arguments[index:]], named
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if word.startswith("--framework="):
            named = _framework(word.partition("=")[2])
        elif word == "--framework" or (word == "-f" and (following in _FRAMEWORKS or not words)):
            named = _framework(following)
            next(rest, None)
        else:
            words.append(word)
    return words, named


def _framework(name: str) -> str:
    if name not in _FRAMEWORKS:
        raise CommandLineError(f'expected {" or ".join(_FRAMEWORKS)} after -f, found "{name}"')
    return name


def _unknown(word: str) -> str:
    """What to type instead of a word that is no command."""
    import difflib

    if word.startswith("-"):
        close = difflib.get_close_matches(word, ["--help", "--version"], n=1, cutoff=0.7)
        expected = f'did you mean "{close[0]}"?' if close else "options stand behind the command: msprobe run"
        return f'unknown option "{word}": {expected}' + ("" if close else f" {word} ...")
    if word in _ALSO_CALLED:
        return f'unknown command "{word}": {_ALSO_CALLED[word]}'
    close = difflib.get_close_matches(word, [*COMMANDS, "help"], n=1)
    if close:
        return f'unknown command "{word}": did you mean "{close[0]}"?'
    if word.endswith((".py", ".ipynb")):
        return f'unknown command "{word}": did you mean "msprobe run {word}"?'
    return f'unknown command "{word}": msprobe --help has all of them'


def _help() -> str:
    width = max(len(name) for group in GROUPS.values() for name in group)
    lines = [_USAGE, "", "Finds where two training runs diverge numerically, and why."]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:{width}}  {text}" for name, (_, _, text) in group.items())]
    return "\n".join((*lines, "", _ENDING))
