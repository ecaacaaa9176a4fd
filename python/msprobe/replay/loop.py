# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded calls, run again one after the other: one loop, whoever judges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msprobe.native import Error
from msprobe.replay.execution import quiet
from msprobe.replay.memory import limited_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Call = TypeVar("_Call")
_Result = TypeVar("_Result")


def each_call(
    calls: Sequence[_Call],
    judge: Callable[[_Call], _Result],
    device: str,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[_Result]:
    """The result of each, as soon as it is there: the caller writes it down before the next call is run.

    judge: raises nothing for what is wrong with a call, see guarded().
    """
    with limited_memory(device):
        for place, call in enumerate(calls, 1):
            with quiet():
                result = judge(call)
            yield result
            if progress is not None:
                progress(place, len(calls))


def guarded(judge: Callable[[], _Result], skipped: Callable[[str], _Result]) -> _Result:
    """Whatever goes wrong with one call is its result, what `skipped` makes of the reason: others go on."""
    try:
        return judge()
    except MemoryError:
        return skipped("there is not enough memory")
    except Exception as error:  # ours, or whatever torch makes of arguments from a file
        return skipped(reason_of(error))


def reason_of(error: Exception) -> str:
    """An error of ours in its words; torch's own without the lines about its insides."""
    if isinstance(error, Error):
        return str(error)
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
