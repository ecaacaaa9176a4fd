# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A process for operators.py that runs recorded calls again, in one thread. Seconds are of the processor:
they do not depend on what else runs on the machine.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from measure import memory_mib, reset_peak, serve


def run_ut(dump: str, out: str) -> float:
    """Seconds."""
    from msprobe.compat.accuracy.run import run_ut

    begin = time.process_time()
    run_ut(dump, out, device="cpu")
    return time.process_time() - begin


def check(dump: str, out: str) -> float:
    """Seconds."""
    from msprobe.check.run import check

    begin = time.process_time()
    check(dump, out, device="cpu")
    return time.process_time() - begin


def alone(dump: str) -> float:
    """Seconds of torch's own: reading saved tensors; the calls in both precisions, forward and backward."""
    from msprobe.compat.accuracy import checker
    from msprobe.native import Error
    from msprobe.replay.arguments import ArgumentBuilder
    from msprobe.replay.dump_file import Dump
    from msprobe.replay.execution import Execution, dtype_of_output, inputs_of, quiet

    source = Dump(dump)
    total = 0.0
    for call in source.calls():
        function = call.function.rpartition(".")[2]
        try:
            begin = time.process_time()
            builder = ArgumentBuilder(call.folder, "cpu", "range")
            inputs = checker._converted(function, inputs_of(call, builder))
            if source.folder is not None:  # drawing is ours, reading is not
                total += time.process_time() - begin
            precisions = checker._precisions(function, inputs, dtype_of_output(call))
            begin = time.process_time()
            with quiet():
                for precision in precisions:
                    run = Execution(call, inputs, "cpu", precision, with_gradients=call.backward is not None)
                    if inputs.gradients and inputs.gradients[0] is not None:
                        run.gradients(inputs.gradients[:1])
            total += time.process_time() - begin
        except (Error, RuntimeError, TypeError, ValueError):
            continue
    return total


def peak_mib(job: str, dump: str, out: str) -> float:
    """Of memory above what the process holds before."""
    reset_peak()
    before = memory_mib("VmRSS")
    {"run_ut": run_ut, "check": check}[job](dump, out)
    shutil.rmtree(out)
    return memory_mib("VmHWM") - before


def make_dump(folder: str, calls: int, elements: int) -> str:
    """Calls of relu, forward and backward, task statistics."""
    record = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [elements],
        "Max": 3.0,
        "Min": -3.0,
        "Mean": 0.0,
        "Norm": elements**0.5,
        "requires_grad": True,
    }
    data: dict[str, Any] = {}
    for i in range(calls):
        forward = {"input_args": [record], "input_kwargs": {}, "output": [record]}
        data[f"Functional.relu.{i}.forward"] = forward
        data[f"Functional.relu.{i}.backward"] = {"input": [record], "output": [record]}
    path = Path(folder) / "dump.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"task": "statistics", "level": "L1", "dump_data_dir": None, "data": data}))
    return str(path)


def main() -> None:
    torch.set_num_threads(1)
    handlers = (run_ut, check, alone, peak_mib, make_dump)
    serve(int(sys.argv[2]), int(sys.argv[3]), {handler.__name__: handler for handler in handlers})


if __name__ == "__main__":
    main()
