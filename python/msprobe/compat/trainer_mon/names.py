# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of modules and parameters in the files of TrainerMon, and which of them are targets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msprobe.engines import shards_flat
from msprobe.native import log
from msprobe.terminal.close_names import close_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torch import nn

# The first that matches gives the short name: its group, or the match where it has none.
_SHORT = tuple(
    re.compile(pattern)
    for pattern in (r"layers?\.(.*)", r"embeddings?\.(.*)", r"final.*", r"output.*", r"norm.*")
)


def short_name(name: str) -> str:
    """`layers.0.fc.weight` -> `0.fc.weight`."""
    for pattern in _SHORT:
        match = pattern.search(name)
        if match is not None:
            return (match[1] if pattern.groups else match[0]) or name
    return name


class Names:
    """Short names of a chunk that stay unambiguous: a name whose short form is taken keeps the full one."""

    def __init__(self, *, squash: bool) -> None:
        self._squash = squash
        self._taken: set[str] = set()

    def of(self, name: str) -> str:
        short = short_name(name) if self._squash else name
        chosen = name if short in self._taken else short
        self._taken.add(chosen)
        return chosen


class Targets:
    """The keys of `targets`: names, with or without the number of a chunk before them (`0:fc1`)."""

    def __init__(self, targets: Sequence[str], *, squash: bool) -> None:
        self._targets = tuple(targets)
        self._squash = squash
        self._seen: set[str] = set()

    def _short(self, name: str) -> str:
        return short_name(name) if self._squash else name

    def module_name(self, name: str, chunk: int) -> str | None:
        """The spelling of a module's name that is a target; None: it is none."""
        for spelling in (self._short(name), name):
            for target in (spelling, f"{chunk}:{spelling}"):
                if target in self._targets:
                    self._seen.add(target)
                    return spelling
        return None

    def has_parameter(self, name: str, chunk: int) -> bool:
        """By prefix."""
        spellings = (name, f"{chunk}:{name}", f"{chunk}:{self._short(name)}")
        for target in self._targets:
            if any(spelling.startswith(target) for spelling in spellings):
                self._seen.add(target)
                return True
        return False

    def warn_of_unmatched(self, known: Iterable[str]) -> None:
        """Says which targets are no name of the model, with what comes close."""
        names = list(known)
        for target in self._targets:
            if target and target not in self._seen:
                log.warning('targets: nothing in the model is called "%s"%s', target, close_to(target, names))


def chunk_modules(chunk: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a chunk that can be watched: not those that only shard others."""
    for name, module in chunk.named_modules():
        if not shards_flat(module):
            yield name, module
