# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training process for grad_probe.py. Runs with either tool: both have the same PrecisionDebugger."""

from __future__ import annotations

import ctypes
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from measure import memory_mib, reset_peak, serve


def decoder_shapes() -> list[tuple[str, tuple[int, ...]]]:
    """100 M parameters in the proportions of a small decoder: 12 blocks of width 768."""
    width, inner, words = 768, 2048, 10000
    block = [
        ("norm1.weight", (width,)),
        *((f"attention.{part}.weight", (width, width)) for part in ("query", "key", "value", "out")),
        ("norm2.weight", (width,)),
        ("mlp.gate.weight", (inner, width)),
        ("mlp.up.weight", (inner, width)),
        ("mlp.down.weight", (width, inner)),
    ]
    shapes: list[tuple[str, tuple[int, ...]]] = [("embedding.weight", (words, width))]
    for i in range(12):
        shapes += [(f"blocks.{i}.{name}", shape) for name, shape in block]
    return [*shapes, ("norm.weight", (width,)), ("head.weight", (words, width))]


def small_shapes() -> list[tuple[str, tuple[int, ...]]]:
    """What results are compared on: vectors, matrices, a scalar, odd sizes."""
    return [
        ("scalar", ()),
        ("one", (1,)),
        ("seven", (7,)),
        ("odd", (37, 113)),
        ("cube", (5, 6, 7)),
        ("transposed", (48, 33)),
        ("long", (100003,)),
        ("square", (512, 512)),
        ("zeros", (129,)),
        ("special", (64, 64)),
    ]


class Model(torch.nn.Module):
    """Parameters and their gradients. The parameters hold nothing: the probe looks at gradients only."""

    def __init__(self, shapes: list[tuple[str, tuple[int, ...]]], dtype: torch.dtype) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(1)
        for name, shape in shapes:
            module: torch.nn.Module = self
            *path, last = name.split(".")
            for part in path:
                if part not in module._modules:
                    module.add_module(part, torch.nn.Module())
                module = module._modules[part]  # type: ignore[assignment]
            parameter = torch.nn.Parameter(torch.empty(shape, dtype=dtype))
            module.register_parameter(last, parameter)
            parameter.grad = self._gradient(name, shape, random).to(dtype)

    @staticmethod
    def _gradient(name: str, shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
        if name == "transposed":
            return (torch.randn(shape[::-1], generator=random) * 0.01).t()
        gradient = torch.randn(shape, generator=random) * 0.01
        if name == "zeros":
            gradient.zero_()
        elif name == "special":
            gradient[3, 5], gradient[7, 1], gradient[0] = float("nan"), float("inf"), 0.0
        return gradient


class Idle(torch.optim.Optimizer):
    """Does nothing, so that the time of step() is the time of the hooks on it."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        return None


def _give_back_free_memory() -> None:
    """What making the gradients has left in the allocator would hide what the probe takes."""
    ctypes.CDLL(None).malloc_trim(0)


class Training:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._dump = Path(settings["dump"])
        torch.set_num_threads(settings["threads"])
        shapes = decoder_shapes() if settings["size"] == "100m" else small_shapes()
        model = Model(shapes, getattr(torch, settings["dtype"]))
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        self._gradients = [g if g.is_contiguous() else g.t() for g in gradients]
        self._optimizer = Idle(model.parameters())
        _give_back_free_memory()
        self._before_mib = memory_mib("VmRSS")
        config = self._dump.with_suffix(".json")
        probe = {"grad_level": settings["level"], "param_list": [], "bounds": settings["bounds"]}
        task = {
            "task": "grad_probe",
            "dump_path": str(self._dump),
            "rank": [],
            "step": [],
            "grad_probe": probe,
        }
        config.write_text(json.dumps(task))
        from msprobe.pytorch import PrecisionDebugger

        self._debugger = PrecisionDebugger(str(config))
        self._debugger.monitor(model)
        self._model = model
        reset_peak()

    def steps(self, count: int) -> list[float]:
        """Seconds that training waits for the probe, of `count` steps in a row."""
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            self._optimizer.step()
            seconds.append(time.perf_counter() - start)
        return seconds

    def finish_writing(self) -> bool:
        """Waits for what is written behind the training thread; mindstudio-probe writes in the step."""
        self._debugger.stop()
        return True

    def clean(self) -> bool:
        for entry in self._dump.glob("rank*/*"):
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        return True

    def exact_norms(self) -> dict[str, float]:
        """The norm of each gradient, computed in double."""
        named = self._model.named_parameters()
        return {name: float(p.grad.double().norm()) for name, p in named if p.grad is not None}

    def plain_read(self, count: int) -> list[float]:
        """Seconds that a plain read of all gradients takes."""
        read, data, sizes = self._plain_read()
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            read(data, sizes, len(self._gradients), self._settings["threads"])
            seconds.append(time.perf_counter() - start)
        return seconds

    def plain_read_is_right(self) -> bool:
        """Whether the plain read has read everything: its sum is the one that torch finds."""
        read, data, sizes = self._plain_read()
        found = read(data, sizes, len(self._gradients), self._settings["threads"])
        wanted = 0
        for gradient in self._gradients:
            bytes_ = gradient.reshape(-1).view(torch.uint8)
            words = bytes_[: bytes_.numel() // 8 * 8].clone().view(torch.int64)
            wanted += int(words.sum())  # wraps around, as the plain read does
        return bool(found == wanted % 2**64)

    def _plain_read(self) -> tuple[Any, Any, Any]:
        read = ctypes.CDLL(self._settings["plain_read"]).plain_read_all
        read.restype = ctypes.c_uint64
        read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        count = len(self._gradients)
        data = (ctypes.c_void_p * count)(*(g.data_ptr() for g in self._gradients))
        sizes = (ctypes.c_size_t * count)(*(g.numel() * g.element_size() for g in self._gradients))
        return read, data, sizes

    def gradient_bytes(self) -> int:
        return sum(g.numel() * g.element_size() for g in self._gradients)

    def peak_mib(self) -> float:
        """Most memory since the start, above the model and its gradients."""
        return memory_mib("VmHWM") - self._before_mib


def main() -> None:
    training = Training(json.loads(sys.argv[1]))
    names = (
        "steps",
        "finish_writing",
        "clean",
        "exact_norms",
        "plain_read",
        "plain_read_is_right",
        "gradient_bytes",
        "peak_mib",
    )
    serve(int(sys.argv[2]), int(sys.argv[3]), {name: getattr(training, name) for name in names})


if __name__ == "__main__":
    main()
