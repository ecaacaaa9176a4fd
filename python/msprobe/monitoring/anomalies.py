# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""anomaly.json, which the ranking of mindstudio-probe reads (docs/formats/monitor.md)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.native import IoError, log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE = "anomaly.json"
FOLDER = "anomaly_detected"

# The words of mindstudio-probe for what is measured, by quantity, in the order of its rules.
TAGS = {
    "activation": "actv", "activation_gradient": "actv_grad", "unreduced_gradient": "acc_grad",
    "gradient": "post_grad", "moment": "exp_avg", "second_moment": "exp_avg_sq",
    "weight_before": "param_origin", "weight": "param_updated", "gradient_moment": "mg_direction",
    "communication": "cc",
}  # fmt: skip
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
