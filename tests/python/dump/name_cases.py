# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a filter, an overflow check and module_dump keep: names of records and files.

`python name_cases.py OUTPUT` writes them as JSON, with msprobe or mindstudio-probe 8.1.1, whose answers are
tests/data/dump/names.json.
"""

import json
import os
import sys
import tempfile

import torch
from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end
from torch import nn

RELU, LINEAR = "Torch.relu.0", "Functional.linear"
A, B = "Module.a.Linear", "Module.b.Linear"
SECTIONS = {
    "list relu backward L1": {"list": [f"{RELU}.backward"]},
    "list both relu L1": {"list": [f"{RELU}.backward", f"{RELU}.forward"]},
    "list module backward L0": {"list": [f"{A}.backward.0"]},
    "list module backward mix": {"list": [f"{A}.backward.0"]},
    "list api backward mix": {"list": [f"{RELU}.backward"]},
    "scope backward L1": {"scope": [f"{LINEAR}.1.backward", f"{RELU}.backward"]},
    "scope from forward to backward L1": {"scope": [f"{RELU}.forward", f"{RELU}.backward"]},
    "scope from the first backward on L1": {"scope": [f"{RELU}.backward", "Torch.none.0.forward"]},
    "scope backward L0": {"scope": [f"{B}.backward.0", f"{B}.backward.0"]},
    "scope from forward to backward L0": {"scope": [f"{A}.forward.0", f"{B}.backward.0"]},
    "scope backward mix": {"scope": [f"{LINEAR}.1.backward", f"{RELU}.backward"]},
    "scope module backward mix": {"scope": [f"{B}.backward.0", f"{A}.backward.0"]},
    "scope and list L1": {"scope": [f"{RELU}.forward", f"{RELU}.backward"], "list": ["linear"]},
}
CASES = [*SECTIONS]
CASES += [f"overflow {where} {count} {level}" for where in ("backward", "forward") for count in (1, -1)
          for level in ("L0", "L1", "mix")]  # fmt: skip
CASES += [f"module_dump {level}" for level in ("L0", "L1", "mix")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def found():
    records, files = [], []
    for folder, _, names in sorted(os.walk("dump")):
        if "dump.json" in names:
            with open(os.path.join(folder, "dump.json")) as file:
                records.append(list(json.load(file)["data"]))
        if folder.endswith("dump_tensor_data"):
            files.append(sorted(names))
    return {"records": records, "files": files}


def run(case):
    torch.manual_seed(0)
    model, other, x = Model(), Model(), torch.randn(3, 4)
    task, section, level = "statistics", SECTIONS.get(case, {}), case.rpartition(" ")[2]
    if case.startswith("overflow"):
        task, section = "overflow_check", {"overflow_nums": int(case.split()[2])}
    with open("config.json", "w") as file:
        content = {"task": task, "dump_path": "dump", "rank": [], "step": [], "level": level, task: section}
        json.dump(content, file)
    debugger = PrecisionDebugger("config.json")
    for _ in range(2 if task == "overflow_check" else 1):
        debugger.start(model=model)
        if case.startswith("overflow forward"):
            (model(x * 1e38) * 1e38).sum().backward()
        elif case.startswith("overflow"):
            (model(x) * torch.tensor([1e30, 1.0]) * 1e30).sum().backward()
        elif case.startswith("module_dump"):
            module_dump(other, "Mine")
            result = other(x)
            module_dump_end()
            (result + model(x)).sum().backward()
        else:
            model(x).sum().backward()
        debugger.stop()
        debugger.step()
    with open("found.json", "w") as file:
        json.dump(found(), file)


if __name__ == "__main__":
    torch.set_num_threads(1)
    answers = {}
    for case in CASES:  # each in a process: a debugger is there once
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                os.chdir(folder)
                run(case)
                os._exit(0)  # as a worker that is killed: nothing is left to be done
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            place = os.path.join(folder, "found.json")
            answers[case] = f"exit code {code}"
            if os.path.isfile(place):
                with open(place) as file:
                    answers[case] = json.load(file)
    with open(sys.argv[1], "w") as file:
        rows = ",\n".join(f"{json.dumps(case)}: {json.dumps(answer)}" for case, answer in answers.items())
        file.write(f"{{\n{rows}\n}}\n")
