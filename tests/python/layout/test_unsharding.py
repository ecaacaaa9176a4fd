# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of files, put together of the parts of ranks, against those of another layout."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from msprobe.layout.unsharding import scaled, wholes_of
from msprobe.native import Error

Parts = list[torch.Tensor]


@pytest.fixture
def whole() -> torch.Tensor:
    return torch.randn(8, 6, 12, generator=torch.Generator().manual_seed(0))


def files(folder: Path, parts: Parts) -> list[Path]:
    folder.mkdir()
    for number, part in enumerate(parts):
        torch.save(part.contiguous().clone(), folder / f"{number}.pt")
    return [folder / f"{number}.pt" for number in range(len(parts))]


def put_together(tmp_path: Path, ours: Parts, theirs: Parts) -> tuple[torch.Tensor, torch.Tensor] | None:
    found = wholes_of(files(tmp_path / "a", ours), files(tmp_path / "b", theirs))
    return None if found is None else (torch.tensor(found[0]), torch.tensor(found[1]))


def grid(whole: torch.Tensor) -> Parts:
    """Rows over pairs of ranks, columns inside of a pair."""
    return [part for rows in whole.chunk(2) for part in rows.chunk(2, 2)]


LAYOUTS = {
    "rows": lambda whole: list(whole.chunk(4)),
    "a sequence": lambda whole: list(whole.chunk(3, 1)),
    "columns": lambda whole: list(whole.chunk(2, 2)),
    "rows and columns": grid,
    "uneven": lambda whole: list(whole.split([3, 5])),
    "all in a row": lambda whole: list(whole.flatten().split([100, 476])),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shards_are_the_whole(tmp_path: Path, whole: torch.Tensor, layout: str) -> None:
    found = put_together(tmp_path, [whole], LAYOUTS[layout](whole))
    assert found is not None
    assert torch.equal(found[1], whole)


def test_both_runs_may_have_shards(tmp_path: Path, whole: torch.Tensor) -> None:
    found = put_together(tmp_path, list(whole.chunk(2)), list(whole.chunk(2, 2)))
    assert found is not None
    assert torch.equal(found[0], whole)
    assert torch.equal(found[1], whole)


def test_bits_of_every_dtype_stay(tmp_path: Path, whole: torch.Tensor) -> None:
    whole = whole.bfloat16()
    found = wholes_of(files(tmp_path / "a", [whole]), files(tmp_path / "b", list(whole.chunk(2))))
    assert found is not None
    assert found[2] == "bfloat16"
    assert np.array_equal(found[1], whole.view(torch.uint16).numpy())


def test_a_part_that_is_off_is_put_where_it_belongs(tmp_path: Path, whole: torch.Tensor) -> None:
    first, second = whole.chunk(2)
    found = put_together(tmp_path, [whole], [first, second * 1.5])
    assert found is not None
    assert torch.equal(found[1], torch.cat([first, second * 1.5]))


def test_elements_that_changed_places_are_seen_though_sums_are_not(
    tmp_path: Path, whole: torch.Tensor
) -> None:
    first, second = whole.chunk(2)
    found = put_together(tmp_path, [whole], [first, second.flip(2)])
    assert found is not None
    assert torch.equal(found[1], torch.cat([first, second.flip(2)]))


def test_parts_in_another_order_are_no_whole(tmp_path: Path, whole: torch.Tensor) -> None:
    """As the sequence of context parallelism in a zigzag."""
    a, b, c, d = whole.split([2, 1, 1, 2], 1)
    assert put_together(tmp_path, [whole], [torch.cat([a, d], 1), torch.cat([b, c], 1)]) is None


def test_what_does_not_cover_it_is_no_whole(tmp_path: Path, whole: torch.Tensor) -> None:
    assert put_together(tmp_path, [whole], [whole, whole]) is None


def test_two_dtypes_are_no_whole(tmp_path: Path, whole: torch.Tensor) -> None:
    assert put_together(tmp_path, [whole], [part.double() for part in whole.chunk(2)]) is None


def test_a_damaged_file_is_an_error(tmp_path: Path, whole: torch.Tensor) -> None:
    paths = files(tmp_path / "a", [whole])
    paths[0].write_bytes(paths[0].read_bytes()[:100])
    with pytest.raises(Error, match=r"0\.pt"):
        wholes_of(paths, paths)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_scale_keeps_the_dtype(tmp_path: Path, whole: torch.Tensor, dtype: torch.dtype) -> None:
    (path,) = files(tmp_path / "a", [whole.to(dtype)])
    found = wholes_of([path], [path])
    assert found is not None
    product = scaled(found[0], found[2], 0.3)
    bits = torch.tensor(product)
    value = bits.view(torch.bfloat16) if dtype is torch.bfloat16 else bits
    torch.testing.assert_close(value, whole.to(dtype) * 0.3)


@pytest.mark.parametrize(("dim", "dtype"), [(0, torch.float32), (1, torch.bfloat16)])
def test_memory_is_that_of_one_whole(tmp_path: Path, dim: int, dtype: torch.dtype) -> None:
    """The whole of the other run is its file, and numbers are made of bits some at a time."""
    tensor = torch.randn(2048, 1024).to(dtype)
    paths = [files(tmp_path / "a", [tensor]), files(tmp_path / "b", list(tensor.chunk(2, dim)))]
    tracemalloc.start()
    found = wholes_of(*paths)
    assert found is not None
    scaled(found[1], found[2], 0.3)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    blocks = 4 << 20  # of 65,536 numbers each
    assert most < tensor.numel() * tensor.element_size() + blocks
