# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of TrainerMon over every number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.monitoring.anomalies import Anomaly
from msprobe.native import core, log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe._core import MonitorFrame


@dataclass(frozen=True)
class Place:
    """Of this process among others."""

    rank: int = 0
    pp_stage: int = 0
    group_mates: tuple[int, ...] = (0,)


class Rules:
    """The rules of a monitor over the frames of one task."""

    def __init__(self, rules: Sequence[tuple[str, float | None]], ops: Sequence[str]) -> None:
        self._names = [name for name, _ in rules]
        self._ops = list(ops)
        self._alerts = core.MonitorAlerts(list(rules), self._ops) if rules else None

    def check(
        self, frame: MonitorFrame, tags: Sequence[str], stages: Sequence[int], step: int, place: Place
    ) -> list[Anomaly]:
        """tags, stages: of each row of the frame."""
        if self._alerts is None:
            return []
        found = []
        calls = frame.calls()
        for row, op, rule, value, mean in self._alerts.check(frame):
            tag = tags[row]
            message = (
                f"Rule {self._names[rule]} reports anomaly signal in {(tag, self._ops[op])} at step {step}, "
                f"current value {value}, history mean {mean}."
            )
            log.info("%s", message)
            found.append(
                Anomaly(
                    rank=place.rank,
                    step=step,
                    micro_step=0,
                    pp_stage=place.pp_stage,
                    vpp_stage=stages[row],
                    call_id=calls[row],
                    tag_name=tag,
                    message=message,
                    group_mates=list(place.group_mates),
                )
            )
        return found
