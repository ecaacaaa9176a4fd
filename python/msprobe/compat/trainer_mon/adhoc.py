# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that a script hands to TrainerMon.adhoc_check()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.native import InvalidArgument, torch_adapter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.compat.trainer_mon.outputs import TensorBoardOutput

_OPS = ("norm", "max", "min", "mean")


class AdhocValues:
    """Numbers that wait for the end of the step. Each series counts its own values."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, float]] = []
        self._counts: dict[str, int] = {}

    def add(self, tensor: Any, module: str, name: str, rank: int | None, ops: Sequence[str]) -> None:
        for op in ops:
            if op not in _OPS:
                raise InvalidArgument(
                    f"adhoc_check: expected statistics out of {', '.join(_OPS)}, found {op!r}"
                )
        prefix = f"{module}/{name}" if rank is None else f"{module}/rank{rank}/{name}"
        values = torch_adapter().MonitorMeter(powers=False, threads=1).merged_values([tensor], list(ops))
        self._waiting += [(f"{prefix}_{op}", value) for op, value in zip(ops, values)]

    def write(self, output: TensorBoardOutput) -> None:
        waiting, self._waiting = self._waiting, []
        for tag, value in waiting:
            count = self._counts.get(tag, 0)
            self._counts[tag] = count + 1
            output.add_scalar(tag, value, count)
