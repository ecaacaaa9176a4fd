# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe completion: a script by which bash or zsh complete commands and options. Exit code 0, or 2 on
errors.
"""

from __future__ import annotations

import contextlib
import io
import re
from importlib import import_module

from msprobe.commands.table import COMMANDS
from msprobe.terminal.command_line import Parser

_OPTION = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")

_BASH = """\
# msprobe: eval "$(msprobe completion bash)", or in a file below /etc/bash_completion.d
_msprobe() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --help --version"
    elif [ "${{word#-}}" != "$word" ]; then
        case $command in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ -n "$words" ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _msprobe msprobe
"""

_ZSH = """\
#compdef msprobe
# msprobe: eval "$(msprobe completion zsh)", or as _msprobe in a folder of $fpath
_msprobe() {{
    local -a commands options
    if (( CURRENT == 2 )); then
        commands=(
{commands}
        )
        _describe 'command' commands
        return
    fi
    if [[ $words[CURRENT] == -* ]]; then
        case $words[2] in
{cases}
        esac
        compadd -- $options
        return
    fi
    _files
}}
if [[ -n $funcstack[1] && $funcstack[1] == _msprobe ]]; then _msprobe "$@"; else compdef _msprobe msprobe; fi
"""


def main(arguments: list[str]) -> int:
    parser = Parser(
        prog="msprobe completion",
        description="Prints a script by which a shell completes commands and options.",
        epilog="exit code: 0 the script is printed, 2 an error",
    )
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell")
    asked = parser.parse_args(arguments)
    print(bash() if asked.shell == "bash" else zsh(), end="")
    return 0


def bash() -> str:
    cases = "\n".join(
        f'            {command}) words="{" ".join(options_of(command))}" ;;' for command in COMMANDS
    )
    return _BASH.format(commands=" ".join(COMMANDS), cases=cases)


def zsh() -> str:
    commands = "\n".join(
        f"            '{command}:{_quoted(text)}'" for command, (_, _, text) in COMMANDS.items()
    )
    cases = "\n".join(
        f"            {command}) options=({' '.join(options_of(command))}) ;;" for command in COMMANDS
    )
    return _ZSH.format(commands=commands, cases=cases)


def options_of(command: str) -> list[str]:
    """Those that its help shows: each command reads its own, so this is the one place that knows all."""
    module, function, _ = COMMANDS[command]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        getattr(import_module(module), function)(["--help"])
    lines = [line for line in text.getvalue().splitlines() if re.match(r"\s+-", line)]
    heads = [re.split(r"\s{3,}", line.strip())[0] for line in lines]
    return list(dict.fromkeys(option for head in heads for option in _OPTION.findall(head)))


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''").replace(":", "\\:")
