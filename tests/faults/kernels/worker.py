# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Computes all samples with one set of kernels, forward and backward, and writes what came out.

    python worker.py OUT '{"threads": 2}'

Needs torch and numpy alone. `exact`: in double, on inputs rounded to the dtype, with condition numbers.
"""

from __future__ import annotations

import contextlib
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from samples import DTYPES, Sample, samples

KEPT = 1 << 15
"""So many elements of each tensor are written, at even distances; norm and mean are of all."""
STEP = 2.0**-20
"""Of the perturbations that condition numbers are measured with."""


def tensors_of(sample: Sample, dtype: torch.dtype, setting: dict[str, Any]) -> list[torch.Tensor]:
    found = []
    for array in sample.arrays():
        tensor = torch.from_numpy(array)
        if tensor.is_floating_point():
            tensor = tensor.to(dtype)
            if setting.get("exact"):
                tensor = tensor.double()
            if setting.get("channels_last") and tensor.dim() == 4:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
        found.append(tensor)
    return found


def computed(
    call: Any, sample: Sample, tensors: list[torch.Tensor], dtype: torch.dtype, push: Any = None
) -> list[torch.Tensor]:
    """The result, and the gradients of the inputs; `push(number, tensor)` may change an input or what comes
    in from behind.
    """
    push = push or (lambda number, tensor: tensor)
    leaves = [push(i, one) if one.is_floating_point() else one for i, one in enumerate(tensors)]
    leaves = [one.detach().requires_grad_(one.is_floating_point()) for one in leaves]
    result = call(*leaves)
    random = numpy.random.Generator(numpy.random.PCG64(zlib.crc32(sample.name.encode()) + 1))
    drawn = numpy.asarray(random.standard_normal(tuple(result.shape)), numpy.float32)
    behind = torch.from_numpy(drawn)
    behind = push(len(tensors), behind.to(dtype).to(result.dtype))
    wanted = [one for one in leaves if one.requires_grad]
    return [result.detach(), *torch.autograd.grad(result, wanted, behind)]


def _relative(a: torch.Tensor, b: torch.Tensor) -> float:
    norm = float(b.norm())
    return float((a - b).norm()) / norm if norm > 0 else 0.0


def conditions(
    sample: Sample, tensors: list[torch.Tensor], dtype: torch.dtype, exact: list[torch.Tensor]
) -> list[float]:
    """Of each result: by how much more it is off, relative to its size, than each element of one input, by a
    random relative error. The largest over the inputs, and 1 at least. For a sum it is how much smaller the
    sum is than its terms would be with random signs.
    """
    found = [1.0] * len(exact)
    signs = numpy.random.Generator(numpy.random.PCG64(7))
    for number in range(len(tensors) + 1):
        if number < len(tensors) and not tensors[number].is_floating_point():
            continue

        def push(at: int, tensor: torch.Tensor, number: int = number) -> torch.Tensor:
            if at != number:
                return tensor
            random = torch.from_numpy(numpy.asarray(signs.integers(0, 2, tuple(tensor.shape)) * 2.0 - 1))
            return tensor * (1 + STEP * random)

        off = computed(sample.call, sample, tensors, dtype, push)
        found = [max(c, _relative(a, b) / STEP) for c, a, b in zip(found, off, exact)]
    return found


def kept(tensor: torch.Tensor) -> tuple[Any, list[float]]:
    """Elements, and count, norm, mean and largest magnitude of all of them."""
    flat = tensor.detach().contiguous().reshape(-1).double()
    step = max(1, -(-flat.numel() // KEPT))
    numbers = [flat.numel(), float(flat.norm()), float(flat.mean()), float(flat.abs().max())]
    found = flat[::step]
    return (found if tensor.dtype == torch.float64 else found.float()).numpy(), numbers


def run(out: Path, setting: dict[str, Any]) -> None:
    torch.set_num_threads(setting.get("threads", 1))
    out.mkdir(parents=True, exist_ok=True)
    stack = contextlib.ExitStack()
    if setting.get("mkldnn") is False:
        torch._C._set_mkldnn_enabled(False)
    if setting.get("attention"):
        stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
    failed = []
    seen = set()
    with stack:
        for number, sample in enumerate(samples()):
            is_first = sample.operator not in seen
            seen.add(sample.operator)
            if not is_wanted(sample, is_first, setting):
                continue
            for name, dtype in DTYPES.items():
                if setting.get("compiled") and name == "float16":
                    continue
                try:
                    one(out / f"{number:03}-{name}.npz", sample, dtype, setting)
                except Exception as error:
                    failed.append(f"{sample.name} {name}: {type(error).__name__}: {str(error)[:200]}")
    (out / "done.json").write_text(json.dumps({"torch": torch.__version__, "failed": failed}, indent=1))


def is_wanted(sample: Sample, is_first: bool, setting: dict[str, Any]) -> bool:
    if setting.get("only") and sample.operator not in setting["only"]:
        return False
    if setting.get("channels_last"):
        return sample.has_images
    if setting.get("attention"):
        return sample.gain == "attention"
    if setting.get("compiled"):  # it takes seconds, and what it hands to the libraries is the same kernel
        return is_first and sample.gain not in ("product", "recurrent")
    return True


def one(path: Path, sample: Sample, dtype: torch.dtype, setting: dict[str, Any]) -> None:
    if path.exists():
        return
    tensors = tensors_of(sample, dtype, setting)
    call = sample.call
    if setting.get("compiled"):
        torch._dynamo.reset()
        call = torch.compile(call, dynamic=False)
    results = computed(call, sample, tensors, dtype)
    arrays = {}
    for place, tensor in enumerate(results):
        arrays[f"elements{place}"], arrays[f"numbers{place}"] = kept(tensor)
    if setting.get("exact"):
        arrays["conditions"] = conditions(sample, tensors, dtype, results)
        arrays["inputs"] = [tensor.numel() for tensor in tensors if tensor.is_floating_point()]
    numpy.savez(path, **arrays)


if __name__ == "__main__":
    run(Path(sys.argv[1]), json.loads(sys.argv[2]))
