# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of many ranks, made out of runs of one process."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.loss_files import join, own_file
from msprobe.files.regular_file import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence


def multiplied(out: Path, sources: Sequence[Path], spread: tuple[int, Path] | None = None) -> Path:
    """The folder of a run in which rank R recorded what `sources[R]` did, each the folder of a run of one
    process. spread: a step and a run: at that step all ranks have its gradients and what the optimizer made
    of them, as an all-reduce leaves them, and at later ones all that it recorded. Files are links.
    """
    out.mkdir(parents=True)
    for rank, source in enumerate(sources):
        for folder in sorted((source / "dump").iterdir()):
            step = int(folder.name.removeprefix("step"))
            after = spread is not None and step > spread[0]
            target = out / "dump" / folder.name / f"rank{rank}"
            _link(_rank_of((spread[1] if spread and after else source) / "dump" / folder.name), target)
            if spread is not None and step == spread[0]:
                _reduce(target, _rank_of(spread[1] / "dump" / folder.name))
        for gradients in (source / "grad_probe").glob("rank*"):
            _link(gradients, out / "grad_probe" / f"rank{rank}")
        if (source / "losses.rank0.csv").exists():
            shutil.copyfile(source / "losses.rank0.csv", out / own_file(rank))
            join(out, rank)  # as each process does when it ends
        about = json.loads((source / "run.rank0.json").read_text())
        about.update(rank=rank, world_size=str(len(sources)))
        (out / f"run.rank{rank}.json").write_text(json.dumps(about))
    _write_pack(out / "config_check.zip", [source / "config_check.zip" for source in sources])
    return out


def _rank_of(step: Path) -> Path:
    return next(step.glob("rank*"))


def _link(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=os.link)


def _reduce(target: Path, reduced: Path) -> None:
    own, other = (json.loads(read_text(folder / "diagnosis.json")) for folder in (target, reduced))
    for kind in ("backward", "clipping", "gradients_at_optimizer", "optimizer"):
        own[kind] = other[kind]
    (target / "diagnosis.json").unlink(missing_ok=True)  # a link; beside a packed step it stands before that
    (target / "diagnosis.json").write_text(json.dumps(own))


def _write_pack(path: Path, sources: Sequence[Path]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        for rank, source in enumerate(sources):
            with zipfile.ZipFile(source) as one:
                for name in one.namelist():
                    if "rank0" in name or rank == 0:
                        pack.writestr(name.replace("rank0", f"rank{rank}"), one.read(name))
