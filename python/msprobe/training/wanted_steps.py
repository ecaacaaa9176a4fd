# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which steps of this process are wanted, and the folder of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def rank_in_group() -> int | None:
    """The rank in torch.distributed, None outside of it."""
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else None


class WantedSteps:
    """ranks, steps: ascending; empty: all."""

    def __init__(self, dump_path: str, ranks: Sequence[int], steps: Sequence[int]) -> None:
        self._dump_path = os.path.abspath(dump_path)
        self._ranks = ranks
        self._steps = steps

    def wants(self, step: int) -> bool:
        """As in mindstudio-probe, a filter of ranks leaves a process without a rank out."""
        if self._steps and step not in self._steps:
            return False
        return not self._ranks or rank_in_group() in self._ranks

    def is_over(self, step: int) -> bool:
        """Whether the last wanted step lies behind."""
        return bool(self._steps) and step > self._steps[-1]

    def folder(self, step: int) -> str:
        """ "{dump_path}/step{N}/rank{R}", "rank" alone outside of torch.distributed."""
        rank = rank_in_group()
        name = "rank" if rank is None else f"rank{rank}"
        return os.path.join(self._dump_path, f"step{step}", name)
