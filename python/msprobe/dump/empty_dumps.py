# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Why a dump is empty, said once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.native import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.config import Config, DumpConfig

STEPS_ENDED = "has been recorded: the data dump has ended"
_MOST_SHOWN = 8


class EmptyDumps:
    """Watches what a configuration asks for and a training never has."""

    def __init__(self, config: Config, section: DumpConfig) -> None:
        self._config = config
        self._scope = section.scope
        self._list = section.list if config.level != "L2" else ()
        self._data_mode = section.data_mode
        # Without JSON files nobody has counted; overflows are hoped not to come.
        self._counts = section.json == "at_stop" and config.task != "overflow_check"
        self._counts &= config.level != "debug"
        self._first: int | None = None  # step of the training
        self._last = 0
        self._opened = False
        self._checked = False
        self._told_rank = False

    def saw_step(self, step: int) -> None:
        """A step begins, whether it is recorded or not."""
        if self._first is None:
            self._first = step
        self._last = step

    def opened(self) -> None:
        """A step is recorded."""
        self._opened = True

    def left_out(self, rank: int | None, processes: int) -> None:
        """`rank` of the configuration leaves this process out. `processes`: of the training."""
        if self._told_rank:
            return
        self._told_rank = True
        wanted = _shown(self._config.ranks)
        if rank is None:
            log.warning(
                "nothing is recorded: rank %s is wanted, and this process has no rank: torch.distributed is "
                "not initialized at start()",
                wanted,
            )
        elif rank == 0 and self._config.ranks[0] >= processes:
            log.warning(
                "nothing is recorded: rank %s is wanted, and the ranks are 0 to %d", wanted, processes - 1
            )

    def has_to_count(self) -> bool:
        """Whether the number of records of the step that ends is to be known."""
        return self._counts and self._opened and not self._checked and bool(self._scope or self._list)

    def ended_step(self, step: int, records: int) -> None:
        """After has_to_count()."""
        self._checked = True
        if records > 0:
            return
        if self._scope:
            why = f'"scope": nothing was called from {self._scope[0]} to {self._scope[1]}'
        else:
            why = f'"list": no name holds {" or ".join(self._list)}'
        log.warning(
            "step %d: the dump is empty. %s. The names are those of a dump.json that is recorded without it",
            step,
            why,
        )

    def ended(self, records: int) -> None:
        """The training is over, and its files are complete. `records`: of the last recorded step."""
        if self._opened and self._counts and not records and not self._scope and not self._list:
            log.warning("the dump of the last recorded step is empty: %s", self._why_nothing_came())
        if self._opened or self._first is None or not self._config.steps or self._told_rank:
            return
        log.warning(
            "nothing was recorded: step %s is wanted, and the steps were %d to %d",
            _shown(self._config.steps),
            self._first,
            self._last,
        )

    def _why_nothing_came(self) -> str:
        if "backward" in self._data_mode and "forward" not in self._data_mode:
            return '"data_mode" asks for gradients alone, and no backward came'
        if self._config.level == "L0":
            return "level L0 records the modules inside of the model given to start(), and none was called"
        return "nothing was called between start() and stop()"


def _shown(numbers: Sequence[int]) -> str:
    more = f", ... ({len(numbers)} numbers)" if len(numbers) > _MOST_SHOWN else ""
    return ", ".join(str(number) for number in numbers[:_MOST_SHOWN]) + more
