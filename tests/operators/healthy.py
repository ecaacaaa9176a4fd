# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records calls of every function of the API list that torch has sample arguments for: healthy operators,
none of which `msprobe check` may call wrong.

usage: python tests/operators/healthy.py OUT [DTYPE ...]
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from msprobe import PrecisionDebugger

MOST_SAMPLES = 4  # of one function
MOST_ELEMENTS = 1 << 16  # of one argument
DTYPES = ("float32", "bfloat16")


def main(output: str, dtypes: list[str]) -> None:
    for name in dtypes:
        record(Path(output) / name, getattr(torch, name))


def record(folder: Path, dtype: torch.dtype) -> None:
    """A dump of task tensor, level L1."""
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    config = folder.with_suffix(".json")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"task": "tensor", "level": "L1", "dump_path": str(folder)}))
    PrecisionDebugger._reset()
    debugger = PrecisionDebugger(str(config))
    for op in op_db:
        for function, args, kwargs in calls_of(op, dtype):
            debugger.start()
            with contextlib.suppress(Exception):  # a sample that this variant does not take
                backward(function(*args, **kwargs))
            debugger.stop()
    debugger.step()
    PrecisionDebugger._reset()


def calls_of(op: Any, dtype: torch.dtype) -> Iterator[tuple[Any, list[Any], dict[str, Any]]]:
    if not op.supports_dtype(dtype, "cpu"):
        return
    grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for variant in variants_of(op):
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), MOST_SAMPLES))
        except Exception:  # needs something that is not installed
            return
        for sample in samples:
            args = [sample.input, *sample.args]
            if all(t.numel() <= MOST_ELEMENTS for t in args if isinstance(t, torch.Tensor)):
                in_place = variant is getattr(op, "inplace_variant", None)
                yield variant, [copied(args[0]) if in_place else args[0], *args[1:]], sample.kwargs


def variants_of(op: Any) -> Iterator[Any]:
    seen: list[Any] = []
    for name in ("op", "method_variant", "operator_variant", "inplace_variant", "inplace_operator_variant"):
        variant = getattr(op, name, None)
        if callable(variant) and not any(variant is other for other in seen):
            seen.append(variant)
            yield variant


def copied(value: Any) -> Any:
    """Not a leaf of the graph, which could not be changed."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def backward(result: Any) -> None:
    outputs = [t for t in flat(result) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    if outputs:
        torch.autograd.backward(outputs, [torch.randn_like(output) for output in outputs])


def flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from flat(entry)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], sys.argv[2:] or list(DTYPES))
