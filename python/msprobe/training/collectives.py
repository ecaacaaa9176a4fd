# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Handles of collectives that run behind the training."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@functools.cache
def _watched_work() -> type:
    """The class of a handle that tells when it has been waited for, and is waited for once: the handles of
    some back ends do not stand a second time. FSDP2 and the C++ part of DDP take a `Work`, and nothing else.
    """
    from torch.distributed import Work

    class WatchedWork(Work):
        def __init__(self, work: Any, done: Callable[[], None]) -> None:
            super().__init__()
            self._work = work
            self._done: Callable[[], None] | None = done

        def wait(self, *args: Any, **kwargs: Any) -> Any:
            if self._done is None:
                return True
            result = self._work.wait(*args, **kwargs)
            done, self._done = self._done, None
            done()
            return result

        def __getattr__(self, name: str) -> Any:
            return getattr(self._work, name)

    def of_work(name: str) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: getattr(self._work, name)(*args, **kwargs)

    for name in dir(Work):
        if not name.startswith("_") and name != "wait" and not isinstance(vars(Work).get(name), staticmethod):
            setattr(WatchedWork, name, of_work(name))
    return WatchedWork


def watched(result: Any, done: Callable[[], None]) -> Any:
    """The handle, or the list of handles, that a collective returned, made to call `done` when all of them
    have been waited for. None where the result is no handle: the collective is complete.
    """
    works = result if isinstance(result, list) else [result]
    if not works or not all(hasattr(work, "wait") and hasattr(work, "is_completed") for work in works):
        return None
    left = len(works)

    def one_done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done()

    handles = [_watched_work()(work, one_done) for work in works]
    return handles if isinstance(result, list) else handles[0]
