# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The command of a user that starts a training."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from msprobe.native import InvalidArgument

_PYTHON = re.compile(r"python[0-9.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class Command:
    """Words as a shell would pass them on, and variables of the environment in front of them."""

    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path.cwd)
    """Where it is given, and what its relative paths are relative to."""

    @property
    def said(self) -> str:
        """As it could be typed."""
        front = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*front, *map(shlex.quote, self.words)])

    def placed(self, **places: Path | str) -> Command:
        """With {run} and other words in braces replaced."""

        def fill(word: str) -> str:
            for name, place in places.items():
                word = word.replace("{" + name + "}", str(place))
            return word

        variables = {name: fill(value) for name, value in self.environment.items()}
        return replace(self, words=tuple(map(fill, self.words)), environment=variables)

    def with_python(self, python: str) -> Command:
        """Started by this interpreter, which has a msprobe of its own. Raises InvalidArgument."""
        found = shutil.which(python)
        if found is None:
            raise InvalidArgument(f"{python}: expected an interpreter of Python, there is none")
        first, *rest = self.words
        if first == sys.executable or _PYTHON.fullmatch(os.path.basename(first)):
            return replace(self, words=(found, *rest))
        if os.path.basename(first) == "torchrun":
            return replace(self, words=(found, "-m", "torch.distributed.run", *rest))
        raise InvalidArgument(
            f"{self.said}: expected python, torchrun or a script of Python, to be started by {found}"
        )

    def with_environment(self, more: dict[str, str]) -> Command:
        return replace(self, environment={**self.environment, **more})


def parse_command(text: str, folder: Path | None = None) -> Command:
    """'A=1 python train.py --lr 1e-3'. No shell takes part: what needs one is 'sh -c "..."'. Raises
    InvalidArgument.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"{text}: is no command line: {error}") from error
    return command_of(words, folder)


def command_of(words: list[str], folder: Path | None = None) -> Command:
    """Of words: a script of Python, -m and a module, or any program. Raises InvalidArgument."""
    variables: dict[str, str] = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words[0].partition("=")
        variables[name], words = value, words[1:]
    if not words:
        raise InvalidArgument("expected a command: a script, -m and a module, or a program")
    folder = folder or Path.cwd()
    if words[0] == "-m" or words[0].endswith(".py"):
        if words[0] != "-m" and not (folder / words[0]).is_file():
            raise InvalidArgument(f"{words[0]} does not exist; expected a Python script")
        words = [sys.executable, *words]
    elif shutil.which(words[0], path=_search_path(folder)) is None:
        raise InvalidArgument(f"{words[0]}: expected a program or a Python script, there is none")
    return Command(tuple(words), variables, folder)


def _search_path(folder: Path) -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(folder)])
