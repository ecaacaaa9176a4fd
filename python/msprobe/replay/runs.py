# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The runs that a judgement needs: the call in float64, and the call by an implementation that is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.native import Error
from msprobe.replay import limits
from msprobe.replay.execution import Execution, Inputs, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from msprobe.replay.dump_file import RecordedCall

TRUTH = "float64 on the CPU"


@dataclass
class Run:
    """What one run of a call gave, on the CPU."""

    outputs: list[torch.Tensor]
    gradients: list[torch.Tensor | None]

    def places(self) -> Iterator[tuple[str, torch.Tensor]]:
        for i, output in enumerate(self.outputs):
            yield f"output.{i}", output
        for i, gradient in enumerate(self.gradients):
            if gradient is not None:
                yield f"gradient.{i}", gradient


def run(
    call: RecordedCall,
    inputs: Inputs,
    device: str,
    precision: Precision,
    function: Callable[..., Any] | None = None,
) -> Run:
    """Forward, and backward where gradients were recorded. Raises what torch and msprobe raise."""
    wants = bool(inputs.gradients) and any(g is not None for g in inputs.gradients)
    execution = Execution(call, inputs, device, precision, function=function, with_gradients=wants)
    outputs = [plain(output) for output in execution.outputs]
    gradients: list[torch.Tensor | None] = []
    if wants and any(output.requires_grad for output in execution.graph_outputs):
        found = execution.gradients(inputs.gradients)
        gradients = [None if g is None else plain(g) for g in found]
    return Run(outputs, gradients)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().cpu()
    if plain.is_sparse:
        plain = plain.to_dense()
    return plain.resolve_conj().resolve_neg()


def true_dtypes() -> dict[torch.dtype, torch.dtype]:
    """What the truth is computed in."""
    import torch

    wide: dict[torch.dtype, torch.dtype] = {}
    for name in (*limits.FORMATS, "complex32", "complex64", "complex128"):
        dtype = getattr(torch, name, None)
        if dtype is not None:
            wide[dtype] = torch.complex128 if dtype.is_complex else torch.float64
    return wide


def run_truth(call: RecordedCall, inputs: Inputs) -> tuple[Run, str]:
    """The call in float64 on the CPU, or in float32 where the function has no float64; and which it was."""
    import torch

    wide = true_dtypes()
    try:
        return run(call, inputs, "cpu", Precision(wide)), TRUTH
    except (RuntimeError, NotImplementedError, TypeError) as error:
        if isinstance(error, Error) or not inputs.dtypes - {torch.float64, torch.float32}:
            raise
    single = {key: torch.float32 for key, value in wide.items() if value is torch.float64}
    return run(call, inputs, "cpu", Precision(single)), "float32 on the CPU"


def run_trusted(call: RecordedCall, inputs: Inputs, precision: Precision) -> Run:
    """The call on the CPU in its own dtype; where the CPU has no such kernel, in float32, rounded."""
    import torch

    try:
        return run(call, inputs, "cpu", precision)
    except (RuntimeError, NotImplementedError) as error:
        narrow = {dtype for dtype in inputs.dtypes if dtype.itemsize <= 2}
        if isinstance(error, Error) or not narrow:
            raise
    found = run(call, inputs, "cpu", Precision(dict.fromkeys(narrow, torch.float32)))
    if len(narrow) != 1:
        return found
    (dtype,) = narrow

    def rounded(tensor: torch.Tensor | None) -> Any:
        return tensor.to(dtype) if tensor is not None and tensor.dtype is torch.float32 else tensor

    return Run([rounded(t) for t in found.outputs], [rounded(t) for t in found.gradients])


def parts_of_complex(tensor: torch.Tensor) -> torch.Tensor:
    """Of complex numbers their real and imaginary parts."""
    import torch

    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def has_fractions(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
