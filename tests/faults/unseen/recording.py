# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records the runs of the held-out sets with `msprobe run`, each in its own process, as a user does it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from case import Case, Edits, Library

HERE = Path(__file__).resolve().parent
TIMEOUT = 300


@dataclass(frozen=True)
class Run:
    """One recorded run: the text of its script, variables of its environment, words of `msprobe run`."""

    script: str
    text: str
    environment: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    resumed_from: str = ""
    """Text of the script whose run, which is not recorded, writes the checkpoint to go on from."""

    @property
    def key(self) -> str:
        return f"{self.script}-{hashlib.sha256(repr(self).encode()).hexdigest()[:12]}"

    @property
    def processes(self) -> int:
        return 2 if self.script.startswith("two_") else 1


def edited(text: str, edits: Edits) -> str:
    for old, new in edits:
        assert old in text, f"the script has no {old!r}"
        text = text.replace(old, new)
    return text


def _planted(text: str, library: Library) -> str:
    edit = f"Edit({library.function!r}, {library.old!r}, {library.new!r}, {library.where!r})"
    path = str(HERE.parent / "library")
    line = f"import sys; sys.path.append({path!r}); from planting import Edit, plant; "
    return edited(text, (("# model built", f"{line}plant({edit}, {library.model!r}, model)"),))


def runs_of(case: Case) -> tuple[Run, Run]:
    """Reference and target."""
    text = edited((HERE / "scripts" / f"{case.script}.py").read_text(encoding="utf-8"), case.both)
    reference = Run(case.script, text, words=case.words)
    changed = edited(text, case.edits)
    if case.library is not None:
        changed = _planted(changed, case.library)
    if case.resumed:
        resumed = edited(text, ((', ""\n', ', "checkpoint.pt"\n'),))
        return reference, Run(case.script, resumed, words=case.words, resumed_from=text)
    return reference, Run(case.script, changed, case.environment)


def folder_of(out: Path, run: Run) -> Path:
    return out / "runs" / run.key


def log_of(out: Path, run: Run) -> str:
    """What the script printed."""
    return folder_of(out, run).with_suffix(".log").read_text(encoding="utf-8", errors="replace")


def is_recorded(out: Path, run: Run) -> bool:
    """It ended as the script did, and all that was asked for is there: an empty recording has no answer. Of a
    training whose gradients are all sparse there is no record of gradients.
    """
    try:
        contents = [
            json.loads((folder_of(out, run) / f"run.rank{rank}.json").read_text())
            for rank in range(run.processes)
        ]
    except (OSError, ValueError):
        return False
    return all(
        content["outcome"] in ("ended", "exit code 0")
        and content["recorded"].keys() >= set(content["asked"]["parts"]) - {"gradients"}
        for content in contents
    )


def _record(out: Path, run: Run) -> bool:
    folder, place = folder_of(out, run), out / "scripts" / run.key
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{run.script}.py").write_text(run.text, encoding="utf-8")
    start = [sys.executable]
    if run.processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(run.processes)]
    environment = {**os.environ, **dict(run.environment)}
    with folder.with_suffix(".log").open("wb") as log:

        def call(words: list[str], more: dict[str, str] | None = None) -> int:
            return subprocess.run(
                words, cwd=place, env={**environment, **(more or {})}, stdout=log, stderr=log, timeout=TIMEOUT
            ).returncode

        if run.resumed_from:
            (place / "first_half.py").write_text(run.resumed_from, encoding="utf-8")
            call([sys.executable, "first_half.py"], {"SAVE_TO": "checkpoint.pt"})
        call([*start, "-m", "msprobe", "run", "-o", str(folder), *run.words, f"{run.script}.py"])
    return is_recorded(out, run)


def record(out: Path, cases: list[Case], workers: int) -> list[Run]:
    """Records what is missing; those that could not be recorded."""
    wanted = list(dict.fromkeys(run for case in cases for run in runs_of(case)))
    missing = [run for run in wanted if not is_recorded(out, run)]
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(lambda run: _record(out, run), missing))
    return [run for run, is_done in zip(missing, done) if not is_done]


def numbers_of(log: str) -> dict[str, list[float]]:
    """What a script printed: "step 1", "rank 0 weights", ...: numbers."""
    found = {}
    for line in log.splitlines():
        match = re.match(
            r"((?:rank \d )?(?:step [\d.]+|weights|buffers))(?: loss)?((?: -?[\d.]+(?:e-?\d+)?)+)$", line
        )
        if match:
            found[match[1]] = [float(number) for number in match[2].split()]
    return found
