# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters by layer and kind: "decoder.layers.3" and "mlp.linear_fc1.weight"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.checkpoint.result import ParameterRow

# A number between dots ends the name of a layer: "decoder.layers.3", "model.layers.3", "h.3", "blocks.3".
_LAYER = re.compile(r"^((?:.*?\.)?(?:layers|layer|h|blocks|block)\.\d+)\.(.+)$")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True)
class Layer:
    name: str
    rows: list[ParameterRow]

    @property
    def relative_distance(self) -> float:
        """Of all its parameters as one vector; infinite where some cannot be compared."""
        if any(row.l2 is None or not math.isfinite(row.l2) for row in self.rows):
            return math.inf
        distance = math.sqrt(sum((row.l2 or 0) ** 2 for row in self.rows))
        norm = max(math.sqrt(sum(row.norms[side] ** 2 for row in self.rows)) for side in (0, 1))
        return distance / norm if distance else 0.0


def place_of(name: str) -> tuple[str, str]:
    """Layer and kind of a parameter. Outside of layers the first part of the name stands for the layer;
    numbers of experts are left out, so that they share a kind.
    """
    match = _LAYER.match(name)
    layer, kind = match.groups() if match else (name.split(".")[0], name.partition(".")[2] or name)
    return layer, _NUMBER.sub("*", f".{kind}.")[1:-1]


def layers_of(rows: list[ParameterRow]) -> list[Layer]:
    """The worst first."""
    by_name: dict[str, list[ParameterRow]] = {}
    for row in rows:
        by_name.setdefault(place_of(row.name)[0], []).append(row)
    layers = [Layer(name, some) for name, some in by_name.items()]
    return sorted(layers, key=lambda layer: layer.relative_distance, reverse=True)
