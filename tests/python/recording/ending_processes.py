# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A script that ends as most do: with the loss of its last step a global, and the graph behind it alive. Each
case is a child of it, which ends as Python ends. Prints the exit code of each.
"""

import json
import os
import sys

import msprobe
import torch
from msprobe.config import words_of
from msprobe.pytorch import PrecisionDebugger, TrainerMon
from torch import nn

CASES = [("monitor", word) for word in (*words_of("quantities"), "all")]
CASES += [("trainer", ""), ("capture", "")]
CASES += [("task", task) for task in ("statistics", "tensor", "structure", "overflow_check")]
CASES += [("task", f"free_benchmark {stage}") for stage in ("forward", "backward")]
CASES += [("task", f"perturb {part}") for part in ("calls", "modules")]


def begin(kind, word):
    if kind == "monitor":
        msprobe.monitor(model, optimizer, word, quantities=[word])
    elif kind == "trainer":
        with open("tmon.json", "w") as file:
            json.dump({"xy_distribution": True, "all_xy": True, "wg_distribution": True}, file)
        os.environ["MONITOR_OUTPUT_DIR"] = "trainer"
        TrainerMon("tmon.json", params_have_main_grad=False).set_monitor(
            model, optimizer=optimizer, grad_acc_steps=1
        )
    elif kind == "capture":
        msprobe.capture(output="capture", steps="all").__enter__()
    elif word.startswith("perturb"):
        from msprobe.recorders import RunRecording
        from msprobe.recording.settings import run_settings

        RunRecording(run_settings(output="perturb", perturb=word.split()[1]), ["x"]).begin()
    else:
        task, *stage = word.split()
        settings = {"task": task, "level": "mix", "dump_path": word.replace(" ", "_")}
        if stage:
            settings = {**settings, "level": "L1", task: {"pert_mode": "bit_noise", "fuzz_stage": stage[0]}}
        with open("config.json", "w") as file:
            json.dump(settings, file)
        return PrecisionDebugger("config.json")
    return None


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.MultiheadAttention(16, 2), nn.Linear(16, 4))
torch.optim.AdamW(model.parameters())  # loads what each of them would load by itself
chosen = None
codes = {}
for chosen in CASES:
    child = os.fork()
    if child == 0:
        break
    codes[" ".join(chosen)] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
else:
    print(json.dumps(codes))
    sys.exit()

os.mkdir(name := "_".join(chosen).replace(" ", "_"))
os.chdir(name)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
debugger = begin(*chosen)
for _ in range(3):
    if debugger is not None:
        debugger.start(model)
    x = model[1](model[0](torch.randn(6, 8)))
    loss = model[3](model[2](x, x, x)[0]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if debugger is not None:
        debugger.stop()
        debugger.step()
