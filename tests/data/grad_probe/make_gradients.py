# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Turns the gradients that make_grad_probe.py stores (NAME.grads.npz) into files that need no zip reader.

usage: make_gradients.py SAMPLES OUT_DIR   writes OUT_DIR/NAME_step{S}.npy for the samples of one rank
Each file is one float32 vector: the gradients of the step in the order of the csv, each in C order.
"""

import csv
import sys
from pathlib import Path

import numpy as np

samples, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(exist_ok=True)
for name in ("l0_a", "l1_a", "l2_edge", "l2_bf16", "l2_fp16_params"):
    gradients = np.load(samples / f"{name}.grads.npz")
    for path in sorted((samples / name / "rank0").glob("grad_summary_*.csv")):
        step = path.stem.rsplit("_", 1)[1]
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = [row["param_name"] for row in csv.DictReader(file)]
        parts = [gradients[f"step{step}/{parameter}"].reshape(-1) for parameter in names]
        np.save(out / f"{name}_step{step}.npy", np.concatenate(parts).astype("<f4"))
