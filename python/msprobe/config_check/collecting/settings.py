# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What surrounds a training: versions, machine, code, processes, switches of torch, the model's shape.

Everything is read; nothing is set or initialised, and torch is not imported for it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.engines import COMPILED
from msprobe.files.regular_file import open_text, read_bytes
from msprobe.native import log
from msprobe.training.model_parts import chain, is_training, modules, parameters, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

Settings = dict[str, Any]

STATIC = "static"  # collected by the command
TRAINING = "training"  # by a training process

_GIT_PATIENCE = 10  # seconds
_LARGEST_SCRIPT = 64 << 20
_LARGEST_TEXT_FILE = 1 << 20
_CANN = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")


def process_settings(folder: Path) -> Settings:
    """Of any process. `folder`: where the training code is."""
    return {
        "collected": STATIC,
        "versions": _noted("versions", _versions),
        "machine": _noted("machine", _machine),
        "code": _noted("code", lambda: _code(folder)),
    }


def training_settings(model: object, folder: Path, script: str | None) -> Settings:
    """Of a training process, as it is on this thread now. `model` may be None."""
    found = process_settings(folder)
    found["collected"] = TRAINING
    found["versions"].update(_noted("versions of torch", _versions_of_torch))
    found["machine"].update(_noted("devices", _devices))
    found["code"].update(_noted("script", lambda: _script(script)))
    found["torch"] = _noted("torch", _torch)
    found["processes"] = _noted("processes", _processes)
    if model is not None:
        found["model"] = _noted("model", lambda: _model(model))
    return found


def _noted(what: str, read: Callable[[], Settings]) -> Settings:
    """No part may stop a training; a part that cannot be read is missing."""
    try:
        return read()
    except Exception as error:
        log.warning("config check: %s cannot be read: %s", what, error)
        return {}


# ---- versions and machine


def _versions() -> Settings:
    found: Settings = {
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        "kernel": platform.release(),
        "driver": _first_line("/proc/driver/nvidia/version"),
        "ascend_driver": _first_line("/usr/local/Ascend/driver/version.info"),
    }
    for variable in _CANN:
        home = os.environ.get(variable)
        if home:
            found["cann"] = _first_line(os.path.join(home, "version.cfg")) or _first_line(
                os.path.join(home, "compiler/version.info")
            )
            break
    return {name: value for name, value in found.items() if value}


def _versions_of_torch() -> Settings:
    torch = _untyped_torch()

    found: Settings = {
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
    }
    if torch.backends.cudnn.is_available():
        found["cudnn"] = torch.backends.cudnn.version()
    if torch.version.cuda is not None and torch.distributed.is_available():
        nccl = getattr(torch.cuda, "nccl", None)
        if nccl is not None and torch.cuda.is_initialized():
            found["nccl"] = ".".join(map(str, nccl.version()))
    torch_npu = sys.modules.get("torch_npu")
    if torch_npu is not None:
        found["torch_npu"] = getattr(torch_npu, "__version__", None)
    return {name: value for name, value in found.items() if value is not None}


def _untyped_torch() -> Any:
    """Some functions of torch have no types."""
    import torch

    return torch


def _machine() -> Settings:
    found: Settings = {"architecture": platform.machine()}
    names = {"model name": "cpu", "flags": "cpu_flags", "Features": "cpu_flags"}
    for line in _text("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        name = names.get(key.strip())
        if name is not None and name not in found:
            found[name] = " ".join(sorted(value.split())) if name == "cpu_flags" else value.strip()
    found["cpus_of_process"] = len(os.sched_getaffinity(0))
    return found


def _devices() -> Settings:
    import torch

    found: Settings = {}
    for name in ("cuda", "npu", "xpu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_initialized():
            found[f"device_{name}"] = device.get_device_name(device.current_device())
            if name == "cuda":
                found["device_capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
    return found


# ---- code


def _code(folder: Path) -> Settings:
    """Commit of the repository around `folder`, and a hash of what is changed in it."""
    git = ["git", "-c", "core.fsmonitor=false", "-C", str(folder if str(folder) else ".")]
    commit = _output([*git, "rev-parse", "HEAD"])
    if commit is None:
        return {}
    # Neither a program of the repository's configuration nor one of the user's may run.
    diff = _output([*git, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD"])
    found = {"commit": commit.decode().strip()}
    if diff is not None:
        found["diff"] = hashlib.sha256(diff).hexdigest()[:16] if diff else "none"
    untracked = _output([*git, "ls-files", "--others", "--exclude-standard", "--", "*.py"])
    if untracked is not None:
        found["untracked_python_files"] = " ".join(
            sorted(untracked.decode(errors="replace").split("\n"))
        ).strip()
    return found


def _output(command: Sequence[str]) -> bytes | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=_GIT_PATIENCE,
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _script(path: str | None) -> Settings:
    """The first script of the process."""
    if not path or not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_SCRIPT:
        return {}
    content = read_bytes(path)
    return {"script": f"{os.path.basename(path)} sha256 {hashlib.sha256(content).hexdigest()[:16]}"}


# ---- torch, processes, model


def _torch() -> Settings:
    from msprobe.training.torch_state import switches

    torch = _untyped_torch()
    found = switches()
    del found["environment"]  # the entry env has all of it
    capability = getattr(torch.backends.cpu, "get_cpu_capability", None)
    if capability is not None:
        found["cpu_capability"] = capability()
    found["backends.mkl.is_available"] = torch.backends.mkl.is_available()
    found.update(_compile_flags())
    return found


def _compile_flags() -> Settings:
    """Of torch.compile, as far as it is loaded: to ask it would load it."""
    found: Settings = {}
    for module, prefix, names in (
        (
            "torch._dynamo.config",
            "dynamo",
            ("suppress_errors", "automatic_dynamic_shapes", "cache_size_limit"),
        ),
        (
            "torch._inductor.config",
            "inductor",
            ("max_autotune", "epilogue_fusion", "fallback_random", "emulate_precision_casts", "freezing"),
        ),
    ):
        config = sys.modules.get(module)
        for name in names if config is not None else ():
            value = getattr(config, name, None)
            if isinstance(value, (bool, int, str)):
                found[f"{prefix}.{name}"] = value
    return found


def _processes() -> Settings:
    """World size, back-end, and which ranks each process group has."""
    dist = _untyped_torch().distributed
    if not dist.is_available() or not dist.is_initialized():
        return {"world_size": 1}
    found: Settings = {"world_size": dist.get_world_size(), "backend": str(dist.get_backend())}
    world = getattr(dist.distributed_c10d, "_world", None)
    ranks_of: dict[Any, dict[int, int]] = getattr(world, "pg_group_ranks", {})
    layouts = sorted(sorted(ranks) for ranks in ranks_of.values())
    found["groups"] = " ".join("(" + ",".join(map(str, ranks)) + ")" for ranks in layouts)
    return found


def _model(model: Any) -> Settings:
    from torch.nn.parameter import is_lazy

    root: nn.Module = unwrapped(model)
    known = [one for one in parameters(root) if not is_lazy(one)]
    dtypes = sorted({str(one.dtype) for one in known})
    return {
        "class": f"{type(root).__module__}.{type(root).__qualname__}",
        "compiled": any(hasattr(one, COMPILED) for one in chain(model))
        or getattr(root, "_compiled_call_impl", None) is not None,
        "training": is_training(root),
        "modules": sum(1 for _ in modules(root)),
        "parameters": sum(one.numel() for one in known),
        "parameters_with_gradient": sum(one.numel() for one in known if one.requires_grad),
        "dtypes": " ".join(dtypes),
        "device": known[0].device.type if known else "",
        "modules_in_eval_mode": sum(not is_training(one) for one in modules(root)),
    }


# ---- files


def _text(path: str) -> str:
    try:
        with open_text(path) as file:
            return file.read(_LARGEST_TEXT_FILE)
    except OSError:
        return ""


def _first_line(path: str) -> str:
    return _text(path).split("\n", 1)[0].strip()
