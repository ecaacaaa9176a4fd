# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a diagnosis did not compare, beside what the comparisons themselves say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msprobe.diagnose.figures import rounded
from msprobe.files.left_out import LeftOut, left_out, only_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msprobe.diagnose.run_folder import RunFolder
    from msprobe.grad_probe.verdict import Verdict


def of_runs(reference: RunFolder, target: RunFolder) -> list[LeftOut]:
    """Files of a rank that are missing or cannot be read, and runs that did not end. They keep nothing from
    being compared: what a run that did not end has not recorded is told by its parts.
    """
    found: list[LeftOut] = []
    both = bool(reference.ranks and target.ranks)
    for side, run, other in (("reference", reference, target), ("target", target, reference)):
        for rank in sorted(run.ranks - other.ranks if both else ()):
            found.append(only_in(side, rank=rank, name="run.rank*.json"))
        for rank in sorted(run.unread):
            found.append(left_out(f"cannot be read in the {side}", rank=rank, name="run.rank*.json"))
        found += [left_out(f"the {side} did not end", rank=rank) for rank in sorted(run.running)]
    return [replace(one, is_difference=False) for one in found]


def of_gradients(verdict: Verdict, offset: int, calls: int) -> Iterator[LeftOut]:
    """What a comparison of gradients did not compare. calls: of optimizers in a step."""
    inputs = verdict.inputs
    for side, ranks in (
        ("reference", inputs.ranks_only_in_reference),
        ("target", inputs.ranks_only_in_target),
    ):
        for rank in ranks:
            yield only_in(side, rank=rank)
    for one in verdict.ranks:
        if one.problem is None:
            for step in sorted({step // calls for step in one.steps_only_in_reference}):
                if step >= offset:
                    yield only_in("reference", step, one.rank)
            for step in sorted({step // calls for step in one.steps_only_in_target}):
                yield only_in("target", step, one.rank)
    for finding in verdict.not_compared:
        at = None if finding.step is None else finding.step // calls
        yield left_out(rounded(finding.reason), at, finding.rank)
