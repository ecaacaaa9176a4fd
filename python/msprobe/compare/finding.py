# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the walks over two runs find, in one form, so that it can be put in order and judged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal[
        "input_data",
        "weight",
        "buffer",
        "argument",
        "module_attribute",
        "operator",
        "missing_call",
        "extra_call",
        "gradient",
        "reduction",
        "clipping",
        "optimizer_setting",
        "optimizer_state",
        "randomness",
    ]


class Phase(IntEnum):
    """The parts of a training step, in the order in which they run."""

    RANDOM_STATE = 0
    INPUTS = 1
    PARAMETERS = 2
    BUFFERS = 3
    MODULES = 4
    CALLS = 5  # forward, loss, backward, as they ran
    GRADIENTS = 6  # of parameters, before they are reduced over ranks
    REDUCTION = 7
    CLIPPING = 8
    AT_OPTIMIZER = 9
    OPTIMIZER_SETTING = 10
    OPTIMIZER_STATE = 11
    UPDATE = 12  # calls within the optimizer, and what it leaves behind


@dataclass(frozen=True)
class Finding:
    """A place where the runs differ more than what led there explains.

    Distances are in rounding errors: relative to the size of the tensor, in units of its dtype's machine
    epsilon. Infinite: values without a measure, such as flags and integers.
    """

    kind: Kind
    phase: Phase
    name: str
    """Of the record, parameter, setting or input."""
    reason: str
    order: float = 0
    """Within the phase, in the order of execution."""
    step: int = 0
    rank: int = 0
    module: str = ""
    operator: str = ""
    distance: float = math.inf
    before: float = 0
    """Distance of what led here."""
    exact_before: bool = True
    """All that led here is equal."""
    effect: float | None = None
    """Distance of what comes of it, for what has no distance of its own. None: it cannot be seen."""
    equal_before: bool = False
    """The same operator has agreed before, on other values of the same shapes: not another kernel."""
    reduction: float = 1
    """About how many terms each element sums."""
    is_same_value: bool = False
    """`before` is of this very value a moment earlier: nothing may have changed it."""
    metrics: dict[str, object] = field(default_factory=dict)
    record: str = ""
    """Name of the record in the run under test whose stack shows the place; empty: none."""

    @property
    def jump(self) -> float:
        return self.distance / max(self.before, 1.0)

    @property
    def place(self) -> tuple[int, Phase, float]:
        return self.step, self.phase, self.order
