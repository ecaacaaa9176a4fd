# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the collectives of a training are given and give."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from msprobe.native import log
from msprobe.training.collectives import watched
from msprobe.training.phases import CallWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe._core import MonitorSession
    from msprobe._torch import MonitorMeter

COLLECTIVES = (
    "send", "recv", "isend", "irecv", "batch_isend_irecv", "broadcast", "all_reduce", "reduce", "scatter",
    "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor", "all_gather", "gather",
    "_all_gather_base", "all_gather_into_tensor",
)  # fmt: skip


class CollectiveCalls:
    """Sees the collectives of torch.distributed while installed; of one inside of another nothing.

    The functions lead to us whatever name they were imported under. An asynchronous one is seen when its
    handle has been waited for.
    """

    def __init__(self) -> None:
        self._watches: list[CallWatch] = []
        self._depth = 0

    def install(self) -> None:
        from torch import distributed

        for name in COLLECTIVES:
            function = getattr(distributed, name, None)
            if isinstance(function, types.FunctionType):
                self._watches.append(CallWatch(function, self._observer(name)))
        for watch in self._watches:
            watch.install()

    def remove(self) -> None:
        for watch in reversed(self._watches):
            watch.remove()
        self._watches = []

    def measure(self, name: str, when: str, groups: list[list[Any]]) -> None:
        """The tensors of a call: "pre", "post"; those of a list count as one."""
        raise NotImplementedError

    def wants(self, name: str) -> tuple[bool, bool]:
        """Whether a call is measured before it, and behind."""
        raise NotImplementedError

    def _observer(self, name: str) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
        def observe(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self._depth > 0:
                return original(*args, **kwargs)
            self._depth += 1
            try:
                return self._call(name, original, args, kwargs)
            finally:
                self._depth -= 1

        return observe

    def _call(self, name: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before, behind = self.wants(name)
        if before:
            self._measure(name, "pre", args, kwargs)
        result = original(*args, **kwargs)
        if not behind:
            return result
        handle = watched(result, lambda: self._measure(name, "post", args, kwargs))
        if handle is not None:
            return handle
        self._measure(name, "post", args, kwargs)
        return result

    def _measure(self, name: str, when: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            values = (*args, *kwargs.values())
            self.measure(name, when, [tensors for value in values if (tensors := _tensors(value))])
        except Exception as error:
            log.warning("monitor: %s is not measured: %s: %s", name, type(error).__name__, error)


class CommunicationRows(CollectiveCalls):
    """Results of collectives as rows of a frame, for msprobe.monitor.

    label: makes a label for a collective.
    """

    def __init__(self, meter: MonitorMeter, session: MonitorSession, label: Callable[[str], int]) -> None:
        super().__init__()
        self._meter = meter
        self._frame = session.frame("communication")
        self._calls = session.calls
        self._label = label
        self._labels: dict[str, int] = {}

    def wants(self, name: str) -> tuple[bool, bool]:
        return False, True

    def measure(self, name: str, when: str, groups: list[list[Any]]) -> None:
        if not groups:
            return
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = self._label(name)
        tensors = groups[-1] if name == "gather" else groups[0]  # what a collective fills, or sends
        self._meter.measure(self._frame, [label] * len(tensors), tensors, self._calls)


def _tensors(value: Any) -> list[Any]:
    """A tensor; the tensors of a list, which count as one; those of point-to-point operations."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, (list, tuple)):
        return []
    tensors = [getattr(item, "tensor", item) for item in value]
    return tensors if tensors and all(isinstance(item, torch.Tensor) for item in tensors) else []
