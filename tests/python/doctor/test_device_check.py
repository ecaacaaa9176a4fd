# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe doctor --device, with the processor in the place of a device."""

from __future__ import annotations

import pytest
import torch
from msprobe import InvalidArgument
from msprobe.doctor import device_check


@pytest.fixture(autouse=True)
def _fewer_cases(monkeypatch):
    """Every kind of layout, and what is not finite; the whole list takes seconds, many threads longer."""
    monkeypatch.setattr(device_check, "_DTYPES", ("float64", "bfloat16", "int8"))
    monkeypatch.setattr(device_check, "_SIZES", (0, 1, 1025, 65_537))
    monkeypatch.setattr(device_check, "_PLACES", (0, 9, 1023, 2999))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_both_ways_measure_right():
    answer = device_check.check_device("cpu")
    assert answer.differences == []
    assert answer.measured > 2 * 3 * 8
    assert set(answer.ways) == {"kernel", "operators"}
    assert answer.sentences()[-1] == f"cpu: all {answer.measured} measurements are right"


def test_what_is_measured_wrong_is_said(monkeypatch):
    summary_of = device_check._summary
    asked = []

    def summary(x, sketch):
        found = summary_of(x, sketch)
        if x.numel() == 1025 and x.dtype.itemsize == 2:
            asked.append(sketch)
            if len(asked) == 2:  # on the host, by the kernel, by operators
                found["max"] += 1
        return found

    monkeypatch.setattr(device_check, "_summary", summary)
    answer = device_check.check_device("cpu")
    assert asked == [True, True, False]
    assert len(answer.differences) == 1
    assert answer.differences[0].startswith("kernel: torch.bfloat16, 1025 elements: max = ")
    assert answer.sentences()[-1] == f"cpu: 1 of {answer.measured} measurements are wrong"


def test_a_device_that_is_not_there():
    with pytest.raises(InvalidArgument, match="no device nothing"):
        device_check.check_device("nothing")
