# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that are read in several pieces: all elements count, and so does the checksum."""

from __future__ import annotations

import csv
import math
import random
from array import array
from pathlib import Path

import pytest
from compare_support import tensor, write_dump
from msprobe.native import core

PIECE = 65536  # elements
NAME = "Torch.add.0.forward.output.0.pt"


def compared(folder: Path, counts: int, ours: array[float], theirs: array[float]) -> dict[str, str]:
    for side, values in (("target", ours), ("golden", theirs)):
        item = tensor(1.0, shape=[counts], data_name=NAME)
        write_dump(
            folder / side, {"Torch.add.0.forward": {"input_args": [], "output": [item]}}, task="tensor"
        )
        (folder / side / "dump_tensor_data").mkdir(exist_ok=True)
        core.write_pt(folder / side / "dump_tensor_data" / NAME, values)
    return row(folder)


def row(folder: Path) -> dict[str, str]:
    pair = core.open_dump_pair(folder / "target/dump.json", folder / "golden/dump.json")
    pair.measure(threads=2)
    pair.write_table(folder / "table.csv")
    with (folder / "table.csv").open(encoding="utf-8-sig", newline="") as file:
        return next(csv.DictReader(file))


@pytest.mark.parametrize("count", [PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 777])
@pytest.mark.parametrize("kind", ["f", "d"])
def test_elements_of_all_pieces_count(tmp_path: Path, kind: str, count: int) -> None:
    source = random.Random(count)
    theirs = array(kind, [source.gauss(0, 1) for _ in range(count)])
    ours = array(kind, theirs)
    ours[0] += 2
    ours[count - 1] += 3  # the last element of the last piece is the farthest off
    found = compared(tmp_path, count, ours, theirs)
    apart = math.hypot(ours[0] - theirs[0], ours[-1] - theirs[-1])
    dot = math.fsum(a * b for a, b in zip(ours, theirs))
    norms = math.sqrt(math.fsum(a * a for a in ours) * math.fsum(b * b for b in theirs))
    assert float(found["EucDist"]) == pytest.approx(apart, rel=1e-9)
    assert float(found["MaxAbsErr"]) == pytest.approx(ours[-1] - theirs[-1], rel=1e-6)
    assert float(found["Cosine"]) == pytest.approx(dot / norms, abs=1e-6)
    assert float(found["One Thousandth Err Ratio"]) == pytest.approx((count - 2) / count, abs=1e-12)
    assert found["Accuracy Reached or Not"] == "No"


@pytest.mark.parametrize("side", ["target", "golden"])
@pytest.mark.parametrize("place", [0.02, 0.5, 0.98])
def test_a_changed_bit_in_any_piece_is_a_damaged_file(tmp_path: Path, side: str, place: float) -> None:
    values = array("f", [1.0, 2.0] * (2 * PIECE))
    assert compared(tmp_path, len(values), values, values)["Accuracy Reached or Not"] == "Yes"
    path = tmp_path / side / "dump_tensor_data" / NAME
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(content)
    found = row(tmp_path)
    assert found["Cosine"] == "unsupported"
    assert "not found or read failed" in found["Err_message"]


@pytest.mark.parametrize("place", [0.02, 0.98])
def test_the_same_changed_bit_on_both_sides_is_damage_too(tmp_path: Path, place: float) -> None:
    """Files that are the same share one checksum, which must be that of both files."""
    values = array("f", [1.0, 2.0] * (2 * PIECE))
    compared(tmp_path, len(values), values, values)
    for side in ("target", "golden"):
        path = tmp_path / side / "dump_tensor_data" / NAME
        content = bytearray(path.read_bytes())
        content[int(len(content) * place)] ^= 1
        path.write_bytes(content)
    assert "not found or read failed" in row(tmp_path)["Err_message"]
