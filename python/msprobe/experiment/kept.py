# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files of values that one run keeps for another: tensors in the form of safetensors, states of random
generators as JSON in its metadata.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.regular_file import open_to_read, open_to_write
from msprobe.native import FormatError
from msprobe.recording.run_file import rank_of_process

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("weights", "random", "inputs", "gradients", "optimizer", "update")
"""Of values of a step. Change feed.KIND puts one into another run."""

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "C64": "complex64", "C128": "complex128",
}  # fmt: skip


def path_of(folder: Path, step: int, kind: str = "kept", rank: int | None = None) -> Path:
    """kind: "kept", values of the step; "modules", calls of modules in it. rank: None: of this process."""
    rank = rank_of_process() if rank is None else rank
    return folder / f"{kind}.rank{rank}.step{step}.safetensors"


def copied(tensor: Any) -> Any:
    """To be kept."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def write(path: Path, tensors: dict[str, Any], states: dict[str, Any]) -> None:
    """Tensors of the CPU, contiguous. Raises OSError."""
    import torch

    names = {getattr(torch, name): short for short, name in _DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"states": json.dumps(states)}}
    blocks, end = [], 0
    for name, tensor in tensors.items():
        content = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        begin, end = end, end + len(content)
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        blocks.append(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open_to_write(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(blocks)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and states; nothing where there is no file: the step was not kept. Raises FormatError."""
    if not path.exists():
        return {}, {}
    with open_to_read(path) as file:
        content = bytearray(file.read())
    try:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(bytes(content[8 : 8 + size]))
        states = json.loads(header.pop("__metadata__")["states"])
        return {name: _tensor(content, 8 + size, one) for name, one in header.items()}, states
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, RecursionError) as error:
        raise FormatError(f"{path}: expected values that msprobe kept: {error}") from error


def _tensor(content: bytearray, start: int, one: dict[str, Any]) -> Any:
    import torch

    make: Callable[..., Any] = torch.frombuffer
    begin, end = one["data_offsets"]
    dtype = getattr(torch, _DTYPES[one["dtype"]])
    if end == begin:
        return torch.empty(0, dtype=dtype).reshape(one["shape"])
    return make(content[start + begin : start + end], dtype=dtype).reshape(one["shape"])


# ---- random generators


def torch_state() -> Any:
    import torch

    return torch.get_rng_state()


def python_states() -> dict[str, Any]:
    states: dict[str, Any] = {"python": random.getstate()}
    if "numpy.random" in sys.modules:
        kind, words, *rest = sys.modules["numpy.random"].get_state()
        states["numpy"] = [kind, words.tolist(), *rest]
    return states


def set_states(state_of_torch: Any, states: dict[str, Any]) -> None:
    import torch

    torch.set_rng_state(state_of_torch)
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in states and "numpy.random" in sys.modules:
        sys.modules["numpy.random"].set_state(tuple(states["numpy"]))
