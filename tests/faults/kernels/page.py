# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The distributions of measure.py as a page of the documentation."""

from __future__ import annotations

from typing import Any

BARS = " ▁▂▃▄▅▆▇█"

_TOP = """# How far real kernels are apart

The numbers of the error model ([verdict.md](verdict.md)) are the 99.9 % quantiles of the distributions on
this page, as a run makes about a thousand different calls; of fewer than a thousand cells that is the
largest. In 16 bits it is the larger of both dtypes, and `bias` is that without powers (0.17), as few
elements have most of their errors. A place is suspect at three times as much. The page is made by one
command, which runs the same {samples} calls of operators, forward and backward, with every set of
kernels that a CPU has, and compares any two:

    cd tests/faults/kernels
    python measure.py WORK -o rounding.json --page ../../../docs/rounding.md {torch}

| kernels | torch | what they are |
|---|---|---|
"""

_KERNELS = {
    "best": "the best vector instructions of the CPU (AVX-512 here), oneDNN, one thread",
    "avx2": "no more than AVX2, in torch, oneDNN and MKL",
    "default": "no more than SSE4, in torch, oneDNN and MKL",
    "no_mkldnn": "without oneDNN",
    "threads2": "two threads",
    "threads3": "three threads",
    "channels_last": "images in channels_last",
    "written_out": "attention as products and a softmax, in place of the fused kernel",
    "compiled": "compiled by inductor; what it hands to libraries is left out",
}

_DEFINITIONS = """
## What is measured

A **cell** is one result or gradient of one call in one dtype. Of a cell, any two kernels are compared,
and the largest value over the pairs counts, because the reference and the target of a comparison may be
any two of them. All values are in unit roundoffs u of the dtype (2^-24, 2^-8, 2^-11): half a unit in the
last place of a number just above a power of two.

* **distance** D: the relative L2 distance |a - b| / |b|, over u.
* **condition number** c: how much more the exact result is off than each element of one argument, when
  that one is off by independent relative errors; the largest over the arguments, and 1 at least.
  Computed in double, with random signs. Of a sum it is |sqrt(sum of the squared terms)| / |sum|: how
  much cancels out. 1 where each element is rounded by itself: the forward pass of functions of single
  elements.
* **backward error** E = D / c: how far off the arguments would have to be.
* **bias**: the largest relative difference of the norms, or of the means times sqrt(count), over c and
  u, less 2 D / sqrt(count), which independent errors of the elements leave there.
* **element**: the largest difference of one element as a part of the largest element, over c and u.
* **terms** n: how many numbers an element is the sum of. Of a gradient it is how often the element was
  used, or n where that is more; of a sum of products n times how often.

## The numbers

| number | definition | float32 | bfloat16 | float16 |
|---|---|---|---|---|
"""

_ROWS = (
    ("own", "99 % quantile of E, of cells with n <= 16"),
    ("own_largest", "the largest of them"),
    ("sum", "99 % quantile of (E - own) / sqrt(n), of cells with n >= 64"),
    ("sum_largest", "the largest of them"),
    ("element", "99 % quantile of the element, of cells with n <= 16 and 64 elements and more"),
    ("element_largest", "the largest of them"),
    ("bias", "99 % quantile of the bias, of cells of 256 elements and more; normalisations apart"),
    ("bias_largest", "the largest of them"),
    (
        "bias_shared",
        "of normalisations, whose rows or channels share the rounding of one sum: bias / sqrt(n), n >= 64",
    ),
    ("bias_shared_largest", "the largest of them"),
    ("recurrent_largest", "the largest E of recurrent layers, through all their time steps"),
)

_QUANTILE = """
The quantile is over cells, which are kernels at a shape, and not over calls: a training makes the same
call at every layer and step, so a kernel that is beyond a number is beyond it each time, and one in a
hundred kernels may be. A place is suspect at three times what is allowed, which would leave room for
that one: of {cells} cells {beyond} are farther apart than 3 (own + sum sqrt(n)), with the numbers of their
dtype{which}.

## Distributions

Each bar is one bin of E; the first is below 1/16, the others grow by a factor of sqrt(2) up to 128
roundoffs. *equal*: pairs of kernels that agree to the last bit. The data is in
`tests/faults/kernels/rounding.json`.

| class, dtype, direction | cells | equal | E: 0 to 128 roundoffs | E median | 99 % | largest | D largest \
| bias 99 % | element largest | farthest |
|---|---|---|---|---|---|---|---|---|---|---|
"""


_DEVICES = """
## A CPU against a GPU

Of two runs of one training, recorded on a CPU and on an NVIDIA H200 in float32, statistics are known:
the bias of each call's results less that of what goes in, in roundoffs (`measure.py --devices
NAME=RUN,RUN`). `moved`: tensors that are only moved. They are equal, so what is seen there is the
rounding of the statistics, and the noise of this measurement.

| training | calls | number | median | 90 % | 99 % | largest |
|---|---|---|---|---|---|---|
"""


def bars(counts: list[int]) -> str:
    most = max(counts)
    return "".join(BARS[0 if n == 0 else 1 + round(7 * n / most)] for n in counts)


def _short(value: float) -> str:
    return f"{value:.2g}"


def page_of(data: dict[str, Any], samples: int, torch: list[str]) -> str:
    versions = " ".join(f"--torch {name}=PYTHON" for name in torch)
    text = _TOP.format(samples=samples, torch=versions)
    for name, version in data["kernels"].items():
        meaning = _KERNELS.get(name, "as the first, of another version")
        text += f"| {name} | {version.partition('+')[0]} | {meaning} |\n"
    text += _DEFINITIONS
    for name, definition in _ROWS:
        values = [data["numbers"][dtype][name] for dtype in ("float32", "bfloat16", "float16")]
        text += f"| `{name}` | {definition} | {' | '.join(map(_short, values))} |\n"
    beyond = data["beyond"]
    which = f": {', '.join(beyond)}" if beyond else ""
    text += _QUANTILE.format(cells=data["cells"], beyond=len(beyond) or "none", which=which)
    for name, group in data["classes"].items():
        of = {measure: [_short(value) for value in values] for measure, values in group["quantiles"].items()}
        errors = of["backward_error"]
        row = [name.replace("/", ", "), group["cells"], f"{group['equal'] / group['pairs']:.0%}"]
        row += [f"`{bars(group['histogram'])}`", errors[0], errors[2], errors[3], of["distance"][3]]
        row += [of["bias"][2], of["element"][3]]
        row += [f"{group['largest']['sample']}: {group['largest']['kernels']}"]
        text += f"| {' | '.join(map(str, row))} |\n"
    if data["devices"]:
        text += _DEVICES
    for name, calls in data["devices"].items():
        for kind, (count, *quantiles) in calls.items():
            text += f"| {name} | {kind} | {count:g} | {' | '.join(map(_short, quantiles))} |\n"
    return text
