# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of devices are measured by a kernel, or by operators of torch; here the processor stands in for a
device. How often they are read, and by how many launches.
"""

from __future__ import annotations

import math
from typing import Any

import msprobe
import pytest
import torch
from msprobe import UnsupportedError, _torch
from processor_as_device import Way, as_device
from torch.utils._python_dispatch import TorchDispatchMode

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


# Operators that only make another view of the same memory, or ask for nothing.
VIEWS = {
    "view",
    "_unsafe_view",
    "detach",
    "alias",
    "select",
    "slice",
    "split",
    "squeeze",
    "unsqueeze",
    "expand",
}


class Launches(TorchDispatchMode):
    """Counts the operators that would launch something on a device, and the largest tensor that they make."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            self.names.append(name)
            for one in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(one, torch.Tensor):
                    self.largest = max(self.largest, one.nbytes)
        return result


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_without_a_kernel_a_tensor_takes_at_most_eight_launches(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4096 * 1024).to(dtype)
    with as_device("operators"), Launches() as launches:
        _torch.summarize(x[0, :1000])
    to_host = launches.names[launches.names.index("cat") + 1 :]
    assert len(launches.names) - len(to_host) <= 8, launches.names
    with as_device("operators"), Launches() as launches:
        _torch.summarize(x, powers=True, small=0.1)
    assert launches.largest <= 1 << 23  # pieces of a million elements, and no copy of the whole


@pytest.mark.parametrize(
    "dtype", [*FLOATS, torch.float8_e4m3fn, torch.int64, torch.int8, torch.bool], ids=str
)
@pytest.mark.parametrize("way", ["kernel", "operators"])
def test_large_and_strided_tensors_are_what_they_are_in_memory(dtype: torch.dtype, way: Way) -> None:
    g = torch.Generator().manual_seed(3)
    x = (torch.randn(1700, 1301, generator=g, dtype=torch.float64) * 4).to(dtype)
    views = [x, x.t(), x[::3, 5:], x[:, :1].expand(1700, 40)]
    if dtype is torch.float8_e4m3fn:
        views = views[:3]
    for view in views:
        native = _torch.summarize(view)
        with as_device(way):
            there = _torch.summarize(view)
        for key in ("min", "max", "norm", "zero_count"):
            assert there[key] == pytest.approx(native[key], rel=1e-6), key
        norm = native["norm"]
        assert isinstance(norm, float)
        assert there["mean"] == pytest.approx(
            native["mean"], abs=1e-6 * norm / math.sqrt(view.numel()) + 1e-9
        )


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.complex64, torch.float8_e5m2], ids=str)
def test_sketch_and_digest_of_the_kernel_are_those_of_the_processor(dtype: torch.dtype) -> None:
    x = torch.randn(40, 33, 65).mul(3).to(dtype)
    for view in (x, x.transpose(0, 1), x[1:, ::2], x[..., 1:]):
        native = _torch.summarize(view, sketch=True)["sketch"]
        with as_device("kernel"):
            there = _torch.summarize(view, sketch=True)["sketch"]
        assert isinstance(native, dict)
        assert isinstance(there, dict)
        assert there["digest"] == native["digest"]
        assert there["sums"] == pytest.approx(native["sums"], abs=2e-6 * native["norm"])


@pytest.mark.parametrize("way", ["kernel", "operators"])
def test_checksums_and_signs_of_a_device_are_those_of_memory(way: Way) -> None:
    """What has gaps goes to the host in pieces, whose ends are no ends of bytes."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(3, 701, 1501, generator=g)
    for view in (x, x.transpose(1, 2), x[..., 1:], x[:, 1, 1], x[1, :5, 0], x.half().permute(2, 1, 0)):
        native = _torch.summarize(view, checksum="native", signs=True)
        with as_device(way):
            there = _torch.summarize(view, checksum="native", signs=True)
        assert there["crc32"] == native["crc32"]
        assert there["signs"] == native["signs"]


def test_the_monitor_measures_all_parameters_by_a_handful_of_launches(tmp_path: Any) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(5, 5) for _ in range(40)))
    optimizer = torch.optim.AdamW(model.parameters())
    launches = []
    with as_device("kernel"):
        monitor = msprobe.monitor(model, optimizer, tmp_path / "out")
        for _ in range(3):
            before, tensors, _ = _torch.kernel_work("cpu")
            model(torch.ones(2, 5)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            after, measured, _ = _torch.kernel_work("cpu")
            launches.append((after - before, measured - tensors))
        monitor.close()
    # Gradients, weights and two moments of 80 parameters, and the loss.
    assert launches[1:] == [(5, 321)] * 2


def test_shards_have_no_place_on_a_device() -> None:
    with as_device("kernel"), pytest.raises(UnsupportedError, match="shards"):
        _torch.summarize(torch.ones(4), sketch=True, shard=([8], [4]))
