# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What surrounds a step and is no tensor of it: random generators, switches of torch, settings of modules.

Everything is read, nothing is set, imported or initialised.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import zlib
from typing import TYPE_CHECKING, Any

from msprobe.dump.measurement import OMITTED, plain
from msprobe.native import torch_adapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from msprobe.dump.diagnosis_report import DiagnosisReport

_ACCELERATORS = ("cuda", "npu", "xpu")


# ---- random generators


def random_states() -> dict[str, Callable[[], str]]:
    """For each random generator in use, what computes the CRC-32 of its state."""
    import torch

    states: dict[str, Callable[[], str]] = {
        "python": lambda: _checksum(repr(random.getstate()).encode()),
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
)
_ENVIRONMENT = (
    "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "NCCL_ALGO", "NCCL_PROTO", "HCCL_DETERMINISTIC",
    "LCCL_DETERMINISTIC", "ATB_MATMUL_SHUFFLE_K_ENABLE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR",
    "ATEN_CPU_CAPABILITY", "PYTHONHASHSEED",
)  # fmt: skip


def switches() -> dict[str, Any]:
    """What makes torch compute the same thing in another way, as it is on this thread now."""
    import torch

    found = {name: _ask(torch, name) for name in _SWITCHES}
    for device in ("cpu", *(name for name in _ACCELERATORS if hasattr(torch, name))):
        found[f"autocast.{device}"] = _autocast(device)
    found["environment"] = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {name: value for name, value in found.items() if value is not OMITTED}


def _ask(owner: Any, name: str) -> Any:
    # torch refuses to read a switch of its old interface after one of the new interface was set, for example.
    try:
        for part in name.split("."):
            owner = getattr(owner, part, OMITTED)
            if owner is OMITTED:
                return OMITTED
        return plain(owner() if callable(owner) else owner)
    except RuntimeError:
        return "unreadable"


def _autocast(device: str) -> Any:
    """The type that autocast computes in, False where it is off."""
    import torch

    try:
        return torch.is_autocast_enabled(device) and str(torch.get_autocast_dtype(device))
    except (AttributeError, TypeError, RuntimeError):  # torch before 2.4, or a device it was not built for
        return OMITTED


# ---- settings of modules


def settings(path: str, module: nn.Module, report: DiagnosisReport) -> dict[str, Any]:
    """Mode and settings of a module: what its attributes hold. Properties are not asked, they run code."""
    attributes = object.__getattribute__(module, "__dict__")
    found = {}
    for name, value in attributes.items():
        if name.startswith("_") or name == "training":
            continue
        with report.noting(f"module {path!r}, attribute {name!r}"):
            short = plain(value)
            if short is not OMITTED:
                found[name] = short
    return {
        "class": f"{type(module).__module__}.{type(module).__qualname__}",
        "training": plain(attributes.get("training")),
        "settings": found,
        # A layer without bias has the name `bias` with None.
        "parameters": {
            name: parameter is not None for name, parameter in attributes.get("_parameters", {}).items()
        },
    }
