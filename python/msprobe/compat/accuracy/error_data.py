# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of calls that do not pass (-save_error_data)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory
from msprobe.native import IoError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch

    from msprobe.compat.accuracy.checker import CallResult


def save_error_data(folder: Path, result: CallResult) -> None:
    """{name}.{part}.{i}.pt for each tensor; i counts the elements of the part. Raises IoError."""
    data = result.data
    if data is None or result.passed:
        return
    make_directory(folder)
    for part, value in (
        ("forward.input", [data.inputs.args, data.inputs.kwargs]),
        ("forward.output.bench", data.reference_outputs),
        ("forward.output.device", data.device_outputs),
        ("backward.input", data.backward_input),
        ("backward.output.bench", data.reference_gradients),
        ("backward.output.device", data.device_gradients),
    ):
        for i, element in enumerate(_elements(value)):
            if element is not None:
                _save(folder / f"{result.name}.{part}.{i}.pt", element)


def _elements(value: Any) -> Iterator[torch.Tensor | None]:
    """From left to right; what is no tensor counts, and is None."""
    import torch

    if isinstance(value, (list, tuple)):
        for entry in value:
            yield from _elements(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _elements(entry)
    else:
        yield value if isinstance(value, torch.Tensor) else None


def _save(path: Path, tensor: torch.Tensor) -> None:
    """Complete or absent."""
    import torch

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        torch.save(tensor.detach().cpu().contiguous(), temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # torch's writer raises RuntimeError on a full disk
        temporary.unlink(missing_ok=True)
        raise IoError(f"cannot write {path}: {str(error).partition(chr(10))[0]}") from error
