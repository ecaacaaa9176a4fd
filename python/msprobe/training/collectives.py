# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Handles of collectives that run behind the training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class WatchedWork:
    """A handle that tells when it has been waited for, and is waited for once: the handles of some back ends
    do not stand a second time.
    """

    def __init__(self, work: Any, done: Callable[[], None]) -> None:
        self._work = work
        self._done: Callable[[], None] | None = done

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """FSDP2 waits for what is an instance of `torch.distributed.Work`, and for nothing else."""
        return type(self._work)

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        if self._done is None:
            return True
        result = self._work.wait(*args, **kwargs)
        done, self._done = self._done, None
        done()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _is_for_cpp() -> bool:
    """Whether DDP asked, where processes may have uneven inputs: its C++ part takes a handle of torch."""
    from torch.distributed.algorithms.join import Join

    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not Join.notify_join_context.__code__:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None


def watched(result: Any, done: Callable[[], None]) -> Any:
    """The handle, or the list of handles, that a collective returned, made to call `done` when all of them
    have been waited for. None where the result is no handle: the collective is complete.
    """
    works = result if isinstance(result, list) else [result]
    if not works or not all(hasattr(work, "wait") and hasattr(work, "is_completed") for work in works):
        return None
    if _is_for_cpp():
        for work in works:
            work.wait()
        return None
    left = len(works)

    def one_done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done()

    handles = [WatchedWork(work, one_done) for work in works]
    return handles if isinstance(result, list) else handles[0]
