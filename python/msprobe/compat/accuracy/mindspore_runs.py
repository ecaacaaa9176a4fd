# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A function of MindSpore with arguments of PyTorch, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.frameworks.mindspore import array_of, import_mindspore
from msprobe.frameworks.mindspore.calls import function_named
from msprobe.native import UnsupportedError

if TYPE_CHECKING:
    import torch


class MindSporeRun:
    """The forward when it is made, the backward when gradients() is called.

    callee: "Mint.add". args, kwargs: nothing changes them. Raises UnsupportedError where there is
    no such function, and what the function raises.
    """

    def __init__(self, callee: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._ms = import_mindspore()
        self._function = function_named(callee)
        if self._function is None:
            raise UnsupportedError(f"MindSpore {self._ms.__version__} has no function {callee}")
        self._leaves: list[Any] = []  # the tensors of the arguments, from left to right
        self._places: list[bool] = []  # whether each has a gradient
        self._args, self._kwargs = self._converted(args), self._converted(kwargs)
        self._value = self._run(self._leaves)

    @property
    def outputs(self) -> list[torch.Tensor]:
        return [self._as_torch(tensor) for tensor in self._tensors_of(self._value)]

    def gradients(self, recorded: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Of the tensors that were arguments, from left to right; None for those without. recorded:
        gradients of the outputs.
        """
        outputs = self._tensors_of(self._value)
        if len(outputs) != len(recorded):
            raise UnsupportedError(f"{len(recorded)} gradients were recorded, of {len(outputs)} outputs")
        wanted = [place for place, has in enumerate(self._places) if has]
        given = tuple(
            self._ms.ops.zeros_like(output) if gradient is None else self._tensor(gradient)
            for output, gradient in zip(outputs, recorded)
        )

        def forward(*leaves: Any) -> Any:
            placed = list(self._leaves)
            for place, leaf in zip(wanted, leaves):
                placed[place] = leaf
            found = tuple(self._tensors_of(self._run(placed)))
            return found if len(found) != 1 else found[0]

        differentiated = self._ms.ops.GradOperation(get_all=True, sens_param=True)(forward)
        leaves = [self._leaves[place] for place in wanted]
        found = differentiated(*leaves, given if len(given) != 1 else given[0])
        result: list[torch.Tensor | None] = [None] * len(self._leaves)
        for place, gradient in zip(wanted, found):
            result[place] = self._as_torch(gradient)
        return result

    # ---- arguments

    def _run(self, leaves: list[Any]) -> Any:
        assert self._function is not None
        return self._function(*_placed(self._args, leaves), **_placed(self._kwargs, leaves))

    def _converted(self, value: Any) -> Any:
        """With a place in the list of tensors for each tensor."""
        import torch

        if isinstance(value, torch.Tensor):
            self._leaves.append(self._tensor(value))
            self._places.append(value.requires_grad)
            return _Place(len(self._leaves) - 1)
        if isinstance(value, torch.dtype):
            return getattr(self._ms, str(value).removeprefix("torch.").replace("bool", "bool_"))
        if isinstance(value, (list, tuple)):  # a list of sizes is one of PyTorch's alone
            return tuple(self._converted(entry) for entry in value)
        if isinstance(value, dict):
            return {key: self._converted(entry) for key, entry in value.items()}
        return value

    def _tensor(self, tensor: torch.Tensor) -> Any:
        """A copy."""
        import torch

        plain = tensor.detach().cpu()
        if plain.dtype is torch.bfloat16:  # NumPy has none
            return self._ms.Tensor(plain.float().numpy()).astype(self._ms.bfloat16)
        return self._ms.Tensor(plain.clone().numpy())

    def _as_torch(self, tensor: Any) -> torch.Tensor:
        import torch

        if not isinstance(tensor, self._ms.Tensor):
            return torch.tensor(tensor)
        found = torch.from_numpy(array_of(tensor).copy())
        return found.bfloat16() if str(tensor.dtype) == "BFloat16" else found

    def _tensors_of(self, value: Any) -> list[Any]:
        if isinstance(value, (list, tuple)):
            return [tensor for entry in value for tensor in self._tensors_of(entry)]
        return [] if value is None else [value]


class _Place(int):
    """Of a tensor, where arguments have one."""


def _placed(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, _Place):
        return leaves[value]
    if isinstance(value, tuple):
        return tuple(_placed(entry, leaves) for entry in value)
    if isinstance(value, dict):
        return {key: _placed(entry, leaves) for key, entry in value.items()}
    return value
