# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which steps of this process are wanted, and the folder of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msprobe.native import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.config import Config


def rank_in_group() -> int | None:
    """The rank in torch.distributed, None outside of it."""
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else None


class WantedSteps:
    """Those of a configuration.

    ended: what is logged once, behind the last one; empty: nothing. rank: of this process.
    """

    def __init__(
        self, config: Config, ended: str = "", rank: Callable[[], int | None] = rank_in_group
    ) -> None:
        self._dump_path = os.path.abspath(config.dump_path)
        self._ranks, self._steps = config.ranks, config.steps
        self._ended = ended
        self._rank = rank

    def has_step(self, step: int) -> bool:
        if not self._steps or step in self._steps:
            return True
        if self._ended and step > self._steps[-1]:
            log.info("the last configured step %s", self._ended)
            self._ended = ""
        return False

    def has_rank(self) -> bool:
        """As in mindstudio-probe, a filter of ranks leaves a process without a rank out."""
        return not self._ranks or self._rank() in self._ranks

    def folder(self, step: int) -> str:
        """ "{dump_path}/step{N}/rank{R}", "rank" alone for a process without one."""
        rank = self._rank()
        name = "rank" if rank is None else f"rank{rank}"
        return os.path.join(self._dump_path, f"step{step}", name)
