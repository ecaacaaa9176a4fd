# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the scripts of all rows share: the options, the planted faults, and what a run says of itself.

Options: --set NAME=VALUE for a setting of the script, --plant FAULT (see plant()), --kernel for another
kernel that is right, too.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_ended: list[float] = []
register_optimizer_step_post_hook(lambda *_: _ended.append(time.process_time()))


def chosen(name: str, default: Any) -> Any:
    """A setting: that of --set, of the type of `default`."""
    for option in sys.argv:
        if option.startswith(f"{name}="):
            text = option.partition("=")[2]
            return json.loads(text) if not isinstance(default, str) else text
    return default


def other_kernel() -> bool:
    return "--kernel" in sys.argv


def attention() -> str:
    return "eager" if other_kernel() else "sdpa"


def planted() -> str:
    return sys.argv[sys.argv.index("--plant") + 1] if "--plant" in sys.argv else ""


def plant(model: Any) -> None:
    """A fault in the model, by its kind and the path of a module or parameter: "eps:PATH" a larger epsilon of
    a norm, "weight:PATH" a parameter that is 3 % larger at one half, "gradient:PATH" a gradient that is
    halved, "result:PATH" a module that gives 2 % more.
    """
    kind, _, path = planted().partition(":")
    if not path:
        return
    if kind == "eps":
        module = model.get_submodule(path)
        name = "eps" if hasattr(module, "eps") else "variance_epsilon"
        setattr(module, name, 0.05)
    elif kind == "weight":
        parameter = dict(model.named_parameters())[path]
        with torch.no_grad():
            parameter[: len(parameter) // 2] *= 1.03
    elif kind == "gradient":
        dict(model.named_parameters())[path].register_hook(lambda gradient: gradient * 0.5)
    elif kind == "result":
        module = model.get_submodule(path)
        forward = module.forward
        module.forward = lambda *args, **kwargs: _more(forward(*args, **kwargs))


def _more(result: Any) -> Any:
    if isinstance(result, tuple):
        return (_more(result[0]), *result[1:])
    return result * 1.02


def home() -> str:
    """A folder for what the trainer writes, until the end."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def report(model: Any, losses: Any = ()) -> None:
    print(line(model, losses), flush=True)


def line(model: Any, losses: Any = ()) -> str:
    """Losses and weights to the last bit, and processor seconds from step to step."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if isinstance(tensor, torch.Tensor):
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            digest.update(name.encode())
            digest.update(local.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    seconds = [round(b - a, 6) for a, b in zip(_ended, _ended[1:])]
    content = {
        "losses": [float(loss).hex() for loss in losses],
        "weights": digest.hexdigest()[:16],
        "seconds": seconds,
    }
    return f"row.{os.environ.get('RANK', '0')}: {json.dumps(content)}"
