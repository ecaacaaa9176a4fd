# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Made single_benchmark.json: the rule of mindstudio-probe 8.1.1 for a result next to its benchmark. Run with
an interpreter that has it: python make_single_benchmark.py > single_benchmark.json
"""

import json

import torch
from msprobe.pytorch.online_dispatch.single_compare import single_benchmark_compare

CASES = {
    "equal": ([1.0, -2.0, 3.0], [1.0, -2.0, 3.0], "float32", "float32"),
    "off": ([1.0, -2.1, 3.0], [1.0, -2.0, 3.0], "float32", "float32"),
    "small values": ([0.1, 0.2], [0.11, 0.2], "float32", "float32"),
    "one of both": ([0.1, 5.0], [0.1, 5.0], "float32", "float32"),
    "half": ([1.0, 2.001], [1.0, 2.0], "float16", "float32"),
    "bfloat16": ([1.0, 2.5], [1.0, 2.0], "bfloat16", "float32"),
    "double": ([1.0, 2.0], [1.0, 2.0000001], "float64", "float64"),
    "integers": ([1, 2], [1, 2], "int64", "int64"),
    "other integers": ([1, 2], [1, 3], "int64", "int64"),
    "bools": ([True, False], [True, True], "bool", "bool"),
    "nothing": ([], [], "float32", "float32"),
    "an infinite benchmark": ([1.0, 2.0], [1.0, float("inf")], "float32", "float32"),
    "a NaN of the device": ([1.0, float("nan")], [1.0, 2.0], "float32", "float32"),
}


def tensors(device, reference, dtype, of_reference):
    return torch.tensor(device, dtype=getattr(torch, dtype)), torch.tensor(
        reference, dtype=getattr(torch, of_reference)
    )


if __name__ == "__main__":
    found = {}
    for name, case in CASES.items():
        passes, row = single_benchmark_compare(*tensors(*case))
        found[name] = {
            "case": case,
            "passes": bool(passes),
            "row": [None if c is None else c for c in row[3:10]],
        }
    print(json.dumps(found, indent=1, default=str))
