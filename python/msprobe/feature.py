# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What PrecisionDebugger hands on to the feature that does the configured task."""

from __future__ import annotations

from typing import Any


class Feature:
    """One task. A call that a task has no use for does nothing, as mindstudio-probe has it."""

    def monitor(self, model: object) -> None:
        pass

    def start(self, model: object = None, token_range: list[int] | None = None) -> None:
        pass

    def stop(self) -> None:
        pass

    def step(self) -> None:
        pass

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        pass

    def set_init_step(self, step: int) -> None:
        pass

    def register_custom_api(self, module: Any, api: str, api_prefix: str | None = None) -> None:
        pass

    def restore_custom_api(self, module: Any, api: str) -> None:
        pass

    def module_dump(self, module: object, name: str) -> None:
        pass

    def module_dump_end(self) -> None:
        pass

    def restore_api_dump(self) -> None:
        pass

    def close(self) -> None:
        """Takes every hook off, and returns when everything seen so far is on disk."""
        raise NotImplementedError

    def release(self) -> None:
        """After close(): lets the model go, where the process goes on.

        Not at the end of the process: the last reference to a model of DistributedDataParallel ends its
        process group, which waits, holding Python's lock, for threads that may wait for that lock.
        """
