# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Writes python_reprs.txt: doubles as hex and what Python's repr() makes of them."""

import random
import struct
from pathlib import Path

import numpy as np

values = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-4, 1e-5, 9.999e-5, 1e15, 1e16, 1.5e16, 123456789012345680.0, 1e22]
values += [5e-324, 1e100, 9007199254740993.0, 9999999999999998.0, 99999999999999990.0, 1234567890123456.7]
values += [0.0001234, 12345.678, 100.0, 1.7976931348623157e308, 2.2250738585072014e-308, 1 / 3, 2 / 3]
values += [float(np.float32(0.1))]
random.seed(1)
while len(values) < 400:
    value = struct.unpack("<d", struct.pack("<Q", random.getrandbits(64)))[0]
    if value - value == 0:  # finite
        values.append(value)
    values += [random.uniform(-1, 1), float(np.float32(random.gauss(0, 1e-3)))]
    values.append(float(random.randint(-(10**17), 10**17)))
text = "".join(f"{struct.pack('>d', value).hex()} {value!r}\n" for value in values)
Path(__file__).with_name("python_reprs.txt").write_text(text)
