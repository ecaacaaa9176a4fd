# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of many ranks, made out of runs of one process."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def multiplied(out: Path, sources: Sequence[Path], after: dict[int, Path] | None = None) -> Path:
    """The folder of a run in which rank R recorded what `sources[R]` did, each the folder of a run of one
    process. after: by step a run of which all ranks have the gradients and what the optimizer made of them,
    as an all-reduce leaves them.
    """
    out.mkdir(parents=True)
    for rank, source in enumerate(sources):
        for step in sorted((source / "dump").iterdir()):
            target = out / "dump" / step.name / f"rank{rank}"
            shutil.copytree(next(step.glob("rank*")), target)
            reduced = (after or {}).get(int(step.name.removeprefix("step")))
            if reduced is not None:
                _reduce(target, next((reduced / "dump" / step.name).glob("rank*")))
        for gradients in (source / "grad_probe").glob("rank*"):
            shutil.copytree(gradients, out / "grad_probe" / f"rank{rank}")
        if (source / "losses.rank0.csv").exists():
            shutil.copyfile(source / "losses.rank0.csv", out / f"losses.rank{rank}.csv")
        about = json.loads((source / "run.rank0.json").read_text())
        about.update(rank=rank, world_size=str(len(sources)))
        (out / f"run.rank{rank}.json").write_text(json.dumps(about))
    _write_pack(out / "config_check.zip", [source / "config_check.zip" for source in sources])
    return out


def _reduce(target: Path, reduced: Path) -> None:
    own, other = (json.loads((folder / "diagnosis.json").read_text()) for folder in (target, reduced))
    for kind in ("backward", "clipping", "gradients_at_optimizer", "optimizer"):
        own[kind] = other[kind]
    (target / "diagnosis.json").write_text(json.dumps(own))


def _write_pack(path: Path, sources: Sequence[Path]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        for rank, source in enumerate(sources):
            with zipfile.ZipFile(source) as one:
                for name in one.namelist():
                    if "rank0" in name or rank == 0:
                        pack.writestr(name.replace("rank0", f"rank{rank}"), one.read(name))
