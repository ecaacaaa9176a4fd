# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What there is to be found in a pair of recordings, measured without the code under test.

*Rounding* is what another device does, and that is recorded: two runs of the reference with rounding noise.
For each recorded tensor they say how far off rounding makes it. A pair is beyond rounding where a tensor is
ten times as far off as that, or where something differs that does not round: an integer, a flag, a shape, a
NaN, or what nothing has computed yet: data, and weights before the first step. What is smaller cannot be told
from another device, and nobody is asked to.

Where a fault shows first is found by comparing everything that was recorded to the last bit (evidence.py),
in what each column has: statistics or checksums, with `diagnosis.json` or without. Where that is not the
place which the catalogue names (a fault of a setting that only shows as an argument), the place that the
files show is right as well.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from catalogue import BY_NAME, Fault
from evidence import PHASES, Difference, differences, read
from judging import Expectation
from recordings import dump_of, folder_of, golden_of, losses_of
from run import Case

BEYOND = 10.0
"""A difference of this many times what rounding does is one that must be seen."""

EXACT = math.inf
"""How far off something is that does not round."""

_UNIT = {
    "torch.float64": 2.0**-53,
    "torch.float32": 2.0**-24,
    "torch.bfloat16": 2.0**-8,
    "torch.float16": 2.0**-11,
}
_FARTHEST = 3  # see Truth.most
_OF_RECORDS = ("forward", "parameters_grad", "reduce", "clip", "update")
_OF_TENSORS = ("Max", "Min", "Mean", "Norm", "md5", "max", "min", "mean", "norm", "crc32")

# What may be named where the files show no more than this.
_KINDS = {
    "input": ("argument", "weight", "buffer", "input_data", "module_attribute", "operator"),
    "output": ("operator", "randomness", "gradient", "reduction"),
    "calls": ("missing_call", "extra_call", "operator", "argument", "module_attribute"),
    "parameters_grad": ("gradient",),
    "backward": ("gradient", "reduction"),
    "reduce": ("reduction", "argument", "operator", "gradient"),
    "clip": ("clipping", "argument", "gradient", "missing_call", "extra_call", "operator"),
    "update": (
        *("optimizer_setting", "optimizer_state", "argument", "weight", "operator"),
        *("missing_call", "extra_call", "gradient"),
    ),
}


@dataclass(frozen=True)
class Truth:
    """Of one pair in one column."""

    first: Difference | None
    """Where the files differ first, without noise. None: they are equal."""
    at_place: float
    """How far off that is, in units of what rounding does there."""
    most: float
    """The same for the tensor that is third farthest off, of any step: one or two may be so by chance, where
    Adam divides a gradient that is rounding by its size. With what does not round, one is enough.
    """
    where: str
    """That tensor."""

    @property
    def is_beyond(self) -> bool:
        return self.most >= BEYOND

    def is_demanded(self, mode: str) -> bool:
        """Whether the culprit has to be found: with noise it has to stand out of it."""
        return self.first is not None and (self.is_beyond if mode == "quiet" else self.at_place >= BEYOND)

    def as_json(self) -> dict[str, Any]:
        return {
            "first": None if self.first is None else list(self.first),
            "at_place": _finite(self.at_place),
            "most": _finite(self.most),
            "where": self.where,
        }

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> Truth:
        first = None if content["first"] is None else Difference(*content["first"])
        return cls(first, float(content["at_place"]), float(content["most"]), content["where"])


def _finite(value: float) -> float | str:
    return round(value, 3) if math.isfinite(value) else "inf"


# ---- of a pair


def truths(cache: Path, case: Case) -> dict[str, Truth]:
    """By column: `{task}/{diagnosis or bare}`. Measured once, then read from the cache. For a fault it is
    measured without noise.
    """
    if isinstance(BY_NAME[case.name], Fault):
        case = case._replace(mode="quiet")
    path = folder_of(cache, case) / "truth.json"
    made = _made_of(cache, case)
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        content = {}
    if content.get("made") != made:
        found = _measure(cache, case)
        content = {"made": made, "truths": {column: truth.as_json() for column, truth in found.items()}}
        path.write_text(json.dumps(content))
    return {column: Truth.of_json(item) for column, item in content["truths"].items()}


def is_read(case: Case) -> bool:
    """Whether truths() reads the recording with checksums of this case."""
    return case.mode != "noise" or not isinstance(BY_NAME[case.name], Fault)


def _needed(cache: Path, case: Case) -> list[Path]:
    """The recordings that are read."""
    again = case._replace(name=f"again_{case.model}", variant="mix")
    noises = [again._replace(mode=mode) for mode in ("noise", "noise2")]
    return [folder_of(cache, item) / "md5" for item in (case, golden_of(case), golden_of(again), *noises)]


def _made_of(cache: Path, case: Case) -> list[str]:
    return [_SOURCES, *((folder / "made.json").read_text() for folder in _needed(cache, case))]


_SOURCES = hashlib.sha256(
    b"".join((Path(__file__).parent / name).read_bytes() for name in ("truth.py", "evidence.py"))
).hexdigest()[:16]


def _measure(cache: Path, case: Case) -> dict[str, Truth]:
    """All columns from the dumps with checksums: they hold the statistics as well."""
    golden, target = dump_of(cache, golden_of(case), "md5"), dump_of(cache, case, "md5")
    floor = _floor(cache, case)
    evidence = differences(golden, target)
    off = {key: (floor.ratio(key, size), size.is_seen) for key, size in _sizes(golden, target).items()}
    losses = _of_losses(cache, case)
    found: dict[str, Truth] = {}
    for kind in ("diagnosis", "bare"):
        of_kind = [item for item in evidence if kind == "diagnosis" or item.phase_name in _OF_RECORDS]
        for task in ("statistics", "md5", "tensor"):
            sizes = {
                key: ratio
                for key, (ratio, is_seen) in off.items()
                if (kind == "diagnosis" or key[2] == "dump")
                and (is_seen or task != "statistics" or key[2] == "diagnosis")
            }
            sizes[0, 0, "", "losses"] = losses
            farthest = sorted(sizes.items(), key=lambda item: -item[1])[:_FARTHEST]
            where, most = farthest[0] if farthest[0][1] == EXACT else farthest[-1]
            is_seen = (item for item in of_kind if task != "statistics" or not _path(item).endswith(".md5"))
            first = next(is_seen, None)
            text = f"step {where[0]}, rank {where[1]}: {where[3]}"
            found[f"{task}/{kind}"] = Truth(first, _at_place(first, sizes), most, text)
    return found


def _at_place(first: Difference | None, sizes: dict[Key, float]) -> float:
    if first is None:
        return 0.0
    path = _path(first)
    tensor, _, value = path.rpartition(".")
    if value not in _OF_TENSORS:
        return EXACT  # a setting, a flag, a call
    of_tensor = [
        size
        for (step, rank, _, name), size in sizes.items()
        if (step, rank, name) == (first.step, first.rank, tensor)
    ]
    return max(of_tensor, default=EXACT)


def _path(first: Difference) -> str:
    """Of the value that differs, as in the keys of _sizes(); of what is no value, something else."""
    phase = first.phase_name
    words = first.text.split(" ")[1:]
    if phase in _OF_RECORDS:
        return ".".join(words[:2])
    if phase == "state_after":
        index, _, path = words[0].partition(".")
        return f"optimizer.{index}.state_after.{path}"
    return f"{phase}.{words[0]}"


def expectation(case: Case, truth: Truth) -> Expectation | None:
    """The right answer to a fault in a column. None: what the files show lies elsewhere, at another step."""
    fault = BY_NAME[case.name]
    assert isinstance(fault, Fault)
    kinds, places = set(fault.kinds), [fault.place]
    first = truth.first
    if first is None or first.step != fault.step or fault.rank not in (None, first.rank):
        return None
    if not re.search(fault.first, first.text):
        kinds.update(_KINDS.get(_what_shows(first), ()))
        places += [re.escape(name) for name in _names(first)]
    return Expectation(frozenset(kinds), fault.step, tuple(places), fault.rank)


def _what_shows(first: Difference) -> str:
    if first.phase_name != "forward":
        return first.phase_name
    if first.text.startswith("forward calls part"):
        return "calls"
    return "output" if " output" in first.text else "input"


def _names(first: Difference) -> Iterator[str]:
    """Records that the text names: without their direction, and modules without the class as well."""
    for name in re.findall(r"(?:Module|Functional|Tensor|Torch|VF|Distributed|Aten|NPU)\.[\w.]+", first.text):
        short = re.sub(r"\.(forward|backward)(\.\d+)?$", "", name)
        yield short
        module = re.fullmatch(r"Module\.(.+)\.\w+", short)
        if module:
            yield module[1]


# ---- how far off tensors are


Key = tuple[int, int, str, str]
"""Step, rank, file, name of the tensor in it."""


class Size(NamedTuple):
    """How far off a tensor is."""

    units: float
    """In unit roundoffs of its dtype, relative to its size; EXACT: it does not round."""
    is_seen: bool
    """In its statistics, not only in its checksum."""


EQUAL = Size(0.0, False)


class _Floor:
    """What rounding does to each recorded tensor."""

    def __init__(self, runs: list[dict[Key, Size]], given: set[Key]) -> None:
        """`given`: tensors that nothing has computed yet."""
        self._given = given
        self._of: dict[Key, float] = {}
        for run in runs:
            for key, size in run.items():
                self._of[key] = max(self._of.get(key, 0.0), size.units)
        by_step: dict[tuple[int, str], list[float]] = {}
        for (step, _, file, _), units in self._of.items():
            if 0 < units < math.inf:
                by_step.setdefault((step, file), []).append(units)
        self._typical = {key: statistics.median(sizes) for key, sizes in by_step.items()}

    def ratio(self, key: Key, size: Size) -> float:
        if size.units == 0:
            return 0.0
        own = self._of.get(key, 0.0)
        if own == 0 and key in self._given:
            return EXACT
        if own == EXACT:
            return 1.0  # rounding does it as well: another expert is chosen
        return size.units / max(own, self._typical.get((key[0], key[2]), 0.0), 1.0)


def _floor(cache: Path, case: Case) -> _Floor:
    again = case._replace(name=f"again_{case.model}", variant="mix")
    return _floor_of(
        *(
            dump_of(cache, item, "md5")
            for item in (golden_of(again), again._replace(mode="noise"), again._replace(mode="noise2"))
        )
    )


@functools.cache
def _floor_of(golden: Path, *noises: Path) -> _Floor:
    return _Floor([_sizes(golden, noise) for noise in noises], _given(golden))


def _given(golden: Path) -> set[Key]:
    """Data, and parameters and buffers before the first step; also where a call takes them, which is seen by
    shape, maximum and minimum.
    """
    found: set[Key] = set()
    for folder in sorted(golden.glob("step*/rank*")):
        step, rank = int(folder.parent.name[4:]), int(folder.name[4:] or 0)
        sections = ("inputs", "parameters", "buffers") if step == 0 else ("inputs",)
        content = read(folder / "diagnosis.json")
        given = list(_tensors({key: content[key] for key in sections}, ""))
        found.update((step, rank, "diagnosis", name) for name, _ in given)
        known = {_signature(entry) for _, entry in given}
        for name, entry in _tensors(read(folder / "dump.json")["data"], ""):
            if _signature(entry) in known and ".input" in name:
                found.add((step, rank, "dump", name))
    return found


def _signature(entry: dict[str, Any]) -> tuple[Any, ...]:
    return str(entry["shape"]), entry["max"], entry["min"]


def _tensors(value: Any, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All tensors below a value of a dump, with the names that _apart() gives them."""
    if isinstance(value, dict):
        if "dtype" in value and "shape" in value:
            yield name, _entry(value)
            return
        for key, item in value.items():
            yield from _tensors(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _tensors(item, f"{name}.{index}")


def _sizes(golden: Path, target: Path) -> dict[Key, Size]:
    found: dict[Key, Size] = {}
    for folder in sorted(golden.glob("step*/rank*")):
        step, rank = int(folder.parent.name[4:]), int(folder.name[4:] or 0)
        other = target / folder.parent.name / folder.name
        for file, ours, theirs in (
            ("diagnosis", _sections(folder), _sections(other)),
            ("dump", *_records(folder, other)),
        ):
            for name, size in _apart(ours, theirs, ""):
                found[step, rank, file, name] = size
    return found


def _sections(folder: Path) -> dict[str, Any]:
    content = read(folder / "diagnosis.json")
    return {key: content[key] for key in content if key in PHASES and key not in ("modules", "rng")}


def _records(golden: Path, target: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that are the same call on both sides for sure: up to the first call that only one side makes."""
    ours, theirs = (read(folder / "dump.json")["data"] for folder in (golden, target))
    names, others = ([name for name in side if "backward" not in name] for side in (ours, theirs))
    same = next(
        (i for i, pair in enumerate(zip(names, others)) if pair[0] != pair[1]), min(len(names), len(others))
    )
    kept = set(names[:same])
    if same == len(names) == len(others):
        kept |= {name for name in ours if "backward" in name}
    return {name: ours[name] for name in ours if name in kept}, theirs


def _apart(ours: Any, theirs: Any, name: str) -> Iterator[tuple[str, Size]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if "dtype" in ours and ("shape" in ours or "shape" in theirs):
            yield name, _distance(_entry(ours), _entry(theirs))
            return
        for key in ours:
            if key in theirs:
                yield from _apart(ours[key], theirs[key], f"{name}.{key}" if name else key)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from _apart(*pair, f"{name}.{index}")


def _entry(item: dict[str, Any]) -> dict[str, Any]:
    """The two files have other names for the same."""
    return {
        "dtype": item.get("dtype"),
        "shape": item.get("shape"),
        "bits": item.get("md5", item.get("crc32")),
        **{key: item.get(key.capitalize(), item.get(key)) for key in ("max", "min", "mean", "norm")},
    }


def _distance(a: dict[str, Any], b: dict[str, Any]) -> Size:
    if a["shape"] != b["shape"]:
        return Size(EXACT, True)
    unit = max(_UNIT.get(a["dtype"], 0.0), _UNIT.get(b["dtype"], 0.0))
    values = [(a[key], b[key]) for key in ("max", "min", "mean", "norm")]
    if all(left == right or (left != left and right != right) for left, right in values):
        return EQUAL if a["bits"] == b["bits"] else Size(1.0 if unit else EXACT, False)
    if unit == 0 or not all(isinstance(value, (int, float)) for pair in values for value in pair):
        return Size(EXACT, True)
    for left, right in values:
        if left != right and not (math.isfinite(left) and math.isfinite(right)):
            return Size(EXACT, True)
    count = math.prod(extent for extent in a["shape"] if isinstance(extent, int)) or 1
    extreme = max((abs(v) for pair in values[:2] for v in pair if math.isfinite(v)), default=0.0)
    norm = max((abs(v) for v in values[3] if math.isfinite(v)), default=0.0)
    typical = norm / math.sqrt(count)
    scales = (extreme, extreme, typical or extreme, norm or extreme)
    off = [
        abs(left - right) / (scale * unit)
        for (left, right), scale in zip(values, scales)
        if left != right and math.isfinite(left) and math.isfinite(right) and scale > 0
    ]
    return Size(max(off, default=1.0), True)


def _of_losses(cache: Path, case: Case) -> float:
    """What is off most, in units of what rounding does to a loss of this run."""
    again = case._replace(name=f"again_{case.model}", variant="mix")
    golden, target = losses_of(cache, golden_of(case), "md5"), losses_of(cache, case, "md5")
    noises = [losses_of(cache, again._replace(mode=mode), "md5") for mode in ("noise", "noise2")]
    if not all(map(math.isfinite, target)):
        return EXACT
    unit = _UNIT["torch.bfloat16" if case.precision == "bfloat16" else "torch.float32"]
    off = [[abs(noise[i] - loss) for noise in noises] for i, loss in enumerate(golden)]
    typical = statistics.median(size for sizes in off for size in sizes)
    floors = [max(*sizes, typical, unit * abs(loss)) for sizes, loss in zip(off, golden)]
    return max(abs(a - b) / floor for a, b, floor in zip(target, golden, floors))


def is_measurable(cache: Path, case: Case) -> bool:
    """All recordings that truths() reads are there."""
    if isinstance(BY_NAME[case.name], Fault):
        case = case._replace(mode="quiet")
    return all((folder / "made.json").exists() for folder in _needed(cache, case))
