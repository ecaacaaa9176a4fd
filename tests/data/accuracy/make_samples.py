# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Made the files of samples.tar.xz with the existing tool, on a machine without an accelerator: its device is
replaced by the CPU, nothing else of it is changed.

usage: python make_samples.py OUT dump TASK          records the calls (TASK: tensor or statistics)
       python make_samples.py OUT run_ut WORDS...    run_ut with these words
       python make_samples.py OUT compare WORDS...   api_precision_compare with these words
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def dump(out: Path, task: str) -> None:
    import torch
    import torch.nn.functional as F  # noqa: N812
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(0)
    section = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = {"task": task, "dump_path": str(out / f"dump_{task}"), "rank": [], "step": [], "level": "L1"}
    path = out / f"config_{task}.json"
    path.write_text(json.dumps({**config, task: section}, indent=1))
    debugger = PrecisionDebugger(config_path=str(path))
    w = torch.nn.Parameter(torch.randn(6, 4))
    conv = torch.nn.Parameter(torch.randn(2, 1, 3, 3))
    x = torch.randn(3, 4, requires_grad=True)
    debugger.start()
    y = F.linear(x, w)  # standard: ULP
    y = torch.add(y, 0.5)  # absolute threshold
    y = F.softmax(y, dim=-1)  # benchmark
    y = F.relu(y)  # binary
    h = torch.matmul(x.half(), w.half().t())
    b = torch.exp(x.bfloat16())
    v, _ = torch.topk(y, 2)  # several outputs
    g = F.conv2d(x.reshape(1, 1, 3, 4), conv)  # thousandth
    s = torch.stack([y, y])
    k = torch.gt(y, 0.1)  # a result of bools
    d = F.dropout(y, 0.5)
    c = F.cross_entropy(y, torch.tensor([0, 1, 2]))
    n = torch.masked_select(y, k)
    z = y.to(torch.float64)
    total = s.sum() + h.float().sum() + b.float().sum() + v.sum() + g.sum() + d.sum() + c + n.sum()
    (total + z.sum().float()).backward()
    debugger.stop()
    debugger.step()


def on_cpu() -> Any:
    import torch
    from msprobe.pytorch.api_accuracy_checker.run_ut import run_ut, run_ut_utils

    torch.cuda.set_device = lambda device: None  # type: ignore[assignment]
    torch.cuda.empty_cache = lambda: None
    run_ut.current_device = run_ut_utils.current_device = "cpu"
    run_ut_utils.autocast = lambda dtype: torch.autocast("cpu", dtype=dtype)
    return run_ut


def main(out: Path, job: str, words: list[str]) -> None:
    if job == "dump":
        dump(out, words[0])
        return
    sys.argv = [job, *words]
    if job == "run_ut":
        on_cpu()._run_ut()
        return
    from msprobe.pytorch.api_accuracy_checker.compare import api_precision_compare

    api_precision_compare._api_precision_compare()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:])
