# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the roots of both graphs are: mindstudio-probe calls each of them DefaultModel."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING

from msprobe.files.regular_file import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.graph.inputs import Folders, Inputs

_KEYS = ("target_model", "golden_model")
"""Of the table msprobe_info."""


def add_model_names(file: Path, inputs: Inputs) -> None:
    """The classes of the models, where the training state of the first step says them."""
    first = inputs.units[0]
    found = [(key, _model_of(folders)) for key, folders in zip(_KEYS, (first.target, first.reference))]
    named = [(key, name) for key, name in found if name]
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.executemany("INSERT INTO msprobe_info VALUES (?,?)", named)


def _model_of(folders: Folders) -> str:
    """Empty: nobody says it."""
    for _, folder in folders[:1]:
        with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            name = json.loads(read_text(folder / "diagnosis.json"))["modules"][""]["class"]
            return name.rpartition(".")[2] if isinstance(name, str) else ""
    return ""
