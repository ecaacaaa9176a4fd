# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The two counts by which `msprobe check` is scored: planted faults of operators that it names, and healthy
operators of the API list that it accuses.

usage: python tests/operators/operator_score.py FOLDER   records everything below FOLDER, prints the table
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import healthy_operators as healthy
import operator_faults as planted
import torch
from msprobe import PrecisionDebugger
from msprobe.check.result import CheckResult
from msprobe.check.run import check

STEP_DTYPES = ("float32", "bfloat16")


def record_step(folder: Path, dtype: str, task: str = "tensor") -> Path:
    """A dump of the calls that faults are planted in."""
    config = folder / f"{dtype}.json"
    folder.mkdir(parents=True, exist_ok=True)
    dump = folder / f"step_{dtype}"
    config.write_text(json.dumps({"task": task, "level": "L1", "dump_path": str(dump)}))
    PrecisionDebugger._reset()
    debugger = PrecisionDebugger(str(config))
    debugger.start()
    planted.training_step(getattr(torch, dtype))
    debugger.stop()
    debugger.step()
    PrecisionDebugger._reset()
    return dump


@dataclass(frozen=True)
class Named:
    """What the check says where a fault is planted."""

    fault: planted.Fault
    dtype: str
    result: CheckResult

    @property
    def is_right(self) -> bool:
        """The operator is named, as what it is, and no other one is."""
        status = "nondeterministic" if self.fault.repeat > 1 else "wrong"
        found = [(one.operator, one.status) for one in self.result.culprits]
        return [name for name, _ in found] == [self.fault.operator] and (
            found[0][1] == status or status == "nondeterministic"
        )


def planted_faults(
    dumps: dict[str, Path], faults: tuple[planted.Fault, ...] = planted.FAULTS
) -> Iterator[Named]:
    for fault in faults:
        for dtype in fault.dtypes:
            result = check(
                dumps[dtype],
                calls=[f"{fault.operator}."],
                operators={fault.operator: fault.implementation},
                repeat=fault.repeat,
            )
            yield Named(fault, dtype, result)


@dataclass(frozen=True)
class Healthy:
    dtype: str
    judged: str
    result: CheckResult

    @property
    def operators(self) -> set[str]:
        return {call.operator for call in self.result.calls if call.judgement.status != "skipped"}

    @property
    def accused(self) -> list[str]:
        return [culprit.operator for culprit in self.result.culprits]


def record_healthy(folder: Path) -> None:
    """By another set of instructions than the one that judges: a healthy device that computes otherwise."""
    subprocess.run(
        [sys.executable, "-W", "ignore", Path(healthy.__file__), folder],
        check=True,
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
    )


def healthy_operators(folder: Path) -> Iterator[Healthy]:
    for dtype in healthy.DTYPES:
        for judged in ("recorded", "rerun"):
            yield Healthy(dtype, judged, check(folder / dtype, results=judged))


def main(folder: Path) -> None:
    dumps = {dtype: record_step(folder, dtype) for dtype in STEP_DTYPES}
    right = total = 0
    for named in planted_faults(dumps):
        total += 1
        right += named.is_right
        mark = "named" if named.is_right else "MISSED"
        print(f"{mark:7} {named.dtype:9} {named.fault.name}: {named.result.sentence}")
    print(f"planted faults named: {right} of {total}")
    for dtype, dump in dumps.items():
        for judged in ("recorded", "rerun"):
            print(f"healthy step, {dtype}, {judged}: {check(dump, results=judged).sentence}")
    record_healthy(folder / "healthy")
    for one in healthy_operators(folder / "healthy"):
        calls = len(one.result.calls) - len(one.result.skipped)
        print(
            f"healthy operators, {one.dtype}, {one.judged}: {len(one.operators)} checked in {calls} calls, "
            f"{len(one.accused)} accused {one.accused}"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]).resolve())
