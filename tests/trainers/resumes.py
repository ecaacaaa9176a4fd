# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Stops and resumes the trainings of scripts/resumed.py with `msprobe resume`, and makes a table:

    python tests/trainers/resumes.py OUT [--only REGEX] [--page FILE]

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

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "scripts"))
SCRIPT = HERE / "scripts" / "resumed.py"
QUIET = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}


def resumed(out: Path, trainer: str, kind: str) -> dict[str, object]:
    """The answer."""
    folder = out / f"{trainer}_{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = shlex.join([sys.executable, "-W", "ignore", str(SCRIPT), trainer, kind])
    place = "{checkpoint}" if trainer == "lightning" else "{checkpoint_folder}"
    options = ["-o", "out", "--at", "6", "--after", "3", "--resume", f"{start} --from {place}", start]
    words = [sys.executable, "-m", "msprobe", "resume", "--quiet", *options]
    ended = subprocess.run(words, cwd=folder, env={**os.environ, **QUIET}, capture_output=True, text=True)
    file = folder / "out/resume.json"
    return json.loads(file.read_text()) if file.exists() else {"sentence": ended.stderr, "missing": ["?"]}


def main() -> int:
    from resumed import KINDS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    lines = ["| trainer | training | answer | right |", "|---|---|---|---|"]
    for trainer, kinds in KINDS.items():
        package = "torch" if trainer == "distributed" else trainer
        for kind, missing in kinds.items():
            if not re.search(asked.only, f"{trainer} {kind}") or importlib.util.find_spec(package) is None:
                continue
            answer = resumed(asked.out.resolve(), trainer, kind)
            is_right = tuple(answer["missing"]) == missing and answer["follows"] == (not missing)
            told = f"{answer['sentence']} {answer.get('proof', '')}".strip()
            lines.append(f"| {trainer} | {kind} | {told} | {'yes' if is_right else 'no'} |")
            print(lines[-1], flush=True)
    if asked.page:
        asked.page.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
