# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the calls that a comparison blames once more: is the call wrong by itself, or does it hand on what
came in? Needs dumps of task tensor.
"""

from __future__ import annotations

from dataclasses import replace

from msprobe.compare.culprit import Culprit, Replay
from msprobe.native import Error, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.compare.result import CompareResult
    from msprobe.replay.attribution import Attribution

_KINDS = ("operator", "gradient")
"""Of culprits that are results of a call. Others (an argument, a weight) are facts that no new run clears."""


def replayed(result: CompareResult, culprits: list[Culprit]) -> list[Culprit]:
    """The culprits with what a new run says of each. Raises UnsupportedError without torch; what is wrong
    with one call or its files stands in its answer.
    """
    from msprobe.native import torch_adapter
    from msprobe.replay.execution import quiet
    from msprobe.replay.memory import limited_memory

    if culprits:
        torch_adapter()
    with quiet(), limited_memory("cpu"):
        return [replace(culprit, replay=_replay(result, culprit)) for culprit in culprits]


def _replay(result: CompareResult, culprit: Culprit) -> Replay:
    from msprobe.replay.attribution import attribute
    from msprobe.replay.dump_file import Dump

    name = core.call_of(culprit.record) if culprit.kind in _KINDS else ""
    if not name:
        return Replay("unknown", "it is no result of a recorded function, which could be run again")
    pair = result.pair_of(culprit.step, culprit.rank)
    if pair is None or pair.is_debug:  # of what save() was given alone
        return Replay("unknown", "the dumps of its step and rank were not compared")
    try:
        target, reference = Dump(str(pair.target)), Dump(str(pair.reference))
        if target.folder is None or reference.folder is None:
            return Replay("unknown", "its tensors were not recorded: record both runs with task tensor")
        if name not in target.names or name not in reference.names:
            return Replay("unknown", "one of the runs has no call of this name")
        return _answer(attribute(target, reference, name), lambda: attribute(reference, reference, name))
    except Error as error:
        return Replay("unknown", str(error))


def _answer(found: Attribution, of_reference: Callable[[], Attribution]) -> Replay:
    judgement = found.judgement
    shares = found.shares.values()
    introduced = max((share.introduced for share in shares), default=None)
    inherited = max((share.inherited for share in shares), default=None)
    if judgement.status == "skipped":
        return Replay("unknown", f"it cannot be run again: {judgement.reason}", introduced, inherited)
    numbers = f" (introduced {introduced:.2g}, inherited {inherited:.2g})" if shares else ""
    if found.introduces:
        return Replay("confirmed", f"the call is wrong: {judgement.reason}{numbers}", introduced, inherited)
    if of_reference().introduces:
        reason = f"the call of the reference is wrong, and that of the target right{numbers}"
    else:
        reason = f"on its arguments the call is as right as its dtype allows{numbers}"
    return Replay("cleared", reason, introduced, inherited)
