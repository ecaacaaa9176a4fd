# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pairs made of one recording: a dump, and the same with one recorded value changed.

What was changed is known to the last bit, so a model of rounding can be asked beforehand what has to be seen
of it: a statistic that is off by less than rounding is `rounding`, one that is off by more is `differ`, and
nothing that is off at all is `equal`.

    change = mutate(dump, into, random.Random(seed))
"""

from __future__ import annotations

import json
import math
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATISTICS = ("Max", "Min", "Mean", "Norm")
KINDS = ("statistic", "checksum", "not_a_number", "shape", "dtype", "argument")

# Unit roundoff: half the distance of 1 and the next number.
UNIT = {
    "torch.float64": 2.0**-53,
    "torch.float32": 2.0**-24,
    "torch.float16": 2.0**-11,
    "torch.bfloat16": 2.0**-8,
}
LARGEST = 40  # a change is up to 2**40 unit roundoffs, evenly in the exponent


@dataclass(frozen=True)
class Change:
    """What differs between the two dumps, and nothing else does."""

    kind: str
    step: int
    rank: int
    record: str
    path: tuple[str | int, ...]
    """Of the item in its record: ("output", 0)."""
    key: str
    """Of the value in the item: "Norm", "md5", "value", ..."""
    before: Any
    after: Any
    dtype: str = ""
    shape: tuple[int, ...] = ()
    units: float = math.inf
    """How far off the statistic is, in unit roundoffs of the dtype, relative to the size of the tensor: its
    norm; for maximum and minimum the larger of them; for the mean its root mean square. Infinite: not a
    matter of rounding.
    """
    is_last: bool = False
    """Nothing that was recorded is computed from it: no later record has an input with these statistics."""

    def __str__(self) -> str:
        place = ".".join(map(str, (self.record, *self.path, self.key)))
        where = f"step {self.step}, rank {self.rank}: {self.kind} {place}"
        return f"{where}: {self.before} -> {self.after} ({self.units:.3g} units)"


def mutate(dump: Path, into: Path, chance: random.Random, kind: str | None = None) -> Change:
    """Copies the dump and changes one value of one item in it. `kind`: one of KINDS; None: any that the dump
    has. The files of other steps and ranks are the same files.
    """
    shutil.copytree(dump, into, copy_function=shutil.copy)
    folders = sorted(into.glob("step*/rank*"))
    folder = chance.choice(folders)
    path = folder / "dump.json"
    content = json.loads(path.read_text())
    items = list(_items(content["data"]))
    kinds = [kind] if kind else chance.sample(KINDS, len(KINDS))
    for one in kinds:
        fitting = [item for item in items if _FITS[one](item.value)]
        if not fitting:
            continue
        item = chance.choice(fitting)
        key, after, units = _CHANGES[one](item.value, chance)
        before = item.value[key]
        item.value[key] = after
        if one in ("statistic", "not_a_number", "dtype"):
            _forget_elements(item.value, chance)
        path.write_text(json.dumps(content, indent=1))
        return Change(
            one, int(folder.parent.name[4:]), int(folder.name[4:] or 0), item.record, item.path, key, before,
            after, str(item.value.get("dtype", "")), tuple(item.value.get("shape", ())), units,
            _is_last(items, item, before, key),
        )  # fmt: skip
    raise ValueError(f"{dump}: no value of the kind {kind}")


def _forget_elements(item: dict[str, Any], chance: random.Random) -> None:
    """Elements with other statistics have another checksum, and are not those of the sketch."""
    item.pop("sketch", None)
    if isinstance(item.get("md5"), str):
        _, item["md5"], _ = _checksum(item, chance)


# ---- the items of a dump


@dataclass(frozen=True)
class Item:
    record: str
    path: tuple[str | int, ...]
    value: dict[str, Any]

    @property
    def is_input(self) -> bool:
        return str(self.path[0]).startswith("input")


def _items(data: dict[str, Any]) -> Iterator[Item]:
    for name, record in data.items():
        for path, value in _leaves(record, ()):
            yield Item(name, path, value)


def _leaves(
    value: Any, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    if isinstance(value, dict):
        if "type" in value:
            yield path, value
            return
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))


def _is_last(items: list[Item], changed: Item, before: Any, key: str) -> bool:
    """By the statistics: a tensor that is passed on is recorded again with the same ones."""
    if not _is_tensor(changed.value):
        return False
    own = {**changed.value, key: before}
    later = items[items.index(changed) + 1 :]
    return not any(
        item.is_input
        and _is_tensor(item.value)
        and all(item.value.get(name) == own.get(name) for name in (*STATISTICS, "shape"))
        for item in later
    )


# ---- what is changed: (key, new value, size)

Changed = tuple[str, Any, float]


def _is_tensor(item: dict[str, Any]) -> bool:
    return item.get("type") == "torch.Tensor"


def _is_float(item: dict[str, Any]) -> bool:
    return (
        _is_tensor(item)
        and item["dtype"] in UNIT
        and all(isinstance(item[key], float) and math.isfinite(item[key]) for key in STATISTICS)
        and item["Norm"] > 0
    )


def _statistic(item: dict[str, Any], chance: random.Random) -> Changed:
    """By a random number of unit roundoffs, as the dump writes the number: rounded to the dtype."""
    key = chance.choice(STATISTICS)
    scale = _scales(item)[key]
    unit = UNIT[item["dtype"]]
    wanted = chance.choice((-1, 1)) * 2.0 ** chance.uniform(-1, LARGEST) * unit * scale
    after = round_to(item[key] + wanted, item["dtype"])
    if after == item[key]:
        after = _next(item[key], item["dtype"], upwards=wanted > 0)
    return key, after, abs(after - item[key]) / (unit * scale)


def _scales(item: dict[str, Any]) -> dict[str, float]:
    extreme = max(abs(item["Max"]), abs(item["Min"])) or 1.0
    typical = item["Norm"] / math.sqrt(math.prod(item["shape"]) or 1)
    return {"Max": extreme, "Min": extreme, "Mean": typical, "Norm": item["Norm"]}


def _checksum(item: dict[str, Any], chance: random.Random) -> Changed:
    """Of other elements with the same statistics."""
    after = f"{int(item['md5'], 16) ^ (1 << chance.randrange(32)):08x}"
    return "md5", after, math.inf


def _not_a_number(item: dict[str, Any], chance: random.Random) -> Changed:
    return chance.choice(STATISTICS), chance.choice((math.nan, math.inf, -math.inf)), math.inf


def _shape(item: dict[str, Any], chance: random.Random) -> Changed:
    after = list(item["shape"])
    after[chance.randrange(len(after))] += 1
    return "shape", after, math.inf


def _dtype(item: dict[str, Any], chance: random.Random) -> Changed:
    return "dtype", chance.choice([name for name in UNIT if name != item["dtype"]]), math.inf


def _argument(item: dict[str, Any], chance: random.Random) -> Changed:
    value = item["value"]
    if isinstance(value, bool):
        return "value", not value, math.inf
    if isinstance(value, int):
        return "value", value + chance.choice((-1, 1)), math.inf
    return "value", value * (1 + 2.0 ** chance.uniform(-20, 1)) or 0.5, math.inf


_FITS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "statistic": _is_float,
    "checksum": lambda item: _is_tensor(item) and isinstance(item.get("md5"), str),
    "not_a_number": _is_float,
    "shape": lambda item: _is_tensor(item) and bool(item.get("shape")),
    "dtype": lambda item: _is_tensor(item) and item["dtype"] in UNIT,
    "argument": lambda item: (
        item["type"] in ("int", "float", "bool")
        and isinstance(item.get("value"), (int, float))
        and math.isfinite(item["value"])
    ),
}
_CHANGES: dict[str, Callable[[dict[str, Any], random.Random], Changed]] = {
    "statistic": _statistic,
    "checksum": _checksum,
    "not_a_number": _not_a_number,
    "shape": _shape,
    "dtype": _dtype,
    "argument": _argument,
}


# ---- numbers of a dtype, without torch


def round_to(value: float, dtype: str) -> float:
    """The nearest number of the dtype; as the dump has it, infinite above the largest."""
    if dtype == "torch.float64":
        return value
    try:
        single = float(struct.unpack("<f", struct.pack("<f", value))[0])
        if dtype == "torch.float16":
            return float(struct.unpack("<e", struct.pack("<e", single))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype == "torch.float32":
        return single
    bits = struct.unpack("<I", struct.pack("<f", single))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _next(value: float, dtype: str, *, upwards: bool) -> float:
    step = max(abs(value), 1e-30) * UNIT[dtype] * 1.5
    after = round_to(value + (step if upwards else -step), dtype)
    return after if after != value else round_to(value + (2 * step if upwards else -2 * step), dtype)
