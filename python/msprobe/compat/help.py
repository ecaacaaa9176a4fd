# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe help mindstudio: the commands of mindstudio-probe, and its options of commands that both have."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module

from msprobe.commands.table import GROUPS, MINDSTUDIO
from msprobe.terminal.command_line import HELP_OF_THEIRS

_HEAD = """Command lines of mindstudio-probe work as they are, with `-f pytorch` or `-f mindspore` in front or
not: files say of which framework they are. docs/migration.md has what is where.

commands:"""


def mindstudio_help() -> str:
    width = max(map(len, MINDSTUDIO))
    lines = [_HEAD, *(f"  {name:{width}}  {text}" for name, (_, _, text) in MINDSTUDIO.items())]
    for command, row in [one for group in GROUPS.values() for one in group.items()]:
        options = _options(row)
        if options:
            lines += ["", f"options of msprobe {command}:", options]
    return "\n".join(lines)


def _options(row: tuple[str, str, str]) -> str:
    module, function, _ = row
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        getattr(import_module(module), function)([HELP_OF_THEIRS])
    return text.getvalue().rstrip()
