# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the collectives of a training are given and give, as TrainerMon records it."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

from msprobe.monitoring.communication import CollectiveCalls
from msprobe.native import log

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from msprobe._torch import MonitorMeter
    from msprobe.compat.trainer_mon.settings import Communication

_LONGEST_STACK = 1000  # characters that a pattern is looked for in
_NOT_SHOWN = re.compile(
    r"[/\\]msprobe[/\\]|torch[/\\]nn[/\\]modules[/\\]module\.py|multiprocessing|debugpy|<msprobe>"
)


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

    def set_numbers(self, numbers: Sequence[str]) -> None:
        """From the next collective on."""
        self._numbers = list(numbers)
        self._found = {}

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
