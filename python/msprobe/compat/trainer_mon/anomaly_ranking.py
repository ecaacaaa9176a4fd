# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The first anomalies of all ranks, in the order in which one explains the next: anomaly_analyse.json."""

from __future__ import annotations

import ast
import heapq
import json
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.regular_file import read_bytes
from msprobe.monitoring.anomalies import FILE, Anomaly
from msprobe.native import FormatError, InvalidArgument, IoError, log
from msprobe.terminal.command_line import Parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RESULT = "anomaly_analyse.json"

_LARGEST_FILE = 1 << 30
_STAGES = {
    "actv": 0,
    **dict.fromkeys(("actv_grad", "pre_grad", "post_grad", "acc_grad"), 1),
    **dict.fromkeys(("exp_avg", "exp_avg_sq"), 2),
}
_RANK = re.compile(r"rank[0-9]{1,9}")


def rank_anomalies(anomalies: Iterable[Anomaly], steps: Sequence[int], count: int) -> list[Anomaly]:
    """The first `count`, of `steps`, or of all where that is empty."""
    wanted = (anomaly for anomaly in anomalies if not steps or anomaly.step in steps)
    return heapq.nsmallest(count, wanted, key=_order)


def _order(anomaly: Anomaly) -> tuple[int, ...]:
    stage = _STAGES.get(anomaly.tag_name.rsplit("/", 1)[-1], -1)
    sign = 1 if stage == 0 else -1  # what is behind the forward runs through the stages backwards
    place = (sign * anomaly.vpp_stage, sign * anomaly.pp_stage)
    return (anomaly.step, anomaly.micro_step, stage, *place, anomaly.call_id)


def read_anomalies(folder: Path) -> Iterator[Anomaly]:
    """Those of `rank*/anomaly.json`. Records that are none are left out, with a warning. Raises
    InvalidArgument, IoError and FormatError.
    """
    if not folder.is_dir():
        raise InvalidArgument(f"{folder}: expected a folder with rank0/{FILE}")
    for path in sorted(folder.glob(f"rank*/{FILE}")):
        if not _RANK.fullmatch(path.parent.name):
            continue
        for key, record in _read(path).items():
            anomaly = _anomaly(record)
            if anomaly is None:
                log.warning('%s: "%s": expected a record of an anomaly, it is left out', path, key[:60])
            else:
                yield anomaly


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_bytes(path, _LARGEST_FILE))
    except OSError as error:
        raise IoError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected JSON: {error}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path}: expected an object of records, found a {type(content).__name__}")
    return content


def _anomaly(record: object) -> Anomaly | None:
    if not isinstance(record, dict):
        return None
    values: dict[str, Any] = {}
    for field in fields(Anomaly):
        value = record.get(field.name)
        kind = {"tag_name": str, "message": str, "group_mates": list}.get(field.name, int)
        if not isinstance(value, kind) or isinstance(value, bool):
            return None
        values[field.name] = value
    return Anomaly(**values)


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m msprobe.core.monitor.anomaly_processor`. Exit code 0: written; 2: an error."""
    parser = Parser(
        prog="anomaly_processor",
        description="Puts the anomalies of all ranks in the order in which one explains the next, and writes "
        f"the first of them to {RESULT}.",
    )
    add = parser.add_argument
    add("-d", "--data_path", dest="data", metavar="DIR", required=True, help="folder with rank0, rank1, ...")
    add("-o", "--out_path", dest="out", metavar="OUT", default="", help="folder of the result (default: DIR)")
    add("-k", "--topk", dest="count", metavar="K", type=int, default=8, help="how many (default: 8)")
    add("-s", "--step", dest="steps", metavar="LIST", default="[]", help='steps, as "[1,2]" (default: all)')
    asked = parser.parse_args(arguments)
    try:
        steps = ast.literal_eval(asked.steps)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        steps = None
    if not isinstance(steps, list) or not all(isinstance(step, int) for step in steps):
        parser.error(f"-s: expected a list of steps, as [1,2], found {asked.steps!r}")
    if asked.count <= 0:
        parser.error(f"-k: expected a number above 0, found {asked.count}")
    from msprobe.native import Error, log_on_stderr

    with log_on_stderr("INFO"):
        log.setLevel("INFO")
        try:
            first = rank_anomalies(read_anomalies(Path(asked.data)), steps, asked.count)
            folder = make_directory(Path(asked.out or asked.data))
            text = json.dumps({anomaly.key: asdict(anomaly) for anomaly in first}, indent=1)
            write_text(folder / RESULT, text)
        except Error as error:
            parser.error(str(error))
        log.info("%s", folder / RESULT)
        for index, anomaly in enumerate(first):
            log.info("%d: %s", index, anomaly.message)
    return 0
