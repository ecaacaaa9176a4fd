# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Stops and resumes the trainings of scripts/resumed.py with `msprobe resume`, and makes a table:

    python tests/trainers/resumes.py OUT [--only REGEX] [--page FILE]

The trainers are those of the interpreter that runs this; what is not installed is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "scripts")]
SCRIPT = HERE / "scripts" / "resumed.py"


def resumed(out: Path, trainer: str, kind: str) -> dict[str, Any]:
    """The answer."""
    from trainer_experiments import answer_of, start_of

    start = start_of(SCRIPT, trainer, kind)
    place = "{checkpoint}" if trainer == "lightning" else "{checkpoint_folder}"
    options = ["--at", "6", "--after", "3", "--resume", f"{start} --from {place}", start]
    answer, messages = answer_of(out / f"{trainer}_{kind}", "resume", options)
    return answer or {"sentence": messages, "missing": ["?"]}


def row(out: Path, trainer: str, kind: str) -> str:
    from resumed import KINDS

    missing = KINDS[trainer][kind]
    answer = resumed(out, trainer, kind)
    is_right = tuple(answer["missing"]) == missing and answer["follows"] == (not missing)
    told = f"{answer['sentence']} {answer.get('proof', '')}".strip()
    return f"| {trainer} | {kind} | {told} | {'yes' if is_right else 'no'} |"


def main() -> int:
    from resumed import KINDS
    from trainer_experiments import make_table

    cases = [
        ("torch" if trainer == "distributed" else trainer, trainer, kind)
        for trainer, kinds in KINDS.items()
        for kind in kinds
    ]
    return make_table(__doc__, ["| trainer | training | answer | right |", "|---|---|---|---|"], cases, row)


if __name__ == "__main__":
    sys.exit(main())
