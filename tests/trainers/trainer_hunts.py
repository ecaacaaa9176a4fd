# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hunts planted faults in trainings of libraries (scripts/planted_trainer.py), from two commands each, and
makes a table:

    python tests/trainers/trainer_hunts.py OUT [--only REGEX] [--page FILE]

The trainers are those of the interpreter that runs this; what is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "scripts")]
SCRIPT = HERE / "scripts" / "planted_trainer.py"


def hunted(out: Path, trainer: str, fault: str) -> dict[str, Any]:
    """The answer."""
    from resumes import QUIET

    folder = out / f"{trainer}_{fault}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = shlex.join([sys.executable, "-W", "ignore", str(SCRIPT), trainer])
    commands = ["--reference", f"{start} none", "--target", f"{start} {fault}"]
    words = [sys.executable, "-m", "msprobe", "hunt", "--quiet", "-o", "out", *commands]
    ended = subprocess.run(words, cwd=folder, env={**os.environ, **QUIET}, capture_output=True, text=True)
    file = folder / "out/hunt.json"
    return json.loads(file.read_text()) if file.exists() else {"status": "failed", "sentence": ended.stderr}


def is_right(answer: dict[str, Any], fault: str) -> bool:
    from planted_trainer import FAULTS

    if not FAULTS[fault]:
        return answer["status"] == "equal"
    changes = [name.partition("=")[0] for cause in answer.get("causes", ()) for name in cause["changes"]]
    fits = len(changes) == len(FAULTS[fault]) and all(
        one == wanted or one.startswith(f"{wanted}.") or one.endswith(f".{wanted}")
        for one, wanted in zip(changes, FAULTS[fault])
    )
    return answer["status"] == "proved" and fits


def main() -> int:
    from planted_trainer import FAULTS, TRAINERS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    lines = ["| trainer | fault | answer | runs of reference, target | right |", "|---|---|---|---|---|"]
    for trainer in TRAINERS:
        for fault in FAULTS:
            if not re.search(asked.only, f"{trainer} {fault}") or importlib.util.find_spec(trainer) is None:
                continue
            answer = hunted(asked.out.resolve(), trainer, fault)
            runs = answer.get("runs", {"reference": 0, "target": 0})
            told = f"{answer['sentence']} | {runs['reference']}, {runs['target']}"
            lines.append(f"| {trainer} | {fault} | {told} | {'yes' if is_right(answer, fault) else 'no'} |")
            print(lines[-1], flush=True)
    if asked.page:
        asked.page.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
