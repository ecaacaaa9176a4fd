# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Builds two hand-made dumps that exercise the special cases of `compare` (no msprobe needed).

Usage: python make_compare_edge.py OUT_DIR
Writes OUT_DIR/{tensor,statistics,md5}/{npu,bench}/{dump.json,stack.json,construct.json,dump_tensor_data/*}.
"""

import json
import os
import sys
import zlib

import torch

nan, inf = float("nan"), float("inf")
T = torch.tensor
CASES = [  # name, npu value, bench value (a tensor, a plain value, None, "MISSING" = no such item)
    ("equal", T([1.0, 2.0, 3.0]), T([1.0, 2.0, 3.0])),
    ("small_rel", T([1.0005, 2.0, 3.0, 4.0]), T([1.0, 2.0, 3.0, 4.0])),
    ("mid_rel", T([1.003, 2.0, 3.0, 4.0]), T([1.0, 2.0, 3.0, 4.0])),
    ("big", T([10.0, 2.0, 3.0]), T([1.0, 2.0, 3.0])),
    ("neg", T([-1.0, -2.0, -3.0]), T([1.0, 2.0, 3.0])),
    ("cos_low_small_abs", T([1e-4, -1e-4]), T([1e-4, 1e-4])),
    ("cos_098_small_abs", T([1e-5, 2e-6]), T([1e-5, 0.0])),
    ("bench_zero_elem", T([1.0, 1e-3]), T([1.0, 0.0])),
    ("both_zero", torch.zeros(3), torch.zeros(3)),
    ("npu_zero", torch.zeros(3), torch.ones(3)),
    ("bench_zero", torch.ones(3), torch.zeros(3)),
    ("nan_same", T([1.0, nan, 3.0]), T([1.0, nan, 3.0])),
    ("nan_diff", T([1.0, nan, 3.0]), T([1.0, 2.0, 3.0])),
    ("inf_same", T([1.0, inf, 3.0]), T([1.0, inf, 3.0])),
    ("inf_sign", T([1.0, inf, 3.0]), T([1.0, -inf, 3.0])),
    ("inf_diff", T([1.0, inf, 3.0]), T([1.0, 2.0, 3.0])),
    ("all_nan", T([nan, nan]), T([nan, nan])),
    ("huge", T([1e20, 1.0]), T([1.0, 1.0])),
    ("shape", torch.ones(2, 3), torch.ones(3, 2)),
    ("dtype_f32_bf16", T([1.0, 2.0, 3.1]), T([1.0, 2.0, 3.1]).bfloat16()),
    ("dtype_f32_f16", T([1.0, 2.0, 3.1]), T([1.0, 2.0, 3.1]).half()),
    ("dtype_f32_f64", T([1.0, 2.0, 3.1]), T([1.0, 2.0, 3.1]).double()),
    ("dtype_i32_i64", T([1, 2], dtype=torch.int32), T([1, 2])),
    ("int", T([1, 2, 3]), T([1, 2, 4])),
    ("bool", T([True, False]), T([True, True])),
    ("zero_d", T(2.5), T(2.0)),
    ("zero_d_zero", T(2.5), T(0.0)),
    ("zero_d_nan", T(nan), T(1.0)),
    ("zero_d_bool", T(True), T(False)),
    ("len1", T([2.5]), T([2.0])),
    ("empty", torch.zeros(0), torch.zeros(0)),
    ("complex", T([1 + 1j, 2.0]), T([1 + 1j, 2.5])),
    ("none_none", None, None),
    ("none_tensor", None, T([1.0, 2.0])),
    ("int_scalar", 3, 4),
    ("float_scalar", 2.5, 2.5),
    ("bool_scalar", True, False),
    ("str_scalar", "a", "b"),
    ("float_int", 3.0, 3),
    ("missing_bench", T([1.0, 2.0]), "MISSING"),
    ("missing_npu", "MISSING", T([1.0, 2.0])),
    ("bench_file_gone", T([1.0, 2.0]), T([1.0, 2.0])),
    ("stat_half", T([1.0, 3.0]), T([1.0, 1.4])),
    ("mean_zero", T([-1.0, 1.0]), T([-1.0, 1.0])),
]


def info(value, mode, name, data_dir):
    if value is None:
        return None
    if not isinstance(value, torch.Tensor):
        return {"type": type(value).__name__, "value": value}
    d = {"type": "torch.Tensor", "dtype": str(value.dtype), "shape": list(value.shape)}
    v = value.detach()
    if not v.numel():
        stats = [None] * 4
    elif v.is_complex():
        a = v.abs()
        stats = [a.max().item(), a.min().item(), a.mean().item(), None]
    elif v.dtype == torch.bool:
        stats = [bool(v.any()), bool(v.all()), None, None]
    elif not v.shape:
        stats = [v.item()] * 4
    else:
        f = v.float() if v.dtype == torch.float64 or not v.is_floating_point() else v
        stats = [f.max().item(), f.min().item(), f.mean().item(), torch.norm(f).item()]
    d.update(zip(("Max", "Min", "Mean", "Norm"), stats))
    d["requires_grad"] = False
    if mode == "md5":
        b = v.float() if v.dtype == torch.bfloat16 else v
        d["md5"] = f"{zlib.crc32(b.numpy().tobytes()):08x}"
    if mode == "tensor":
        d["data_name"] = name + ".pt"
        torch.save(v, os.path.join(data_dir, d["data_name"]))
    return d


def main(out_dir):
    for mode in ("tensor", "statistics", "md5"):
        for side in (0, 1):
            root = os.path.join(out_dir, mode, ("npu", "bench")[side])
            data_dir = os.path.join(root, "dump_tensor_data")
            os.makedirs(data_dir, exist_ok=True)
            data, stack = {}, {}
            for i, (name, *values) in enumerate(CASES):
                value = values[side]
                if isinstance(value, str) and value == "MISSING":
                    continue
                api = f"Torch.{name}.0.forward"
                base = T([1.0, 2.0, 3.0])
                data[api] = {
                    "input_args": [info(base, mode, api + ".input.0", data_dir)],
                    "input_kwargs": {},
                    "is_recompute": False,
                    "output": [info(value, mode, api + ".output.0", data_dir)],
                }
                stack[i] = [[api], [f"File train.py, line {i}, in main, \n y = {name}(x)"]]
            if mode == "tensor" and side == 1:
                os.remove(os.path.join(data_dir, "Torch.bench_file_gone.0.forward.output.0.pt"))
            top = {
                "task": "tensor" if mode == "tensor" else "statistics",
                "level": "L1",
                "framework": "pytorch",
                "dump_data_dir": None,
                "data": data,
            }
            for fn, obj in (("dump.json", top), ("stack.json", stack), ("construct.json", {})):
                with open(os.path.join(root, fn), "w") as f:
                    json.dump(obj, f, indent=1)
        with open(os.path.join(out_dir, mode, "compare.json"), "w") as f:
            json.dump(
                {
                    "npu_path": os.path.join(out_dir, mode, "npu", "dump.json"),
                    "bench_path": os.path.join(out_dir, mode, "bench", "dump.json"),
                    "is_print_compare_log": False,
                },
                f,
                indent=1,
            )


if __name__ == "__main__":
    main(sys.argv[1])
