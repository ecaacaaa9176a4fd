# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Anomalies of TrainerMon: its rules over every number, and anomaly.json (docs/formats/monitor.md)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.native import IoError, core, log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from msprobe._core import MonitorFrame

FILE = "anomaly.json"
FOLDER = "anomaly_detected"
_MOST_RECORDS = 20_000  # of a file, which is written anew whenever there is another one


@dataclass(frozen=True)
class Anomaly:
    """A record of anomaly.json, with its keys."""

    rank: int
    step: int
    micro_step: int
    pp_stage: int
    vpp_stage: int
    call_id: int
    tag_name: str
    message: str
    group_mates: list[int]

    @property
    def key(self) -> str:
        return f"{self.tag_name}_step_{self.step}_call_{self.call_id}"


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


class AnomalyFile:
    """`{base}/anomaly_detected/rank{R}/anomaly.json`, begun anew by each run."""

    def __init__(self, base: Path, rank: int) -> None:
        self._path = base / FOLDER / f"rank{rank}" / FILE
        self._records: dict[str, dict[str, object]] = {}
        self._is_full = False
        self._complained = False
        make_directory(self._path.parent)
        if os.path.lexists(self._path):
            log.warning("%s: that of an earlier run is replaced", self._path)
        self._write()

    def add(self, anomalies: Iterable[Anomaly]) -> None:
        new = {anomaly.key: asdict(anomaly) for anomaly in anomalies}
        if not new or self._is_full:
            return
        if len(self._records) + len(new) > _MOST_RECORDS:
            self._is_full = True
            log.warning("%s: is full with %d records: later ones are only logged", self._path, _MOST_RECORDS)
        self._records.update(new)
        try:
            self._write()
            self._complained = False
        except IoError as error:  # the disk may have room again later
            if not self._complained:
                log.warning("%s; training goes on", error)
            self._complained = True

    def _write(self) -> None:
        write_text(self._path, json.dumps(self._records, indent=1))
