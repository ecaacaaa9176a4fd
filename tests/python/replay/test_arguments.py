# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of a recorded call are made again: from files, from statistics, and not of what a file may not
ask.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe import FormatError, UnsupportedError, _core, _torch
from msprobe.replay.arguments import ArgumentBuilder, saved_tensor, tensor_like
from recorded_calls import INF, NAN, tensor, value

BUILD = ArgumentBuilder(folder=None, device="cpu").build


def test_elements_are_made_again() -> None:
    assert BUILD([value(1), value(True), None, value("x"), [value(2.5)]]) == [1, True, None, "x", [2.5]]
    assert BUILD({"type": "slice", "value": [1, None, 2]}) == slice(1, None, 2)
    assert BUILD({"type": "ellipsis", "value": "..."}) is ...
    assert BUILD({"type": "torch.Size", "value": [2, 3]}) == torch.Size([2, 3])
    assert BUILD({"type": "torch.dtype", "value": "torch.float16"}) is torch.float16
    assert BUILD({"type": "torch.memory_format", "format": "channels_last"}) is torch.channels_last
    assert BUILD({"type": "torch.device", "value": "npu:3"}) == torch.device("cpu")
    for kind in ("torch.dtype", "torch.memory_format"):
        with pytest.raises(FormatError):
            BUILD({"type": kind, "value": "torch.load", "format": "load"})
    with pytest.raises(UnsupportedError):
        BUILD({"type": "torch.ProcessGroup", "group_ranks": [0]})


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [[], [1], [0, 3], [4, 5]])
def test_tensors_from_statistics_have_their_range(dtype: str, shape: list[int]) -> None:
    low, high = (False, True) if dtype == "bool" else (3, 100)
    made = tensor_like(tensor(high, low, dtype=f"torch.{dtype}", shape=shape))
    assert made.dtype is getattr(torch, dtype)
    assert list(made.shape) == shape
    if made.numel() > 1 and dtype != "bool":
        assert (made.flatten()[0].item(), made.flatten()[-1].item()) == (low, high)
    assert all(low <= number <= high for number in made.flatten().tolist())
    assert torch.equal(made, tensor_like(tensor(high, low, dtype=f"torch.{dtype}", shape=shape)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_tensors_from_bad_statistics_are_bad(dtype: str) -> None:
    made = tensor_like(tensor(INF, -INF, dtype=f"torch.{dtype}", shape=[9])).double()
    assert (made[0].item(), made[-1].item()) == (-INF, INF)
    assert torch.isfinite(made[1:-1]).all()
    assert tensor_like(tensor(NAN, NAN, dtype=f"torch.{dtype}")).double().isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int8])
def test_saved_tensors_are_read_as_they_are(dtype: torch.dtype, tmp_path: Path) -> None:
    saved = torch.randint(0, 2, (3, 4)).to(dtype)
    for tensor_, name in ((saved, "a.pt"), (saved.t(), "b.pt"), (saved[:0], "c.pt"), (saved[0, 0], "d.pt")):
        torch.save(tensor_, tmp_path / name)
        assert torch.equal(saved_tensor(str(tmp_path), {"data_name": name}), tensor_)


# ---- tensors with the statistics of a record


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "make",
    [
        lambda g: torch.randn(5000, generator=g),
        lambda g: torch.rand(5000, generator=g),
        lambda g: torch.randn(5000, generator=g).exp(),  # a long tail
        lambda g: torch.relu(torch.randn(5000, generator=g)),  # half of it zero
        lambda g: (torch.rand(5000, generator=g) > 0.9).float(),  # two values
        lambda g: 100 + 0.01 * torch.randn(5000, generator=g),  # far from zero
        lambda g: torch.randn(12, generator=g),
        lambda g: torch.randn(3, generator=g),
        lambda g: -torch.rand(400, generator=g) * 1e-4,
    ],
)
def test_drawn_tensors_have_the_recorded_statistics(make: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    original = make(torch.Generator().manual_seed(1)).to(kind).double()
    record = tensor(
        original.max().item(),
        original.min().item(),
        dtype=f"torch.{dtype}",
        shape=list(original.shape),
        Mean=original.mean().item(),
        Norm=original.norm().item(),
    )
    made = tensor_like(record, "statistics", 7)
    wide = made.double()
    assert made.dtype is kind
    assert (wide.max(), wide.min()) == (original.max(), original.min())
    span = (original.max() - original.min()).item()
    step = torch.finfo(kind).eps * original.abs().max().item()  # the dtype rounds what is drawn
    assert wide.mean().item() == pytest.approx(original.mean().item(), abs=1e-5 * span + step)
    assert wide.norm().item() == pytest.approx(original.norm().item(), rel=2e-3, abs=step * len(original))
    assert torch.equal(made, tensor_like(record, "statistics", 7))
    if len(original) > 3 and original.unique().numel() > 100:
        assert not torch.equal(made, tensor_like(record, "statistics", 8))


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_drawn_integers_are_in_range(dtype: str) -> None:
    high, low = (True, False) if dtype == "bool" else (9.0, 0.0)
    made = tensor_like(
        tensor(high, low, dtype=f"torch.{dtype}", shape=[100], Mean=3.0, Norm=40.0), "statistics"
    )
    assert made.dtype is getattr(torch, dtype)
    assert 0 <= made.long().min() <= made.long().max() <= 9
    assert made.unique().numel() > 1


def test_drawn_complex_numbers_have_the_recorded_absolute_values() -> None:
    made = tensor_like(
        tensor(2.0, 1.0, dtype="torch.complex64", shape=[50], Mean=1.5, Norm=None), "statistics"
    )
    assert made.dtype is torch.complex64
    assert made.abs().min() == pytest.approx(1.0, rel=1e-6)
    assert made.abs().max() == pytest.approx(2.0, rel=1e-6)
    assert made.imag.abs().max() > 0


def test_statistics_that_no_numbers_have_are_met_as_closely_as_possible() -> None:
    """Of another tool, or of a hostile file."""
    for mean, norm in ((50.0, 0.0), (-50.0, 1e30), (0.5, 0.0), (NAN, 1.0), (INF, INF), (1e308, 1e308)):
        made = tensor_like(tensor(1.0, 0.0, shape=[64], Mean=mean, Norm=norm), "statistics")
        assert torch.isfinite(made).all()
        assert made.min() == 0
        assert made.max() == 1


def test_two_tensors_of_one_call_are_not_the_same() -> None:
    builder = ArgumentBuilder(folder=None, device="cpu", seed="Torch.mul.0")
    left, right = builder.build([tensor(shape=[50]), tensor(shape=[50])])
    assert not torch.equal(left, right)
    again = ArgumentBuilder(folder=None, device="cpu", seed="Torch.mul.0").build([tensor(shape=[50])])
    assert torch.equal(left, again[0])


def test_bounds_out_of_order_are_an_error() -> None:
    with pytest.raises(FormatError, match="in order"):
        tensor_like(tensor(-1.0, 1.0))
    with pytest.raises(_core.InvalidArgument):
        _torch.draw([4], min=0.0, max=math.inf)


# ---- saved tensors


def test_strides_are_those_of_the_file(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    for name, saved in (("a.pt", base.t()), ("b.pt", base[:, ::2]), ("c.pt", torch.ones(1).expand(5, 7))):
        torch.save(saved, tmp_path / name)
        read = saved_tensor(str(tmp_path), {"data_name": name})
        assert torch.equal(read, saved)
        assert read.stride() == saved.stride()


def test_numpy_files_are_read(tmp_path: Path) -> None:
    import numpy as np

    for name, array in (
        ("a.npy", np.arange(6, dtype=np.float32).reshape(2, 3)),
        ("b.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3))),
        ("c.npy", np.array(3, dtype=np.int64)),
        ("d.npy", np.zeros((0, 2), dtype=np.float16)),
    ):
        np.save(tmp_path / name, array)
        read = saved_tensor(str(tmp_path), {"data_name": name})
        assert read.tolist() == array.tolist()
        assert str(read.dtype) == f"torch.{array.dtype}"


def test_a_tensor_of_another_dtype_than_its_record_is_converted(tmp_path: Path) -> None:
    """mindstudio-probe saves 8-bit floats as float32."""
    torch.save(torch.tensor([1.0, 2.0]), tmp_path / "a.pt")
    read = saved_tensor(str(tmp_path), {"data_name": "a.pt", "dtype": "torch.float8_e4m3fn"})
    assert read.dtype is torch.float8_e4m3fn
    assert read.float().tolist() == [1.0, 2.0]


def test_damaged_and_huge_files_are_errors(tmp_path: Path) -> None:
    torch.save(torch.arange(1000.0), tmp_path / "good.pt")
    whole = (tmp_path / "good.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    middle = whole.index(torch.arange(1000.0).numpy().tobytes()[:64]) + 500
    (tmp_path / "changed.pt").write_bytes(whole[:middle] + b"\xff" + whole[middle + 1 :])
    (tmp_path / "text.pt").write_text("no tensor")
    (tmp_path / "short.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "other.txt").write_text("x")
    torch.save(torch.ones(1).expand(1 << 20, 1 << 20), tmp_path / "expanded.pt")
    names = ("cut.pt", "changed.pt", "text.pt", "short.npy", "missing.pt", "other.txt", "expanded.pt")
    for name in names:
        with pytest.raises((FormatError, UnsupportedError, OSError), match=name.replace(".", r"\.")):
            saved_tensor(str(tmp_path), {"data_name": name})
