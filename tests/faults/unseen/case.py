# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A case of a held-out set: a script of `scripts/`, and what the target has otherwise: lines of the script, a
line of a function of `transformers`, or variables of the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Library:
    """In `function` of the model's file in transformers `old` becomes `new`; `where`: in this module only."""

    model: str
    function: str
    old: str
    new: str
    where: str = ""


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    edits: Edits = ()
    """What is written otherwise in the target."""
    library: Library | None = None
    both: Edits = ()
    """What is written otherwise in both runs."""
    environment: tuple[tuple[str, str], ...] = ()
    """Of the target alone."""
    place: str = ""
    """Regular expression: the right answer names it. Empty: healthy."""
    steps: tuple[int, ...] = (0,)
    """At any of these the fault may be found first."""
    words: tuple[str, ...] = ()
    """Of `msprobe run`, for the reference and, where it goes on from the middle, for the target."""
    resumed: bool = False
    """The target goes on from what a run of the reference, which is not recorded, saved in the middle."""

    @property
    def is_healthy(self) -> bool:
        return not self.place


BF16: Edits = (("DTYPE = torch.float32", "DTYPE = torch.bfloat16"),)
AUTOCAST: Edits = (("AUTOCAST = False", "AUTOCAST = True"),)
THREADS: Edits = (("set_num_threads(1)", "set_num_threads(2)"),)
FOREACH: Edits = (("foreach=False", "foreach=True"),)
FUSED: Edits = (("foreach=False", "fused=True"),)
SDPA: Edits = (('"eager"', '"sdpa"'),)
NO_MKLDNN: Edits = (
    ("torch.set_num_threads(1)", "torch.set_num_threads(1); torch._C._set_mkldnn_enabled(False)"),
)
CHECKPOINTING: Edits = (("# model built", 'model.gradient_checkpointing_enable({"use_reentrant": False})'),)
COMPILED: Edits = (("called = model", "called = torch.compile(model)"),)
_NOISE = (
    f"import sys; sys.path.append({str(Path(__file__).parents[1])!r}); from unseen_noise import UnseenNoise"
)
NOISE: Edits = (("# model built", f"{_NOISE}; UnseenNoise(5).__enter__()"),)
"""What another device rounds otherwise, from here to the end of the script."""
DEFAULT_KERNELS = (("ATEN_CPU_CAPABILITY", "default"),)
AVX2_KERNELS = (("ATEN_CPU_CAPABILITY", "avx2"),)


def fault(name: str, old: str, new: str, place: str, steps: tuple[int, ...] = (0,), both: Edits = ()) -> Case:
    """Of a line of the script that the name begins with, `two_ddp.lost`."""
    script = name.partition(".")[0]
    return Case(name, script, ((old, new),), both=both, place=place, steps=steps)


def library(
    name: str,
    function: str,
    old: str,
    new: str,
    place: str,
    where: str = "",
    both: Edits = (),
    steps: tuple[int, ...] = (0,),
) -> Case:
    model = name.partition(".")[0]
    changed = Library(model, function, old, new, where)
    return Case(name, model, library=changed, both=both, place=place, steps=steps)


def healthy(name: str, *edits: tuple[str, str], both: Edits = (), library: Library | None = None) -> Case:
    return Case(name, name.partition(".")[0], edits, library, both)


def kernels(name: str, environment: tuple[tuple[str, str], ...]) -> Case:
    return Case(name, name.partition(".")[0], environment=environment)
