# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A call that this process sees, as the record that a dump would have of it: what judges dumps judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.replay.dump_file import RecordedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch


class Snapshot:
    """The arguments of a call before it, and its results after it, copied to the CPU."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._args = [self._record(value, "input") for value in args]
        self._kwargs = {key: self._record(value, f"input.{key}") for key, value in kwargs.items()}
        self._outputs: list[Any] = []

    def with_result(self, result: Any) -> Snapshot:
        """This one, with the results as well."""
        outputs = result if isinstance(result, (list, tuple)) else [result]
        self._outputs = [self._record(value, "output") for value in outputs]
        return self

    def call(self, name: str, operator: Callable[..., Any] | None = None) -> RecordedCall:
        """name: as in a dump, "Aten.mm.0"."""
        forward = {"input_args": self._args, "input_kwargs": self._kwargs, "output": self._outputs}
        return RecordedCall(name, forward, None, self.tensors, operator=operator)

    def _record(self, value: Any, kind: str) -> Any:
        """Tensors are replaced by records; what is no tensor stands for itself."""
        import torch

        if isinstance(value, torch.Tensor):
            name = f"{kind}.{len(self.tensors)}"
            copy = value.detach().to("cpu", copy=True)
            self.tensors[name] = copy
            return {
                "type": "torch.Tensor",
                "dtype": str(copy.dtype),
                "shape": list(copy.shape),
                "requires_grad": False,
                "data_name": name,
            }
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            return [self._record(entry, kind) for entry in value]
        return value
