# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The recordings that the table is made from, kept on disk: they depend on the recorder and on the catalogue,
not on how dumps are compared.

    CACHE/{precision}/golden/{model}.{level}/    the reference
    CACHE/{precision}/quiet/{name}/              with the fault, otherwise equal to the last bit
    CACHE/{precision}/noise/{name}/              with the fault, and rounding noise in every kernel
    CACHE/{precision}/noise2/again_{model}/      nothing but another noise: what rounding does (truth.py)

Each has `statistics/`, `md5/` and `tensor/`, as far as they were asked for, and in each the dump,
`losses{rank}.json`, and `made.json`: of what it was made, written last.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from run import Case, run

TASKS = ("statistics", "md5", "tensor")
HERE = Path(__file__).resolve().parent


# ---- which there are


def cases(names: Iterable[str], precisions: Iterable[str], modes: Iterable[str]) -> list[Case]:
    """What these columns need: references, then noise alone, then the faults and healthy runs."""
    from catalogue import BY_NAME
    from training import RECIPES

    found: dict[Case, None] = {}
    items = [BY_NAME[name] for name in names]
    for precision in precisions:
        for item in items:
            ranks = RECIPES[item.model].ranks
            levels = {level_of(item), "mix"}  # what rounding does is measured with mix
            found.update((Case("golden", "", item.model, level, ranks, precision), None) for level in levels)
            for mode in ("noise", "noise2"):
                again = f"again_{item.model}"
                found[Case(mode, again, item.model, "mix", ranks, precision)] = None
    for mode in modes:
        for item in items:
            for precision in precisions:
                ranks = RECIPES[item.model].ranks
                found[Case(mode, item.name, item.model, level_of(item), ranks, precision)] = None
    return list(found)


def level_of(item: Any) -> str:
    return item.variant if item.variant in ("L0", "L1") else "mix"


def golden_of(case: Case) -> Case:
    return case._replace(mode="golden", name="")


def folder_of(cache: Path, case: Case) -> Path:
    return cache / case.precision / case.folder


def dump_of(cache: Path, case: Case, task: str) -> Path:
    return folder_of(cache, case) / task / "dump"


def losses_of(cache: Path, case: Case, task: str) -> list[float]:
    paths = sorted((folder_of(cache, case) / task).glob("losses*.json"))
    return [loss for path in paths for loss in json.loads(path.read_text())]


# ---- making them


def is_recorded(cache: Path, case: Case, task: str) -> bool:
    """It is there, and the catalogue says the same as it did then."""
    try:
        made = json.loads((folder_of(cache, case) / task / "made.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(made["fingerprint"] == fingerprint(case))


def record(cache: Path, case: Case, task: str) -> None:
    """RuntimeError: the traceback of a run that failed."""
    folder = folder_of(cache, case) / task
    run(case._replace(variant=f"{task}.{case.variant}"), folder)
    (folder / "made.json").write_text(json.dumps({"fingerprint": fingerprint(case)}))


def without_diagnosis(dump: Path, into: Path) -> Path:
    """The same files but `diagnosis.json`: what the configuration of mindstudio-probe records."""
    shutil.rmtree(into, ignore_errors=True)
    for path in dump.rglob("*"):
        if path.is_file() and path.name != "diagnosis.json":
            copy = into / path.relative_to(dump)
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, copy)
    return into


# ---- what they are made of


@functools.cache
def fingerprint(case: Case) -> str:
    """Of what determines a recording, but for the recorder: the training, and what is planted."""
    from catalogue import BY_NAME

    digest = hashlib.sha256(_of_files())
    if case.name:
        for part in _parts(BY_NAME[case.name].plant, set()):
            digest.update(part)
    return digest.hexdigest()[:16]


@functools.cache
def _of_files() -> bytes:
    names = ("models.py", "training.py", "noise.py")
    return b"".join(hashlib.sha256((HERE / name).read_bytes()).digest() for name in names)


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Of a function: its code, what it closes over, and the functions of the plants that it calls."""
    if isinstance(value, types.FunctionType):
        if id(value) in seen:
            return
        seen.add(id(value))
        yield from _parts(value.__code__, seen)
        for item in (*(cell.cell_contents for cell in value.__closure__ or ()), *(value.__defaults__ or ())):
            yield from _parts(item, seen)
        for name in value.__code__.co_names:
            called = value.__globals__.get(name)
            if isinstance(called, types.FunctionType) and called.__module__ == value.__module__:
                yield from _parts(called, seen)
    elif isinstance(value, types.CodeType):
        yield value.co_code
        for item in value.co_consts:
            yield from _parts(item, seen)
        yield repr(value.co_names).encode()
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, dict):
        yield from _parts(list(value.items()), seen)
    else:
        yield repr(value).encode() if isinstance(value, (int, float, str, bytes, type(None))) else b"?"
