# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Writes numpy_headers.txt: what NumPy puts before data, lines `descr fortran_order shape header-in-hex`."""

import io
from pathlib import Path

import numpy as np

SHAPES = [(), (0,), (3,), (3, 4), (4, 0, 5), (1,) * 20, (123456789012, 7), (7, 123456789012345), (2,) * 32]
cases = [("b1", order, shape) for order in (False, True) for shape in SHAPES]
DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "c8", "c16"]
cases += [(dtype, False, (3, 4)) for dtype in DTYPES]
lines = []
for dtype, order, shape in cases:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": order, "shape": shape})
    extents = ",".join(map(str, shape)) or "-"
    lines.append(f"{descr} {int(order)} {extents} {file.getvalue().hex()}")
Path(__file__).with_name("numpy_headers.txt").write_text("\n".join(lines) + "\n")
print(np.__version__, len(lines))
