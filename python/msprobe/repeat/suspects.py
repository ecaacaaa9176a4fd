# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What may make a training differ from itself, the likeliest first, and what to write where it is that."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.experiment.plan import Change

if TYPE_CHECKING:
    from msprobe.experiment.digests import Parting
    from msprobe.repeat.first_call import FirstCall

_SEEDS = {
    "python": "random.seed(0)",
    "numpy": "numpy.random.seed(0)",
    "torch": "torch.manual_seed(0)",
}
_NOTED = {  # source of experiment/sources.py: what it is, what to do
    "generators": ("a random generator that is seeded without a number", "give it a seed"),
    "time": ("the time", "use a number of the configuration in place of the time"),
    "urandom": ("random bytes of the system", "use a seeded generator in place of them"),
    "pid": ("the number of the process", "use the rank, or a number of the configuration"),
}


@dataclass(frozen=True)
class Suspect:
    change: Change
    what: str
    setting: str
    """What a user writes to have it repeat."""
    at: str = ""
    """The lines that ask for it."""


def suspects(
    parting: Parting,
    call: FirstCall | None,
    tags: set[str],
    generators: list[str],
    notes: dict[str, list[str]],
    environment: dict[str, str],
) -> list[Suspect]:
    """Each is one setting to try.

    tags: torch's of the operator of `call`. generators: whose states differ where the first step that parts
    begins. notes: sources.read_notes(). environment: of the command.
    """
    seeds = [_seed(name) for name in ("torch", "numpy", "python") if _is_among(name, generators)]
    noted = [
        Suspect(Change(f"fixed.{source}", "same"), what, setting, ", ".join(notes[source][:3]))
        for source, (what, setting) in _NOTED.items()
        if source in notes
    ]
    hashes = Suspect(
        Change("env.PYTHONHASHSEED", "0"),
        "the order of a set or dict of texts, or hash(), which has another seed in each process",
        "PYTHONHASHSEED=0 in the environment, or sorted() around the set",
    )
    deterministic = Suspect(
        Change("torch.deterministic", "True"),
        "a kernel that adds up in no fixed order",
        "torch.use_deterministic_algorithms(True)",
    )
    threads = Suspect(
        Change("env.OMP_NUM_THREADS", "1"), "what several threads do in no fixed order", "OMP_NUM_THREADS=1"
    )
    workers = Suspect(
        Change("data.workers", "0"),
        "the workers of a DataLoader, and the order in which they answer",
        "num_workers=0, or a seed in worker_init_fn",
        ", ".join(notes.get("workers", ())[:3]),
    )
    result: list[Suspect] = []
    kernel = call is not None and call.equal_inputs and not call.only_in_one
    if kernel and "nondeterministic_bitwise" in tags:
        result.append(deterministic)
    if any(source in notes for source in ("generators", "urandom", "pid")) or not seeds:
        result += [*(one for one in noted if not one.change.name.endswith(".time")), *seeds]
    else:
        result += seeds
    result += [one for one in noted if one.change.name.endswith(".time")]
    if environment.get("PYTHONHASHSEED", "random") == "random":
        place = len(seeds) if seeds and parting.kind == "initial weights" else 0
        result.insert(place if kernel or "generators" in notes or seeds else 0, hashes)
    if "workers" in notes:
        result.append(workers)
    if (environment.get("OMP_NUM_THREADS") or str(os.cpu_count())) != "1":
        result.append(threads)
    result.append(deterministic)
    return list(dict.fromkeys(result))


def _is_among(name: str, generators: list[str]) -> bool:
    return any(one.partition(".")[0] == name for one in generators)


def _seed(name: str) -> Suspect:
    return Suspect(
        Change(f"seed.{name}", "0"),
        f"the random generator of {name}, which nobody has seeded",
        f"{_SEEDS[name]} before anything is drawn",
    )
