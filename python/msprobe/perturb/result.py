# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a perturbed training: its calls, its modules, and what two healthy runs may differ by."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_LINE = re.compile(r"^File (.+), line ([0-9]+), in ")


@dataclass
class PerturbedCall:
    """One call, over all steps in which it was made: the worst of them."""

    name: str
    operator: str
    module: str
    dtype: str
    forward: float | None
    """Relative change of the results over that of the arguments; None: not measured."""
    backward: float | None
    condition: float | None
    """What the condition number of the operator allows for `forward`."""
    margin_bits: float | None
    """To the largest number of the dtype; None: all results are 0."""
    gradient_margin_bits: float | None
    kind: str | None
    """Why it is fragile; None: it is not."""
    stage: str
    severity: float
    reason: str
    stack: list[str]
    steps: list[int] = field(default_factory=list)

    def take(self, row: dict[str, Any], step: int) -> None:
        """The same call in another step."""
        self.steps.append(step)
        self.forward = _larger(self.forward, row["forward"])
        self.backward = _larger(self.backward, row["backward"])
        self.condition = _larger(self.condition, row["condition"])
        self.margin_bits = _smaller(self.margin_bits, row["margin_bits"])
        self.gradient_margin_bits = _smaller(self.gradient_margin_bits, row["gradient_margin_bits"])
        if row["severity"] > self.severity:
            for key in ("kind", "stage", "severity", "reason", "stack"):
                setattr(self, key, row[key])

    @property
    def place(self) -> str:
        """ "train.py:12", the line that makes the call; empty: not known."""
        found = _LINE.match(self.stack[0]) if self.stack else None
        return f"{found[1].rpartition('/')[2]}:{found[2]}" if found else ""

    @property
    def where(self) -> str:
        module = f" in {self.module}" if self.module else ""
        return f"{self.name}{module}" + (f" ({self.place})" if self.place else "")


@dataclass(frozen=True)
class ModuleSensitivity:
    """What one rounding in every call of a group of modules makes of the loss."""

    name: str
    loss: float
    """Relative change of the loss, the largest over steps and tries."""
    output: float
    """Relative change of what the model gives."""
    roundings: float
    """`loss` in units of the roundoff of the dtype that the group computes in."""
    dtype: str


@dataclass
class PerturbResult:
    """All that was found."""

    output: Path
    mode: str
    steps: list[int] = field(default_factory=list)
    calls: dict[str, PerturbedCall] = field(default_factory=dict)
    seen: int = 0
    without_rounding: int = 0
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    modules: list[ModuleSensitivity] = field(default_factory=list)
    expected_loss: dict[int, float] = field(default_factory=dict)
    """Step -> relative difference of the losses of two healthy runs."""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def take(self, report: dict[str, Any], step: int) -> None:
        """What the probe reports of a step."""
        self.seen += report["calls"]
        self.without_rounding += report["without_rounding"]
        for row in report["rows"]:
            known = self.calls.get(row["name"])
            if known is None:
                self.calls[row["name"]] = PerturbedCall(**row, steps=[step])
            else:
                known.take(row, step)
        for reason, functions in report["left_out"].items():
            counts = self.left_out.setdefault(reason, {})
            for name, count in functions.items():
                counts[name] = counts.get(name, 0) + count
        for name, fault in report["faults"].items():
            self.faults.setdefault(name, fault)

    @property
    def fragile(self) -> list[PerturbedCall]:
        """The worst first; equal ones in the order in which they ran."""
        return sorted((call for call in self.calls.values() if call.kind), key=lambda call: -call.severity)

    @property
    def status(self) -> str:
        """ "healthy", "fragile", "nothing"."""
        if not self.calls and not self.modules:
            return "nothing"
        return "fragile" if self.fragile else "healthy"

    @property
    def exit_code(self) -> int:
        return {"healthy": 0, "fragile": 1, "nothing": 2}[self.status]

    @property
    def sentence(self) -> str:
        fragile = self.fragile
        if fragile:
            count = f"{len(fragile)} fragile calls, the worst is" if len(fragile) > 1 else "A fragile call:"
            return f"{count} {fragile[0].where}: {fragile[0].reason}"
        steps = f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
        if self.status == "nothing":
            return f"Nothing could be measured in {steps}"
        if not self.calls:
            return f"The loss was measured in {steps}; calls were not"
        most = max(self.calls.values(), key=lambda call: call.forward or 0)
        lost = max(0.0, math.log2(most.forward)) if most.forward else 0.0
        return (
            f"No fragile call: of {len(self.calls)} calls in {steps} none loses more than "
            f"{lost:.0f} bits of its arguments ({most.where})"
        )


def _larger(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else min(a, b)
