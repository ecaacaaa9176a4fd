# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where things are in a pack (docs/formats/config_check.md)."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Final

FORMAT: Final = 1  # of what lies in OWN
LARGEST_ENTRY: Final = 1 << 30
LARGEST_CONTENT: Final = 10 << 30

# ---- what mindstudio-probe knows
ENVIRONMENT: Final = "env"
PACKAGES: Final = "pip"
STATIC: Final = "hyperparameters/hyperparameters_static.json"
DYNAMIC: Final = "hyperparameters/hyperparameters_dynamic.json"

# ---- what only msprobe knows: in a folder of its own, which mindstudio-probe does not look at
OWN: Final = "msprobe/"
PARTS: Final = ".parts"  # behind the name of a pack: the folder where processes have their parts of it
ABOUT: Final = OWN + "pack.json"
VARIABLES: Final = OWN + "variables.json"  # of the program, which may be hyper-parameters
FINGERPRINTS: Final = OWN + "fingerprints/"


def dataset(step: int, rank: int) -> str:
    return f"dataset/step{step}/rank{rank}/dataset.json"


def weights(step: int, rank: int) -> str:
    return f"weights/step{step}/rank{rank}/weight.json"


def random_calls(rank: int) -> str:
    return f"random/rank{rank}.json"


def fingerprints(kind: str, step: int, rank: int) -> str:
    """Type, shape and checksum of the tensors of dataset() or weights(); `kind` is the name of the folder."""
    return f"{FINGERPRINTS}{kind}/step{step}/rank{rank}.json"


def settings(rank: int) -> str:
    return f"{OWN}settings/rank{rank}.json"


def seeds(rank: int) -> str:
    return f"{OWN}seeds/rank{rank}.json"


# Every name that a pack may have; the groups are step and rank.
_NUMBER = r"(0|[1-9][0-9]{0,17})"
KINDS: Final = {
    "dataset": re.compile(rf"dataset/step{_NUMBER}/rank{_NUMBER}/dataset\.json"),
    "weights": re.compile(rf"weights/step{_NUMBER}/rank{_NUMBER}/weight\.json"),
    "random": re.compile(rf"random/rank(){_NUMBER}\.json"),
    "dataset fingerprints": re.compile(rf"{FINGERPRINTS}dataset/step{_NUMBER}/rank{_NUMBER}\.json"),
    "weights fingerprints": re.compile(rf"{FINGERPRINTS}weights/step{_NUMBER}/rank{_NUMBER}\.json"),
    "settings": re.compile(rf"{OWN}settings/rank(){_NUMBER}\.json"),
    "seeds": re.compile(rf"{OWN}seeds/rank(){_NUMBER}\.json"),
}
SINGLE: Final = frozenset((ENVIRONMENT, PACKAGES, STATIC, DYNAMIC, ABOUT, VARIABLES))


def place(name: str) -> tuple[str, int, int] | None:
    """Kind, step and rank of an entry, (name, 0, 0) of a single one, None for what is no part of a pack."""
    if name in SINGLE:
        return name, 0, 0
    for kind, pattern in KINDS.items():
        match = pattern.fullmatch(name)
        if match:
            return kind, int(match[1] or 0), int(match[2])
    return None
