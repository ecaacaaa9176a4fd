# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which functions are recorded by default, and under which names."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Beside this file, so that a team can add its own functions to it.
_FILE = Path(__file__).with_name("api_list.json")


@dataclass(frozen=True)
class ListedApi:
    """A function of the running torch."""

    name: str  # of its records: "Functional.linear"
    owner: Any  # the module or class that has it
    attribute: str
    function: Any

    @property
    def distributed(self) -> bool:
        return self.name.startswith("Distributed.")


def listed_apis() -> Iterator[ListedApi]:
    """The functions of the list that exist here. Only modules that are loaded already are looked into, so
    nothing is imported for the sake of the list.
    """
    for group in json.loads(_FILE.read_text(encoding="utf-8"))["sets"]:
        home = _loaded(group["home"])
        if home is None:
            continue
        for path in group["names"]:
            *inner, attribute = path.split(".")
            owner = home
            for part in inner:
                owner = getattr(owner, part, None)
            function = getattr(owner, attribute, None)
            if callable(function):
                yield ListedApi(f"{group['prefix']}.{attribute}", owner, attribute, function)


def _loaded(path: str) -> Any:
    """A loaded module, or an attribute of one, by its path."""
    if path in sys.modules:
        return sys.modules[path]
    module, _, attribute = path.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None)
