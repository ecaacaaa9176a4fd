# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Scores the verdicts of `msprobe compare` on what run.py recorded.

    python tests/faults/score.py OUT [--only NAME]

Each pair is compared as a user would do it, all steps and ranks at once, into OUT/verdicts/{mode}/{name}.
Exit code 1 when a score is below what is asked for.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalogue import BY_NAME, Control, Fault
from judging import DIFFER, SAME
from run import MODES, Case, cases

# The least share of faults whose culprit is named first: what is measured. No healthy run may be accused.
ASKED = {"quiet": 1.0, "noise": 0.93}
COMMAND = (sys.executable, "-m", "msprobe", "compare")
TIMEOUT = 120


@dataclass(frozen=True)
class Answer:
    """What the command said about one pair."""

    mode: str
    name: str
    fault: str
    """Why there is no verdict: the command failed, or its files contradict each other. Else empty."""
    status: str = ""
    culprits: tuple[dict[str, Any], ...] = ()

    @property
    def planted(self) -> Fault | Control:
        return BY_NAME[self.name]

    @property
    def position(self) -> int | None:
        """Of the first right culprit in the list, from 1."""
        if isinstance(self.planted, Control):
            return None
        return next((i for i, item in enumerate(self.culprits, 1) if is_right(self.planted, item)), None)

    @property
    def right(self) -> bool:
        if self.fault:
            return False
        if isinstance(self.planted, Control):
            return self.status in SAME and not self.culprits
        return self.status in DIFFER and self.position == 1


def is_right(fault: Fault, culprit: dict[str, Any]) -> bool:
    """The culprit has one of the kinds, the step, the rank where one is planted, and the place."""
    where = " ".join(str(culprit.get(key) or "") for key in ("name", "module", "operator"))
    return (
        culprit.get("kind") in fault.kinds
        and culprit.get("step") == fault.step
        and (fault.rank is None or culprit.get("rank") == fault.rank)
        and re.search(fault.place, where) is not None
    )


def ask(case: Case, out: Path) -> Answer:
    """Runs the command on one pair."""
    golden = out / "golden" / f"{case.model}.{case.variant}" / "dump"
    folder = out / "verdicts" / case.mode / case.name
    command = [*COMMAND, str(golden), str(out / case.folder / "dump"), "-o", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return Answer(case.mode, case.name, f"no answer within {TIMEOUT} s")
    if done.returncode not in (0, 1):
        return Answer(case.mode, case.name, f"exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    try:
        verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Answer(case.mode, case.name, f"verdict.json: {error}")
    if (verdict["status"] in SAME) != (done.returncode == 0):
        return Answer(case.mode, case.name, f"status {verdict['status']}, exit code {done.returncode}")
    return Answer(case.mode, case.name, "", verdict["status"], tuple(verdict["culprits"]))


def ask_all(out: Path, names: Iterable[str], workers: int = 2) -> list[Answer]:
    """Of all pairs of these faults and controls that were recorded."""
    wanted = [case for case in cases(names) if case.mode in MODES and (out / case.folder / "done").exists()]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda case: ask(case, out), wanted))


# ---- the result


@dataclass(frozen=True)
class Score:
    share: dict[str, float]
    """Mode: share of the faults whose culprit is first; absent without faults."""
    accused: tuple[str, ...]
    """Healthy runs with another verdict than "agree": `mode/name`."""

    @property
    def enough(self) -> bool:
        return not self.accused and all(share >= ASKED[mode] for mode, share in self.share.items())


def score(answers: Iterable[Answer]) -> Score:
    answers = list(answers)
    share = {}
    for mode in MODES:
        faults = [item for item in answers if item.mode == mode and isinstance(item.planted, Fault)]
        if faults:
            share[mode] = sum(item.right for item in faults) / len(faults)
    controls = (item for item in answers if isinstance(item.planted, Control))
    return Score(share, tuple(f"{item.mode}/{item.name}" for item in controls if not item.right))


def table(answers: Iterable[Answer]) -> str:
    """One line per pair: expected, first culprit, position of the right one."""
    lines = [f"{'':5} {'mode':5} {'planted':22} {'expected':50} {'position':8} first culprit"]
    for item in answers:
        planted = item.planted
        expected = "healthy"
        if isinstance(planted, Fault):
            rank = "" if planted.rank is None else f", rank {planted.rank}"
            expected = f"{'|'.join(planted.kinds)}, step {planted.step}{rank}"
        lines.append(
            f"{'ok' if item.right else 'WRONG':5} {item.mode:5} {item.name:22} {expected[:50]:50} "
            f"{item.position or '-':<8} {item.fault or _first(item)}"
        )
    return "\n".join(lines)


def _first(answer: Answer) -> str:
    if not answer.culprits:
        return answer.status
    culprit = answer.culprits[0]
    place = culprit.get("name") or culprit.get("module")
    return f"{culprit.get('kind')} {place}, step {culprit.get('step')}, rank {culprit.get('rank')}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Scores the verdicts of msprobe compare on recorded runs.")
    parser.add_argument("out", type=Path, help="what run.py wrote")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="this fault or control; may be repeated"
    )
    options = parser.parse_args()
    unknown = [name for name in options.only or () if name not in BY_NAME]
    if unknown:
        parser.error(f"--only: no fault or control {', '.join(unknown)}")
    answers = ask_all(options.out, options.only or BY_NAME)
    if not answers:
        parser.error(f"{options.out}: no recorded run; run.py records them")
    result = score(answers)
    print(table(answers))
    for mode, share in result.share.items():
        print(f"{mode}: {share:.1%} of the culprits first, asked for {ASKED[mode]:.0%}")
    print(f"healthy runs accused: {', '.join(result.accused) or 'none'}")
    return 0 if result.enough else 1


if __name__ == "__main__":
    sys.exit(main())
