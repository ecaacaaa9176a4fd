# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two recorded runs of one training on two devices: how far norms and means of their calls are apart.

Statistics are all that is recorded on a device, so this is the bias of the error model, and not the distance.
The statistics are computed by the device as well: of tensors that are moved, and so are equal, they are as
far apart as `moved` says. That is the noise of this measurement.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UNITS = {"torch.float32": 2.0**-24, "torch.bfloat16": 2.0**-8, "torch.float16": 2.0**-11}
MOVES = frozenset(
    """
    embedding permute transpose reshape flatten unbind stack
    cat to float contiguous view
    """.split()  # noqa: SIM905
)
UPDATES = frozenset(
    """
    add_ addcdiv_ addcmul_ lerp_ mul_ sqrt __truediv__ __iadd__ to stack
    """.split()  # noqa: SIM905
)
"""Of optimizers: their arguments are states, which carry the errors of the gradients."""


def _tensors(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value.get("type") == "torch.Tensor":
        yield path, value
    elif isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _tensors(item, (*path, key))


def _apart(a: Any, b: Any) -> float | None:
    """Of two tensors, in unit roundoffs; None: no numbers, or of two dtypes."""
    numbers = [a["Norm"], b["Norm"], a["Mean"], b["Mean"]]
    if a["dtype"] != b["dtype"] or a["dtype"] not in UNITS or a["shape"] != b["shape"] or None in numbers:
        return None
    norm, norm_b, mean, mean_b = map(float, numbers)
    size = max(norm, norm_b)
    if not math.isfinite(size) or size == 0:
        return None
    means = abs(mean - mean_b) * math.sqrt(math.prod(a["shape"]))
    return max(abs(norm - norm_b), means) / size / UNITS[a["dtype"]]


def _farthest(ours: Any, theirs: Any, key: str) -> float | None:
    found = [dict(_tensors({k: v for k, v in side.items() if key in k})) for side in (ours, theirs)]
    apart = [_apart(item, found[1][path]) for path, item in found[0].items() if path in found[1]]
    return max((one for one in apart if one is not None), default=None)


def devices_of(reference: Path, target: Path) -> dict[str, list[float]]:
    """`forward`, `backward`, `moved`: calls; median, 90 %, 99 % and the largest of what comes out of a call
    less what goes in, of the first recorded step.
    """
    groups = defaultdict(list)
    for file in sorted((reference / "dump/step0").glob("rank*/dump.json")):
        ours = json.loads(file.read_text())["data"]
        theirs = json.loads((target / file.relative_to(reference)).read_text())["data"]
        for name, call in ours.items():
            kind, _, function = name.partition(".")
            function = function.partition(".")[0]
            if name not in theirs or kind not in ("Functional", "Tensor", "Torch"):
                continue
            out = _farthest(call, theirs[name], "output")
            if out is None or (function in UPDATES and function not in MOVES):
                continue
            into = _farthest(call, theirs[name], "input") or 0.0
            direction = "moved" if function in MOVES else "backward" if "backward" in name else "forward"
            groups[direction].append(out if direction == "moved" and into == 0 else max(out - into, 0.0))
    return {name: [float(len(values)), *_quantiles(values)] for name, values in sorted(groups.items())}


def _quantiles(values: list[float]) -> list[float]:
    values = sorted(values)
    return [
        round(values[min(len(values) - 1, int(share * len(values)))], 3) for share in (0.5, 0.9, 0.99, 1.0)
    ]
