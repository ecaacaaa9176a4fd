# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hunts planted faults in trainings of libraries (scripts/planted_trainer.py), from two commands each, and
makes a table:

    python tests/trainers/trainer_hunts.py OUT [--only REGEX] [--page FILE]

The trainers are those of the interpreter that runs this; what is not installed is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "scripts")]
SCRIPT = HERE / "scripts" / "planted_trainer.py"


def hunted(out: Path, trainer: str, fault: str) -> dict[str, Any]:
    """The answer."""
    from trainer_experiments import answer_of, start_of

    commands = [
        "--reference",
        start_of(SCRIPT, trainer, "none"),
        "--target",
        start_of(SCRIPT, trainer, fault),
    ]
    answer, messages = answer_of(out / f"{trainer}_{fault}", "hunt", commands)
    return answer or {"status": "failed", "sentence": messages}


def is_right(answer: dict[str, Any], fault: str) -> bool:
    from planted_trainer import FAULTS

    if not FAULTS[fault]:
        return answer["status"] == "equal"
    changes = [name.partition("=")[0] for cause in answer.get("causes", ()) for name in cause["changes"]]
    fits = [
        any(one == name or one.startswith(f"{name}.") or one.endswith(f".{name}") for name in FAULTS[fault])
        for one in changes
    ]
    return answer["status"] == "proved" and bool(fits) and all(fits)


def row(out: Path, trainer: str, fault: str) -> str:
    answer = hunted(out, trainer, fault)
    runs = answer.get("runs", {"reference": 0, "target": 0})
    told = f"{answer['sentence']} | {runs['reference']}, {runs['target']}"
    return f"| {trainer} | {fault} | {told} | {'yes' if is_right(answer, fault) else 'no'} |"


def main() -> int:
    from planted_trainer import FAULTS, TRAINERS
    from trainer_experiments import make_table

    head = ["| trainer | fault | answer | runs of reference, target | right |", "|---|---|---|---|---|"]
    return make_table(__doc__, head, [(one, one, fault) for one in TRAINERS for fault in FAULTS], row)


if __name__ == "__main__":
    sys.exit(main())
