# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the collectives of a training are given and give."""

from __future__ import annotations

import json
import re
import sys
import types
from typing import TYPE_CHECKING, Any

from msprobe.native import log
from msprobe.training.collectives import watched
from msprobe.training.phases import CallWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from msprobe._core import MonitorCalls, MonitorFrame
    from msprobe._torch import MonitorMeter
    from msprobe.monitoring.trainer_settings import Communication

COLLECTIVES = (
    "send", "recv", "isend", "irecv", "batch_isend_irecv", "broadcast", "all_reduce", "reduce", "scatter",
    "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor", "all_gather", "gather",
    "_all_gather_base", "all_gather_into_tensor",
)  # fmt: skip

_LONGEST_STACK = 1000  # characters that a pattern is looked for in
_NOT_SHOWN = re.compile(
    r"[/\\]msprobe[/\\]|torch[/\\]nn[/\\]modules[/\\]module\.py|multiprocessing|debugpy|<msprobe>"
)


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

    def __init__(
        self, meter: MonitorMeter, frame: MonitorFrame, calls: MonitorCalls, label: Callable[[str], int]
    ) -> None:
        super().__init__()
        self._meter = meter
        self._frame = frame
        self._calls = calls
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


class CommunicationWatch(CollectiveCalls):
    """As TrainerMon records it: numbers of all that collectives are given and give."""

    def __init__(self, settings: Communication, numbers: Sequence[str], meter: MonitorMeter) -> None:
        super().__init__()
        self._settings = settings
        self._numbers = list(numbers)
        self._meter = meter
        self._patterns = [re.compile(line) for line in settings.codeline]
        self._found: dict[tuple[str, str], dict[str, list[float]]] = {}
        self.stacks: dict[str, list[str]] = {}

    def install(self) -> None:
        from torch import distributed

        if not distributed.is_available() or not distributed.is_initialized():
            log.warning("cc_distribution: torch.distributed is not initialised: no communication is recorded")
            return
        super().install()

    def remove(self) -> None:
        super().remove()
        self._found = {}

    def take(self) -> Iterator[tuple[str, str, list[tuple[str, float]]]]:
        """What was measured since the last time: collective, place ("pre_0") and its numbers. Several calls
        become one: the least min, the greatest max, the sums of norms and NaN, the means of means and zeros.
        """
        found, self._found = self._found, {}
        for (name, place), numbers in found.items():
            yield (
                name,
                place,
                [(op, _together(op, values)) for op, values in numbers.items() if op in _TOGETHER],
            )

    def stacks_as_json(self) -> str:
        return json.dumps({name: [stack.split(";") for stack in all_] for name, all_ in self.stacks.items()})

    def wants(self, name: str) -> tuple[bool, bool]:
        if self._settings.log_only:
            self._log(name)
            return False, False
        wanted = self._is_wanted()
        return wanted and self._settings.pre_hook, wanted

    def measure(self, name: str, when: str, groups: list[list[Any]]) -> None:
        for index, tensors in enumerate(groups):
            measured = self._meter.merged_values(tensors, self._numbers)
            numbers = self._found.setdefault((name, f"{when}_{index}"), {})
            for op, value in zip(self._numbers, measured):
                numbers.setdefault(op, []).append(value)

    def _log(self, name: str) -> None:
        stack = ";".join(_stack())
        known = self.stacks.setdefault(name, [])
        if stack not in known:
            known.append(stack)

    def _is_wanted(self) -> bool:
        if not self._patterns:
            return True
        text = ";".join(_stack())[:_LONGEST_STACK]
        return any(pattern.search(text) for pattern in self._patterns)


def _tensors(value: Any) -> list[Any]:
    """A tensor; the tensors of a list, which count as one; those of point-to-point operations."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, (list, tuple)):
        return []
    tensors = [getattr(item, "tensor", item) for item in value]
    return tensors if tensors and all(isinstance(item, torch.Tensor) for item in tensors) else []


def _stack() -> list[str]:
    """`file[line]   function` of the callers outside of msprobe and of torch's calling of modules."""
    frame: types.FrameType | None = sys._getframe(1)
    lines = []
    while frame is not None:
        place = f"{frame.f_code.co_filename}[{frame.f_lineno}]"
        if not _NOT_SHOWN.search(place):
            lines.append(f"{place}   {frame.f_code.co_name}")
        frame = frame.f_back
    return lines


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


_TOGETHER: dict[str, Callable[[list[float]], float]] = {
    "min": min, "max": max, "norm": sum, "nans": sum, "zeros": _mean, "mean": _mean,
}  # fmt: skip


def _together(op: str, values: list[float]) -> float:
    return float(_TOGETHER[op](values))
