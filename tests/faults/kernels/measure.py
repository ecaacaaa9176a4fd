# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How far real kernels are apart: the distributions that the numbers of the error model are quantiles of.

    python tests/faults/kernels/measure.py WORK -o tests/faults/kernels/rounding.json --page docs/rounding.md
    ... --torch 2.14=ENV/bin/python --torch 2.15=ENV/bin/python     other versions of torch, as well

Runs worker.py with every set of kernels that this CPU has: vector instructions, oneDNN on and off, threads,
channels_last, attention written out, compiled. What lies in WORK is not computed again. Needs torch and
numpy; a quarter of an hour on two cores, most of it for the compiled ones (`--without compiled`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from devices import devices_of  # noqa: E402
from page import page_of  # noqa: E402
from samples import Sample, samples  # noqa: E402

UNITS = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Unit roundoffs: half of the distance between 1 and the next number."""

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}

KERNELS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "best": ({}, {}),
    "avx2": (AVX2, {}),
    "default": (PLAIN, {}),
    "no_mkldnn": ({}, {"mkldnn": False}),
    "threads2": ({}, {"threads": 2}),
    "threads3": ({}, {"threads": 3}),
    "channels_last": ({}, {"channels_last": True}),
    "written_out": ({}, {"attention": "math"}),
    "compiled": ({}, {"compiled": True}),
}
"""Variables of the environment, and the setting of worker.py."""

BY_ELEMENT = frozenset(("elementwise", "power", "root", "exponential"))
"""Classes whose forward pass rounds each element of the result by itself, so that nothing cancels out."""


def compute(work: Path, name: str, python: str, environment: dict[str, str], setting: dict[str, Any]) -> None:
    if (work / name / "done.json").exists():
        return
    print(f"computing with {name}", file=sys.stderr)
    words = [python, str(HERE / "worker.py"), str(work / name), json.dumps(setting)]
    subprocess.run(words, check=True, env={**os.environ, **environment})


# ---- distances


@dataclass(frozen=True)
class Cell:
    """One result or gradient of one sample in one dtype, and how far any two kernels are apart there, all in
    unit roundoffs of the dtype.
    """

    sample: Sample
    dtype: str
    is_backward: bool
    count: int
    """Of elements."""
    terms: float
    condition: float
    pairs: int
    equal: int
    distance: float
    """The largest relative L2 distance of two kernels."""
    backward_error: float
    """The same, over the condition number where terms cancel out."""
    bias: float
    """The largest relative difference of norms, or of means times sqrt(count), over the condition; less
    twice what random errors of the elements leave there.
    """
    element: float
    """The largest difference of one element, as a part of the largest element; over the condition number."""
    apart: str
    """The two kernels that are farthest apart."""

    @property
    def direction(self) -> str:
        return "backward" if self.is_backward else "forward"


def cells(work: Path, names: list[str]) -> Iterator[Cell]:
    for number, sample in enumerate(samples()):
        for dtype in UNITS:
            files = {name: work / name / f"{number:03}-{dtype}.npz" for name in names}
            found = {name: dict(numpy.load(path)) for name, path in files.items() if path.exists()}
            exact = work / "exact" / f"{number:03}-{dtype}.npz"
            if len(found) >= 2 and exact.exists():
                yield from _cells_of(sample, dtype, found, dict(numpy.load(exact)))


def _cells_of(sample: Sample, dtype: str, found: dict[str, Any], exact: dict[str, Any]) -> Iterator[Cell]:
    for place in range(len(exact["conditions"])):
        is_backward = place > 0
        count = int(exact[f"numbers{place}"][0])
        result = float(exact["numbers0"][0])
        terms = sample.terms_of_gradient(result, count) if is_backward else sample.terms
        by_element = sample.gain in BY_ELEMENT and not is_backward and sample.terms == 1
        condition = 1.0 if by_element else float(exact["conditions"][place])
        if not math.isfinite(condition) or condition > 1e6:
            continue  # the exact result is 0: a gradient of a normalisation that cancels out
        pairs = [_apart(found[a], found[b], place, a, b) for a, b in itertools.combinations(found, 2)]
        pairs = [pair for pair in pairs if pair is not None]
        if not pairs:
            continue
        farthest = max(pairs)
        unit = UNITS[dtype]
        random = 2 * farthest[0] / math.sqrt(count)
        yield Cell(
            sample,
            dtype,
            is_backward,
            count,
            terms,
            condition,
            len(pairs),
            sum(pair[0] == 0 and pair[2] == 0 for pair in pairs),
            farthest[0] / unit,
            farthest[0] / unit / condition,
            max(0.0, max(pair[2] for pair in pairs) - random) / unit / condition,
            max(pair[3] for pair in pairs) / unit / condition,
            farthest[1],
        )


def _apart(a: Any, b: Any, place: int, a_name: str, b_name: str) -> tuple[float, str, float, float] | None:
    """Relative distance, the names, bias, the largest element's; None: NaN, or nothing to measure by."""
    ours, theirs = (one[f"elements{place}"].astype(numpy.float64) for one in (a, b))
    size = max(numpy.linalg.norm(ours), numpy.linalg.norm(theirs))
    if ours.shape != theirs.shape or not numpy.isfinite(size) or size == 0:
        return None
    off = ours - theirs
    (count, norm, mean, largest), (_, norm_b, mean_b, largest_b) = a[f"numbers{place}"], b[f"numbers{place}"]
    size_of_all = max(norm, norm_b)
    bias = max(abs(norm - norm_b), abs(mean - mean_b) * math.sqrt(count)) / size_of_all
    element = float(numpy.abs(off).max()) / max(largest, largest_b)
    return float(numpy.linalg.norm(off) / size), f"{a_name} and {b_name}", float(bias), element


# ---- what is committed

EDGES = [0.0, *(2.0 ** (exponent / 2) for exponent in range(-8, 15))]
"""Bins in unit roundoffs: 0 to 1/16, and on by factors of sqrt(2) to 128."""

QUANTILE = 0.99


def quantile(values: list[float], share: float = QUANTILE) -> float:
    return float(numpy.quantile(values, share)) if values else 0.0


def group_of(found: list[Cell]) -> dict[str, Any]:
    """One histogram: of an operator class, a dtype and a direction."""

    def histogram(values: list[float]) -> list[int]:
        return [int(n) for n in numpy.histogram(numpy.minimum(values, EDGES[-1]), EDGES)[0]]

    errors = [cell.backward_error for cell in found]
    worst = max(found, key=lambda cell: cell.backward_error)
    measures = {"distance": [c.distance for c in found], "backward_error": errors}
    measures["bias"] = [c.bias for c in found]
    measures["element"] = [c.element for c in found]
    quantiles = {
        name: [round(quantile(values, share), 3) for share in (0.5, 0.9, QUANTILE, 1.0)]
        for name, values in measures.items()
    }
    return {
        "cells": len(found),
        "pairs": sum(cell.pairs for cell in found),
        "equal": sum(cell.equal for cell in found),
        "histogram": histogram(errors),
        "bias_histogram": histogram(measures["bias"]),
        "quantiles": quantiles,
        "largest": {"sample": worst.sample.name, "kernels": worst.apart, "terms": worst.terms},
    }


def numbers_of(found: list[Cell]) -> dict[str, dict[str, float]]:
    """The numbers of the error model, by dtype. docs/rounding.md defines them."""
    numbers = {}
    for dtype in UNITS:
        of_dtype = [cell for cell in found if cell.dtype == dtype and cell.sample.gain != "recurrent"]
        few = [cell.backward_error for cell in of_dtype if cell.terms <= 16]
        own = quantile(few)
        many = [cell for cell in of_dtype if cell.terms >= 64]
        sums = [max(0.0, cell.backward_error - own) / math.sqrt(cell.terms) for cell in many]
        elements = [cell.element for cell in of_dtype if cell.terms <= 16 and cell.count >= 64]
        large = [cell for cell in of_dtype if cell.count >= 256]
        steps = [cell.bias for cell in large if cell.sample.gain != "scale_free"]
        shared = [
            c.bias / math.sqrt(c.terms) for c in large if c.sample.gain == "scale_free" and c.terms >= 64
        ]
        recurrent = [c.backward_error for c in found if c.dtype == dtype and c.sample.gain == "recurrent"]
        numbers[dtype] = {
            "own": own,
            "own_largest": max(few),
            "sum": quantile(sums),
            "sum_largest": max(sums),
            "element": quantile(elements),
            "element_largest": max(elements),
            "bias": quantile(steps),
            "bias_largest": max(steps),
            "bias_shared": quantile(shared),
            "bias_shared_largest": max(shared),
            "recurrent_largest": max(recurrent, default=0.0),
        }
    return {dtype: {name: round(value, 3) for name, value in row.items()} for dtype, row in numbers.items()}


def beyond_of(found: list[Cell], numbers: dict[str, dict[str, float]]) -> list[str]:
    """Cells that are farther apart than three times what the numbers allow."""
    beyond = []
    for cell in found:
        of = numbers[cell.dtype]
        if cell.backward_error > 3 * (of["own"] + of["sum"] * math.sqrt(cell.terms)):
            beyond.append(f"{cell.sample.name} {cell.dtype} {cell.direction}")
    return beyond


def judged(work: Path, names: list[str]) -> dict[str, Any]:
    found = list(cells(work, names))
    groups = defaultdict(list)
    for cell in found:
        groups[f"{cell.sample.gain}/{cell.dtype}/{cell.direction}"].append(cell)
    versions = {name: json.loads((work / name / "done.json").read_text())["torch"] for name in names}
    numbers = numbers_of(found)
    return {
        "format": 1,
        "kernels": versions,
        "edges": [round(edge, 4) for edge in EDGES],
        "quantile": QUANTILE,
        "cells": len(found),
        "beyond": beyond_of(found, numbers),
        "numbers": numbers,
        "classes": {name: group_of(groups[name]) for name in sorted(groups)},
    }


def devices(output: Path, pairs: list[str]) -> dict[str, Any]:
    """By name; with those of the file that is there."""
    found = json.loads(output.read_text())["devices"] if output.exists() else {}
    for pair in pairs:
        name, _, runs = pair.partition("=")
        reference, target = map(Path, runs.split(","))
        found[name] = devices_of(reference, target)
    return dict(sorted(found.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("work", type=Path, help="folder of what kernels computed; may be removed afterwards")
    add("-o", "--output", type=Path, required=True, help="the data, JSON")
    add("--page", type=Path, help="the page of the documentation")
    add(
        "--torch", action="append", default=[], metavar="NAME=PYTHON", help="another version; may be repeated"
    )
    add(
        "--devices",
        action="append",
        default=[],
        metavar="NAME=RUN,RUN",
        help="two recorded runs in float32 on two devices; those of the data that is there are kept",
    )
    add("--without", action="append", default=[], choices=KERNELS)
    options = parser.parse_args()
    work = options.work.resolve()
    compute(work, "exact", sys.executable, {}, {"exact": True})
    names = [name for name in KERNELS if name not in options.without]
    for name in names:
        compute(work, name, sys.executable, *KERNELS[name])
    for other in options.torch:
        name, _, python = other.partition("=")
        names.append(f"torch {name}")
        compute(work, names[-1], python, {}, {})
    data = judged(work, names)
    data["devices"] = devices(options.output, options.devices)
    options.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if options.page:
        options.page.write_text(
            page_of(data, len(samples()), [word.partition("=")[0] for word in options.torch]),
            encoding="utf-8",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
