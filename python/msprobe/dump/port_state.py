# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""diagnosis.json of a framework behind a port: settings of the modules before a step, and of the optimizers
that stepped in it. Values of parameters and gradients are in the dump.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.native import Error, log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.frameworks.port import Port
    from msprobe.hooks.functions import Exchange

FILE = "diagnosis.json"
_KINDS = ("modules", "optimizer")


class PortState:
    """From begin_step() to end_step(). A fault is a line of the file: nothing here raises."""

    def __init__(self, kinds: Sequence[str], port: Port, attach: Callable[[str, str], bool]) -> None:
        """kinds: of the configuration's key; others than _KINDS are left out, and the file says so.
        attach: takes the file into a packed step, or says that it cannot.
        """
        self._kinds = [kind for kind in _KINDS if kind in kinds]
        self._left_out = [kind for kind in kinds if kind not in _KINDS]
        self._port = port
        self._attach = attach
        self._path: Path | None = None
        self._content: dict[str, Any] = {}
        self._faults: list[str] = []

    def exchanges(self) -> list[Exchange]:
        if "optimizer" not in self._kinds:
            return []
        return [self._port.every_optimizer_step(self._before_step)]

    def begin_step(self, model: object, directory: str) -> None:
        path = Path(directory, FILE)
        if not self._kinds or path == self._path:
            return
        self.end_step()
        self._path, self._content, self._faults = path, {}, []
        if self._left_out:
            self._faults.append(f"{', '.join(self._left_out)}: not recorded of {self._port.package}")
        if "modules" in self._kinds and model is not None:
            self._content["modules"] = {}
            try:
                self._content["modules"] = self._port.settings(model)
            except Exception as error:
                self._note("modules", error)
        if "optimizer" in self._kinds:
            self._content["optimizer"] = []

    def end_step(self) -> None:
        if self._path is None:
            return
        path, self._path = self._path, None
        content = {"version": 1, "kinds": self._kinds, **self._content, "faults": self._faults}
        text = json.dumps(content, indent=1)
        try:
            if not self._attach(str(path), text):
                make_directory(path.parent)
                write_text(path, text)
        except Error as error:
            log.warning("%s is not written: %s", path, error)

    def _before_step(self, optimizer: object) -> None:
        if self._path is None:
            return
        try:
            self._content["optimizer"].append(self._port.hyper_parameters(optimizer))
        except Exception as error:
            self._note("optimizer", error)

    def _note(self, what: str, error: Exception) -> None:
        self._faults.append(f"{what}: {type(error).__name__}: {error}"[:500])
