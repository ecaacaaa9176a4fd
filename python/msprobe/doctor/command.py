# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe doctor: is this installation sound? Exit code 0 when it is, 1 when something does not work, 2 on
errors.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.terminal.command_line import Parser, add_screen
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal

    Level = Literal["ok", "note", "problem"]

_PACKAGES = (
    "numpy", "PyYAML", "matplotlib", "python-calamine", "transformers", "accelerate", "lightning",
    "pytorch-lightning", "deepspeed", "megatron-core",
)  # fmt: skip
_NEEDED = ("PyYAML", "python-calamine")
_VARIABLES = ("MSPROBE_CONFIG", "MSPROBE_LOG_LEVEL", "PYTHONPATH", "CUDA_VISIBLE_DEVICES",
              "ASCEND_RT_VISIBLE_DEVICES", "OMP_NUM_THREADS")  # fmt: skip
_LITTLE_SPACE = 5 << 30
_MARKS = {"ok": "  ", "note": "! ", "problem": "X "}


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, and what there is. `hint`: what to do about it."""

    name: str
    level: Level
    text: str
    hint: str = ""


def main(arguments: list[str]) -> int:
    parser = Parser(
        prog="msprobe doctor",
        description="Says what is installed, what works and what is in the way; for bug reports, too.",
        epilog="exit code: 0 all works, 1 something does not, 2 an error",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="instead, measure tensors of this device (cuda, cuda:1) in every way and compare them with the"
        " host; cpu: the processor stands in for a device",
    )
    add_screen(parser, "print the findings as JSON", "print problems only")
    asked = parser.parse_args(arguments)
    findings = examine() if asked.device is None else list(_device(asked.device))
    if asked.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        for finding in findings:
            if not asked.quiet or finding.level == "problem":
                print(_line(finding))
        if not asked.quiet and asked.device is None:
            print(_last_line(findings))
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def _last_line(findings: list[Finding]) -> str:
    wrong = [finding.name for finding in findings if finding.level == "problem"]
    if wrong:
        return f"\n{len(wrong)} of these need{'s' if len(wrong) == 1 else ''} you: {', '.join(wrong)}"
    return "\nAll works."


def examine() -> list[Finding]:
    """Everything, in the order in which a reader wants it. A part that fails says so and stops nothing."""
    findings: list[Finding] = []
    for name, look in _PARTS.items():
        try:
            findings += look()
        except Exception as error:
            findings.append(Finding(name, "problem", f"cannot be examined: {type(error).__name__}: {error}"))
    return findings


def _line(finding: Finding) -> str:
    hint = f"\n      {printable(finding.hint)}" if finding.hint else ""
    return f"{_MARKS[finding.level]}{finding.name:22} {printable(finding.text)}{hint}"


# ---- what is looked at


def _machine() -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()}, {sys.executable}")
    yield Finding("system", "ok", f"{platform.platform()}, {os.cpu_count()} cores")


def _library() -> Iterator[Finding]:
    place = str(Path(__file__).parent)
    try:
        from msprobe.native import core
    except ImportError as error:
        yield Finding(
            "msprobe",
            "problem",
            f"{place}: the native library cannot be loaded: {error}",
            "install msprobe again: pip install --force-reinstall msprobe",
        )
        return
    yield Finding("msprobe", "ok", f"{core.__version__}, {place}")
    yield Finding("instruction set", "ok", core.instruction_set())


def _torch() -> Iterator[Finding]:
    from msprobe.native import UnsupportedError, core, import_torch, torch_adapter

    try:
        torch: Any = import_torch()
    except UnsupportedError as error:
        missing = "pip install torch" if core.built_with_torch else "it needs torch and the wheel +torchX.Y"
        yield Finding(
            "torch", "note", str(error), f"comparing works without it, recording does not: {missing}"
        )
        return
    yield Finding("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads")
    try:
        adapter = torch_adapter()
        if adapter.__name__ == "msprobe._torch":
            yield Finding("msprobe._torch", "ok", f"built with torch {adapter.built_with_torch}")
        else:
            text = f"built with torch {adapter.built_with_torch}: this torch is recorded through Python"
            yield Finding("msprobe._torch", "note", text, "the wheel +torchX.Y records it natively")
    except UnsupportedError as error:
        yield Finding("msprobe._torch", "problem", str(error))
    yield from _devices(torch)


def _devices(torch: Any) -> Iterator[Finding]:
    found = []
    for name in ("cuda", "npu", "xpu", "mps"):
        backend = getattr(torch, name, None)
        if backend is None or not backend.is_available():
            continue
        count = backend.device_count() if hasattr(backend, "device_count") else 1
        model = backend.get_device_name(0) if hasattr(backend, "get_device_name") and count else ""
        found.append(f"{count} x {name} {model}".strip())
    yield Finding("devices", "ok", ", ".join(found) or "CPU only")


def _ways() -> Iterator[Finding]:
    """How tensors of each kind of device are measured."""
    from msprobe.native import UnsupportedError, import_torch, torch_adapter

    try:
        torch: Any = import_torch()
        adapter = torch_adapter()
    except UnsupportedError:
        return
    for name in ("cuda", "npu", "xpu", "mps"):
        backend = getattr(torch, name, None)
        if backend is not None and backend.is_available():
            way = adapter.way_of_device(name)
            level: Level = "ok" if way.startswith("kernel") or name != "cuda" else "note"
            yield Finding(f"measuring on {name}", level, way)


def _device(name: str) -> Iterator[Finding]:
    from msprobe.doctor.device_check import check_device

    answer = check_device(name)
    *lines, last = answer.sentences()
    for line in lines:
        yield Finding("device", "note" if line not in answer.differences else "problem", line)
    yield Finding("device", "problem" if answer.differences else "ok", last)


def _packages() -> Iterator[Finding]:
    versions = {name: _version(name) for name in _PACKAGES}
    present = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    yield Finding("packages", "ok", present or "none of those that matter")
    for name in _NEEDED:
        if versions[name] is None:
            yield Finding(name, "problem", "is not installed", f"pip install {name}")
    if versions["matplotlib"] is None:
        yield Finding(
            "matplotlib",
            "note",
            "is not installed: grad_compare draws no pictures, TrainerMon no heat maps",
            "pip install 'msprobe[pictures]'",
        )


def _conflicts() -> Iterator[Finding]:
    other = _version("mindstudio-probe")
    if other is not None:
        yield Finding(
            "mindstudio-probe",
            "problem",
            f"{other} is installed in this environment: both bring a package msprobe, and their files mix",
            "give each an environment of its own; pip uninstall both, then install one",
        )
    places = {str(Path(entry or ".", "msprobe").resolve()) for entry in sys.path if _has_package(entry)}
    if len(places) > 1:
        yield Finding(
            "several msprobe",
            "note",
            "on the search path: " + ", ".join(sorted(places)),
            "the first one is used; a folder of sources needs `pip install -e`",
        )
    files = [Path(entry, "msprobe.pth") for entry in sys.path if entry]
    if os.environ.get("MSPROBE_CONFIG") and not any(file.is_file() for file in files):
        yield Finding(
            "MSPROBE_CONFIG",
            "problem",
            "is set, but msprobe.pth, which reads it, is not in site-packages",
            "install msprobe again, or use msprobe run",
        )
    set_variables = [f"{name}={os.environ[name]}" for name in _VARIABLES if os.environ.get(name)]
    yield Finding("environment", "ok", ", ".join(set_variables) or "no variable of interest is set")


def _folders() -> Iterator[Finding]:
    for name, folder in (("working folder", os.getcwd()), ("temporary folder", tempfile.gettempdir())):
        free = shutil.disk_usage(folder).free
        text = f"{folder}, {free / 1e9:.1f} GB free"
        if not _can_write(folder):
            yield Finding(name, "problem", f"{folder}: cannot be written", "records go to -o or dump_path")
        elif free < _LITTLE_SPACE:
            yield Finding(name, "note", text, "a dump with tensors may need more: choose steps, or a level")
        else:
            yield Finding(name, "ok", text)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _has_package(entry: str) -> bool:
    return os.path.isfile(os.path.join(entry or ".", "msprobe", "__init__.py"))


def _can_write(folder: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


_PARTS: dict[str, Callable[[], Iterator[Finding]]] = {
    "machine": _machine,
    "msprobe": _library,
    "torch": _torch,
    "measuring": _ways,
    "packages": _packages,
    "conflicts": _conflicts,
    "folders": _folders,
}
