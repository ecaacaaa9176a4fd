# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What decides the numbers of a torch program beside its tensors: random generators and switches.

Everything is read, nothing is set, imported or initialised.
"""

from __future__ import annotations

import array
import functools
import os
import random
import sys
import types
import zlib
from typing import TYPE_CHECKING, Any

from msprobe.native import torch_adapter

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_TEXT = 200
_LONGEST_LIST = 32
OMITTED: Any = object()  # plain() has no short form for a value
_ACCELERATORS = ("cuda", "npu", "xpu")


# ---- random generators


def random_states() -> dict[str, Callable[[], str]]:
    """For each random generator in use, what computes the CRC-32 of its state."""
    import torch

    states: dict[str, Callable[[], str]] = {
        "python": lambda: _checksum(_python_state()),
        "torch.cpu": lambda: _state_of(torch.get_rng_state()),
    }
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        states["numpy"] = lambda: _checksum(_state_bytes(numpy_random.get_state()))
    for name in _ACCELERATORS:
        device = getattr(torch, name, None)
        if device is None or not device.is_initialized():
            continue
        for index in range(device.device_count()):
            states[f"torch.{name}:{index}"] = functools.partial(_device_state, device, index)
    return states


def _python_state() -> bytes:
    version, words, gauss = random.getstate()
    return array.array("Q", words).tobytes() + repr((version, gauss)).encode()


def _device_state(device: Any, index: int) -> str:
    return _state_of(device.get_rng_state(index))


def _state_of(state: Any) -> str:
    return f"{torch_adapter().summarize(state, checksum='native')['crc32']:08x}"


def _state_bytes(state: Any) -> bytes:
    """Numpy's state, a tuple or a dict; the text of an array would depend on numpy's print options."""
    if isinstance(state, dict):
        return b"".join(key.encode() + _state_bytes(value) for key, value in state.items())
    if isinstance(state, tuple):
        return b"".join(map(_state_bytes, state))
    return bytes(state.tobytes()) if hasattr(state, "tobytes") else repr(state).encode()


def _checksum(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"


# ---- switches of torch

# What torch can be asked: attributes, and functions without arguments. Not every release has each of them.
_SWITCHES = (
    "are_deterministic_algorithms_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "utils.deterministic.fill_uninitialized_memory",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_threads",
    "get_num_interop_threads",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_anomaly_enabled",
    "is_autocast_cache_enabled",
    "backends.fp32_precision",
    "backends.cudnn.enabled",
    "backends.cudnn.benchmark",
    "backends.cudnn.benchmark_limit",
    "backends.cudnn.deterministic",
    "backends.cudnn.allow_tf32",
    "backends.cudnn.fp32_precision",
    "backends.cudnn.conv.fp32_precision",
    "backends.cudnn.rnn.fp32_precision",
    "backends.cuda.matmul.allow_tf32",
    "backends.cuda.matmul.fp32_precision",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_fp16_accumulation",
    "backends.cuda.flash_sdp_enabled",
    "backends.cuda.mem_efficient_sdp_enabled",
    "backends.cuda.math_sdp_enabled",
    "backends.cuda.cudnn_sdp_enabled",
    "backends.cuda.fp16_bf16_reduction_math_sdp_allowed",
    "backends.mkldnn.enabled",
    "backends.mkldnn.deterministic",
    "backends.mkldnn.matmul.fp32_precision",
    "backends.mkldnn.conv.fp32_precision",
    "backends.mkldnn.rnn.fp32_precision",
    "npu.matmul.allow_hf32",
    "npu.conv.allow_hf32",
)
_ENVIRONMENT = (
    "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "NCCL_ALGO", "NCCL_PROTO", "HCCL_DETERMINISTIC",
    "LCCL_DETERMINISTIC", "ATB_MATMUL_SHUFFLE_K_ENABLE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR",
    "ATEN_CPU_CAPABILITY", "PYTHONHASHSEED",
)  # fmt: skip


def switches() -> dict[str, Any]:
    """What makes torch compute the same thing in another way, as it is on this thread now."""
    import torch

    found = {name: _ask(name) for name in _SWITCHES}
    for device in ("cpu", *(name for name in _ACCELERATORS if hasattr(torch, name))):
        found[f"autocast.{device}"] = _autocast(device)
    found["environment"] = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {name: value for name, value in found.items() if value is not OMITTED}


def _ask(name: str) -> Any:
    # torch refuses to read a switch of its old interface after one of the new interface was set, for example.
    try:
        path, _, last = name.rpartition(".")
        value = getattr(_part_of_torch(path), last, OMITTED)
        return plain(value() if callable(value) else value)
    except RuntimeError:
        return "unreadable"


@functools.cache
def _part_of_torch(path: str) -> Any:
    """A module or object of torch that does not change; None: there is none."""
    import torch

    part: Any = torch
    for name in path.split(".") if path else ():
        part = getattr(part, name, None)
    return part


def _autocast(device: str) -> Any:
    """The type that autocast computes in, False where it is off."""
    import torch

    try:
        return torch.is_autocast_enabled(device) and str(torch.get_autocast_dtype(device))
    except (AttributeError, TypeError, RuntimeError):  # torch before 2.4, or a device it was not built for
        return OMITTED


# ---- values


def plain(value: object) -> Any:
    """A setting as JSON has it: numbers, texts, types, names of functions, short lists of them; or OMITTED.

    Of a subclass of a number or text the value of its base is taken.
    """
    import torch

    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):  # a place on one machine is no setting
        return OMITTED if os.path.isabs(value) else str.__str__(value)[:_LONGEST_TEXT]
    if isinstance(value, (torch.dtype, torch.device, complex)):
        return str(value)
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, (tuple, list)) and len(value) <= _LONGEST_LIST:
        items = [plain(item) for item in value]
        return OMITTED if any(item is OMITTED for item in items) else items
    return OMITTED


# ---- tensors


def memory_of(tensor: Any) -> tuple[Any, str]:
    """What can be measured of a tensor, and which part of it that is."""
    import torch

    # By what a DTensor has, not by its class: that moved between the modules of several torch releases.
    if hasattr(tensor, "placements") and hasattr(tensor, "to_local"):
        with torch.no_grad():
            return tensor.to_local(), f"local shard of {list(tensor.placements)}"
    if tensor.layout is torch.sparse_coo:
        return tensor._values(), "values of a sparse tensor"
    return tensor, ""
