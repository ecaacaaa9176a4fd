# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Handles of collectives that run behind the training."""

from __future__ import annotations

from typing import Any


class WaitedWork:
    """A handle that has been waited for. Waiting again returns at once: the handles of some back ends cannot
    be waited for twice.
    """

    def __init__(self, work: Any) -> None:
        self._work = work

    def wait(self, *args: object, **kwargs: object) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def waited(result: Any) -> Any:
    """Waits for the handle, or the handles, that a collective returned. Other results pass as they are."""
    if isinstance(result, list):
        return [waited(item) for item in result]
    if result is None or not hasattr(result, "wait") or not hasattr(result, "is_completed"):
        return result
    result.wait()
    return WaitedWork(result)
