# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A place where two runs may diverge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.terminal.printable import beside, printable

if TYPE_CHECKING:
    from typing import Literal

    from msprobe.files.left_out import LeftOut

    Part = Literal["config", "checkpoint", "losses", "gradients", "dump"]
    Stage = Literal[
        "configuration", "data", "initial weights", "first step", "gradients", "operators", "optimizer"
    ]


@dataclass(frozen=True)
class Cause:
    """A place where the runs may diverge."""

    stage: Stage
    part: Part
    name: str
    reason: str
    confidence: float
    step: int | None = None
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    """All in which this step has it; empty: `rank` alone."""
    module: str = ""
    record: str = ""
    """Of a dump."""
    stack: tuple[str, ...] = ()
    """The lines of the target that called it, the innermost first."""
    reference_stack: tuple[str, ...] = ()
    """Those of the reference. A call that only one run makes has the lines of that run."""
    plain: str = ""
    """What is different, in words that need no knowledge of records. Empty: `where` says it."""
    is_of_reference: bool = False
    """`record` is one of the reference, as the target has nothing there."""
    values: tuple[str, str] = ("", "")
    """Of a setting or an argument: in the target, in the reference."""
    acts: str = ""
    """ "update": a setting that nothing follows from before the optimizer has stepped."""

    @property
    def where(self) -> str:
        inside = f" in {self.module}" if self.module else ""
        at = (
            ""
            if self.step is None
            else f"step {self.step}" + ("" if self.rank is None else f", rank {self.rank}")
        )
        return printable(f"{self.name}{inside}" + (f" ({at})" if at else ""))

    def may_follow_from(self, missing: LeftOut) -> bool:
        """Whether the true cause may lie in what was not compared."""
        evidence = (self.part, "dump") if self.part == "gradients" else (self.part,)
        return self.step is not None and missing.part in evidence and missing.may_hold(self.step)

    @property
    def said(self) -> str:
        """What is different, for a person."""
        return printable(self.plain) or self.where

    @property
    def line(self) -> str:
        """The same with its step and reason, for a list."""
        at = "" if self.step is None or not self.plain else f"step {self.step}, "
        reason = beside(self.said, printable(self.reason))
        return f"{at}{self.said}" + ("" if reason in self.said else f": {reason}")
