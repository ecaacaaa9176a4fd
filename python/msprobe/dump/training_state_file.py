# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The file diagnosis.json of one step while it grows, and the faults that must not stop a training."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.credentials import concealed_in
from msprobe.native import Error, torch_adapter
from msprobe.terminal.printable import printable
from msprobe.training.json_text import Json, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Attach = Callable[[str, str], bool]

FILE = "diagnosis.json"
VERSION = 1
LINE = ",\n  "  # between the members and items of a section
_MOST_FAULTS = 100
_LONGEST_FAULT = 500


class TrainingStateFile:
    """Sections of one file. A value is turned into text when it is given, as thousands of small objects would
    need many times the memory.
    """

    def __init__(self, path: Path, kinds: Sequence[str], attach: Attach | None = None) -> None:
        """attach: takes the file into a packed step, or says that it cannot."""
        self.path = path
        self._attach = attach
        self._kinds = kinds
        self._maps: dict[str, list[str]] = {}  # members
        self._lists: dict[str, list[str]] = {}
        self._faults: list[str] = []
        self._fault_count = 0

    def set(self, section: str, name: str, value: Any) -> None:
        """Sets a member of a section, which stands there once."""
        self._maps.setdefault(section, []).append(f"{json.dumps(name)}: {json_text(value)}")

    def add_members(self, section: str, members: Json) -> None:
        """Members of a section, with LINE between them."""
        if members:
            self._maps.setdefault(section, []).append(members)

    def append(self, section: str, value: Any) -> None:
        self._lists.setdefault(section, []).append(json_text(value))

    def open_map(self, section: str) -> None:
        """The section is in the file even when nothing is set."""
        self._maps.setdefault(section, [])

    def open_list(self, section: str) -> None:
        self._lists.setdefault(section, [])

    def noting(self, doing: str) -> _Noting:
        """`with`: what raises inside becomes a line of the file. No mode and no subclass of the program sees
        what torch is asked inside.
        """
        return _Noting(self, doing)

    def note_error(self, doing: str, error: Exception) -> None:
        self.note(f"{doing}: {_text_of(error)}")

    def note(self, fault: str) -> None:
        self._fault_count += 1
        if len(self._faults) < _MOST_FAULTS:
            self._faults.append(concealed_in(printable(fault)[:_LONGEST_FAULT]))

    @property
    def first_fault(self) -> str:
        """Empty when there is none."""
        return self._faults[0] if self._faults else ""

    def write(self) -> str:
        """Returns why the file could not be written, or an empty text."""
        text = self._text()
        try:
            if self._attach is not None and self._attach(str(self.path), text):
                return ""
            make_directory(self.path.parent)
            write_text(self.path, text)
        except Error as error:
            return str(error)
        return ""

    def _text(self) -> str:
        parts = [f'"version": {VERSION}', f'"kinds": {json.dumps(list(self._kinds))}']
        for section, members in self._maps.items():
            lines = LINE.join(members)
            parts.append(f'"{section}": {{\n  {lines}\n }}' if lines else f'"{section}": {{}}')
        for section, items in self._lists.items():
            lines = LINE.join(items)
            parts.append(f'"{section}": [\n  {lines}\n ]' if lines else f'"{section}": []')
        faults = [*self._faults]
        if self._fault_count > len(faults):
            faults.append(f"{self._fault_count - len(faults)} more")
        parts.append(f'"faults": {json.dumps(faults)}')
        return "{\n " + ",\n ".join(parts) + "\n}\n"


def _text_of(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:  # an exception class of the program that cannot be shown
        text = "without a readable message"
    return f"{type(error).__name__}: {text}"


class _Noting:
    """Entered for everything that is measured, so it is a class, not a generator."""

    __slots__ = ("_doing", "_guard", "_report")

    def __init__(self, report: TrainingStateFile, doing: str) -> None:
        self._report = report
        self._doing = doing
        self._guard = torch_adapter().NoModes()

    def __enter__(self) -> None:
        self._guard.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._guard.__exit__(kind, error, trace)
        if isinstance(error, Exception):  # whatever it is, the training goes on
            self._report.note_error(self._doing, error)
            return True
        return False
