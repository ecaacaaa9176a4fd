# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the parts of two runs say, and the one answer that is made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msprobe.diagnose.cause import Cause
from msprobe.diagnose.settings import confirmed, is_same_setting
from msprobe.files.left_out import left_out
from msprobe.replay.rounded_operands import is_product
from msprobe.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.diagnose.cause import Part, Stage
    from msprobe.diagnose.losses import LossComparison
    from msprobe.files.left_out import LeftOut
    from msprobe.result import Cell

    # "rounding": it differs by no more than rounding explains.
    PartStatus = Literal["equal", "rounding", "differ", "incomplete", "absent", "failed"]
    Status = Literal["equal", "rounding", "differ", "incomplete"]

ORDER_OF_PARTS: tuple[Part, ...] = ("config", "checkpoint", "losses", "gradients", "dump")

# The parts whose numbers a training computes; what differs elsewhere is a cause only where these differ.
NUMBERS: tuple[Part, ...] = ("losses", "gradients", "dump")
COMPARED = ("equal", "rounding", "differ", "incomplete")

# In the order in which a specialist looks: what comes first explains what comes later.
STAGES: tuple[tuple[Stage, str, tuple[Part, ...]], ...] = (
    ("configuration", "Configuration and seeds", ("config",)),
    ("data", "Data", ("config", "dump")),
    ("initial weights", "Initial weights", ("config", "checkpoint", "dump")),
    ("first step", "First differing step", ("losses", "gradients", "dump")),
    ("gradients", "Gradients", ("gradients", "dump")),
    ("operators", "Modules and operators", ("dump",)),
    ("optimizer", "Optimizer", ("dump",)),
)
_ORDER = {stage: place for place, (stage, _, _) in enumerate(STAGES)}


@dataclass(frozen=True)
class PartResult:
    """What one part of the runs says."""

    part: Part
    status: PartStatus
    sentence: str
    report: Path | None = None
    """To open in a browser."""
    causes: tuple[Cause, ...] = ()
    """The best first."""
    first_step: int | None = None
    """The first step in which this part differs."""
    clear_step: int | None = None
    """The first with a difference that no rounding explains."""
    steps: tuple[int, ...] = ()
    """Those that were compared."""
    evidence: tuple[str, ...] = ()
    not_compared: tuple[LeftOut, ...] = ()
    """What was not, while the rest was compared."""
    settings: tuple[Cause, ...] = ()
    """Settings that differ and are no cause by themselves."""
    equal_stages: tuple[Stage, ...] = ()
    """Stages of which everything that this part has is equal."""
    silent_stages: tuple[Stage, ...] = ()
    """Stages of which this part has nothing here."""
    curves: LossComparison | None = None
    """Of the losses."""

    @property
    def left_out(self) -> list[LeftOut]:
        """`not_compared`, and the part itself where it could not be compared."""
        found = [one.of_part(self.part) for one in self.not_compared]
        return [*found, left_out(self.sentence).of_part(self.part)] if self.status == "failed" else found


@dataclass(frozen=True)
class Missing:
    """What would say more, and the commands that collect it."""

    what: str
    why: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Answer(Result):
    """What `msprobe diagnose` says."""

    status: Status
    sentence: str
    cause: Cause | None
    others: tuple[Cause, ...]
    parts: tuple[PartResult, ...]
    missing: tuple[Missing, ...]
    next_commands: tuple[str, ...] = ()
    not_compared: tuple[LeftOut, ...] = ()
    """Of all parts, and of the runs themselves; the name begins with the part."""
    notes: tuple[str, ...] = field(default=())
    noticed: tuple[str, ...] = ()
    """Where the runs follow each other: what differs in how they compute, without consequence."""
    again: tuple[str, ...] = ()
    """The commands that record the target again and compare, once the cause is removed."""
    ignored: tuple[Cause, ...] = ()
    """Intended differences, which the user did not want to be told of."""
    graph: Path | None = None
    """A page that shows the step of the cause as a hierarchy."""

    def table(self) -> Sequence[dict[str, Cell]]:
        """The stages, in the order in which a specialist looks."""
        rows: list[dict[str, Cell]] = []
        for stage, title, _ in STAGES:
            status, sentence = stage_status(stage, self)
            rows.append({"stage": title, "status": status, "sentence": sentence})
        return rows

    @property
    def follows(self) -> bool:
        """The target follows the reference: equal, or different by no more than rounding explains."""
        return self.status in ("equal", "rounding")


def conclude(parts: list[PartResult]) -> tuple[Cause | None, list[Cause]]:
    """The first cause in the order of the stages, and the other candidates; none where the numbers agree.

    In one stage the surer one is first. What a dump says of a later step than the one in which the gradients
    part is a consequence; of the same step or an earlier one it is nearer to the cause than a gradient. A
    setting whose values are those of the first difference in a dump stands before everything.
    """
    numbers = [part.status for part in parts if part.part in NUMBERS and part.status in COMPARED]
    if numbers and "differ" not in numbers:
        return None, []
    causes = [cause for part in parts for cause in part.causes]
    dump = next((part for part in parts if part.part == "dump"), None)
    if dump is not None and dump.causes:
        weak = [setting for part in parts for setting in part.settings]
        setting = confirmed([*(one for one in causes if one.stage == "configuration"), *weak], dump.causes)
        if setting is not None:
            return setting, [one for one in _in_order(causes, dump) if not is_same_setting(one, setting)]
    ordered = _in_order(causes, dump)
    if not ordered:
        return None, []
    return ordered[0], [one for one in ordered[1:] if not is_same_setting(one, ordered[0])]


def _in_order(causes: list[Cause], dump: PartResult | None) -> list[Cause]:
    if dump is not None and dump.causes:
        causes.sort(key=lambda cause: _is_refuted(cause, dump))
        doubtful = [cause for cause in causes if _is_refuted(cause, dump)]
        causes = [cause for cause in causes if cause not in doubtful]
    else:
        doubtful = []
    # Causes of a dump are in the order of execution: none comes before the first of them.
    of_dump = dump.causes if dump is not None else []
    behind = [] if not of_dump or _is_set_up(of_dump[0]) else of_dump[1:]
    in_time = [cause for cause in causes if _is_set_up(cause) and cause not in behind]
    later = [cause for cause in causes if cause not in in_time]
    in_time.sort(key=lambda cause: (_ORDER[cause.stage], -cause.confidence))
    later.sort(key=lambda cause: (cause.step or 0, cause.part != "dump", -cause.confidence))
    # Data and weights of a later step than the first are consequences, too.
    first_step = min((cause.step for cause in causes if cause.step is not None), default=0)
    ordered = sorted([*in_time, *later], key=lambda cause: cause.step is not None and cause.step > first_step)
    return ordered + doubtful


def numbers_agree(parts: list[PartResult]) -> bool:
    """What the trainings computed was compared, and nothing in it differs by more than rounding explains."""
    numbers = [part.status for part in parts if part.part in NUMBERS and part.status in COMPARED]
    return bool(numbers) and all(status in ("equal", "rounding") for status in numbers)


def _is_refuted(cause: Cause, dump: PartResult) -> bool:
    """Whether the dump shows something nearer than this difference of the set-up.

    The dump of the first step holds inputs, weights and random states itself. Where it names anything else,
    they did not matter, or followed from it: of other parameters, of a missing module.
    """
    if cause.part == "dump" or cause.step not in (None, 0):
        return False
    if not dump.steps or dump.steps[0] != 0:
        return False
    if _OF_PRODUCTS.search(cause.name):
        return dump.causes[0].step == 0 and not _may_be_a_product(dump.causes[0])
    seen = dump.causes[0].stage
    if cause.acts == "update" and seen in ("data", "initial weights", "operators"):
        return dump.causes[0].step == 0
    if cause.stage == "configuration" and cause.values != ("", "") and _is_setting(dump.causes[0]):
        return True  # of a module or the optimizer, and it is another one
    if cause.name.startswith(_RANDOM):
        return seen not in ("data", "initial weights")  # what generators draw
    return cause.stage in ("data", "initial weights", seen) or cause.name.startswith(_OF_MODEL)


def _is_set_up(cause: Cause) -> bool:
    return cause.stage in ("configuration", "data", "initial weights")


def _is_setting(cause: Cause) -> bool:
    return cause.name.startswith(("module attribute ", "optimizer setting "))


def _may_be_a_product(culprit: Cause) -> bool:
    """Whether products whose operands are rounded otherwise may show there first. A module may hold some."""
    kind = culprit.name.partition(" ")[0]
    if kind not in ("operator", "gradient", "reduction"):
        return False
    call = _FUNCTION.match(culprit.record)
    return call is None or is_product(call["name"])


# What float32 operands of products are rounded to.
_OF_PRODUCTS = re.compile(
    r"^(settings|variables): .*(tf32|hf32|fp32_precision|matmul_precision)", re.IGNORECASE
)
_FUNCTION = re.compile(r"(?!Module\.|Cell\.)[^.]+\.(?P<name>.+)\.[0-9]+\.(forward|backward)")
_RANDOM = ("seeds:", "random:")
_OF_MODEL = "settings: model."


def stage_status(stage: Stage, answer: Answer) -> tuple[str, str]:
    """A word and a sentence for a line of the stages; the words are those of docs/formats/diagnose.md."""
    covering = next(parts for name, _, parts in STAGES if name == stage)
    here = [part for part in answer.parts if part.part in covering]
    compared = [part for part in here if part.status in COMPARED and stage not in part.silent_stages]
    cause = answer.cause
    if stage == "first step":
        return _first_step(compared)
    if cause is not None and cause.stage == stage:
        return "cause", cause.said
    here_ignored = next((one for one in answer.ignored if one.stage == stage), None)
    if here_ignored is not None:
        return "ignored", here_ignored.said
    if not compared:
        failed = next((part for part in here if part.status == "failed"), None)
        if failed is not None:
            return "failed", failed.sentence
        return "not recorded", ""
    other = next((one for one in answer.others if one.stage == stage), None)
    if other is not None:
        return "consequence", other.said
    if any(stage in part.equal_stages for part in compared):
        return "equal", ""
    if cause is not None and _ORDER[stage] > _ORDER[cause.stage]:
        return "consequence", "what differs here follows from the cause"
    if any(_ORDER[stage] > _ORDER[one.stage] for one in answer.ignored if one.part == "dump"):
        return "consequence", "what differs here may follow from what is ignored"
    checkpoint = next((part for part in here if part.part == "checkpoint" and part.status == "differ"), None)
    if checkpoint is not None:
        return "differ", f"{checkpoint.sentence} They may be of a later step"
    config = next((part for part in here if part.part == "config" and part.status == "differ"), None)
    if config is not None and stage == "configuration" and config.evidence:
        return "no cause" if numbers_agree(list(answer.parts)) else "differ", config.evidence[0]
    if any(part.status == "rounding" for part in compared):
        return "rounding", ""
    return "equal", ""


def _first_step(compared: list[PartResult]) -> tuple[str, str]:
    if not compared:
        return "not recorded", ""
    said = [f"{part.part}: step {part.first_step}" for part in compared if part.first_step is not None]
    if said:
        return "differ", ", ".join(said)
    if any(part.status == "rounding" for part in compared):
        return "rounding", "no step differs by more than rounding explains"
    return "equal", "no step differs in what was recorded"
