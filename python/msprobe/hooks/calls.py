# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks around the calls of one model and around the batches of a data loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.hooks.functions import AttributeExchange, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


class CallRange:
    """Counts the forward calls of a module from 0: calls `begin` before call `first`, and `end` after call
    `last`.
    """

    def __init__(
        self, module: nn.Module, first: int, last: int, begin: Callable[[], None], end: Callable[[], None]
    ) -> None:
        self._first = first
        self._last = last
        self._begin = begin
        self._end = end
        self._calls = 0
        self._handle = module.register_forward_pre_hook(self._count)

    def remove(self) -> None:
        self._handle.remove()

    def _count(self, module: object, args: object) -> None:
        if self._calls == self._first:
            self._begin()
        elif self._calls == self._last + 1:
            self._end()
        self._calls += 1


def around_every_batch(end_step: Callable[[], None], begin_step: Callable[[], None]) -> Exchange:
    """Every batch that a DataLoader of the process hands out is a step: `end_step` before it is fetched (from
    the second on), `begin_step` after it.
    """
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    fetch = _BaseDataLoaderIter.__next__
    begun = False

    def fetch_batch(iterator: Any) -> Any:
        nonlocal begun
        if begun:
            end_step()
            begun = False
        batch = fetch(iterator)
        begin_step()
        begun = True
        return batch

    return AttributeExchange(_BaseDataLoaderIter, "__next__", fetch_batch)
