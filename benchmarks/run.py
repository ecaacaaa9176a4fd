# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark and rewrites the tables of docs/performance_tables.md.

    python benchmarks/run.py --reference DIR --out DIR [--quick] [--only kernels grad_probe ...]

Run it with an interpreter that has torch and this msprobe installed. --reference is where mindstudio-probe
lives in an environment of its own; it is set up there when the directory is empty
(benchmarks/reference_env.py). Nothing else should run on the machine meanwhile. A full run takes about half
an hour, --quick a few minutes (fewer rounds; the document stays as it is).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import checkpoint
import compare
import config_check
import dump
import free_benchmark
import grad_compare
import grad_probe
import graph
import measure
import operators
import reference_env
import start_up

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = measure.HERE.parent
_DOCUMENT = _ROOT / "docs" / "performance_tables.md"


@dataclass(frozen=True)
class Setting:
    out: Path
    build: Path  # of the native benchmarks
    reference: str  # interpreter of mindstudio-probe
    quick: bool


def _kernels(setting: Setting) -> str:
    markdown = setting.out / "kernels.md"
    program = setting.build / "benchmarks" / "msprobe_bench_kernels"
    command: list[str | Path] = [program, "--markdown", markdown]
    command += ["--json", setting.out / "kernels.json", "--rounds", "5" if setting.quick else "15"]
    subprocess.run([*command, *(["--quick"] if setting.quick else [])], check=True, stdout=subprocess.DEVNULL)
    return markdown.read_text()


def _grad_probe(setting: Setting) -> str:
    plan = grad_probe.Plan(
        python=sys.executable,
        reference=setting.reference,
        plain_read=str(setting.build / "benchmarks" / "libmsprobe_bench_plain_read.so"),
        rounds=3 if setting.quick else 9,
        burst=6 if setting.quick else 40,
        threads=(1,) if setting.quick else (1, 2),
    )
    return grad_probe.benchmark(plan, setting.out, ("float32", "bfloat16"), ("L0", "L1", "L2"))


def _grad_compare(setting: Setting) -> str:
    rounds = (3, 1) if setting.quick else (9, 3)
    return grad_compare.benchmark(sys.executable, setting.reference, setting.out, *rounds)


def _start_up(setting: Setting) -> str:
    rounds = (5, 1) if setting.quick else (15, 3)
    return start_up.benchmark(sys.executable, setting.reference, setting.out, *rounds)


def _dump(setting: Setting) -> str:
    return dump.benchmark(sys.executable, setting.reference, setting.out, 3 if setting.quick else 9)


def _free_benchmark(setting: Setting) -> str:
    return free_benchmark.benchmark(sys.executable, setting.out, 3 if setting.quick else 9)


def _operators(setting: Setting) -> str:
    return operators.benchmark(sys.executable, setting.reference, setting.out, 3 if setting.quick else 9)


def _compare(setting: Setting) -> str:
    return compare.benchmark(sys.executable, setting.reference, setting.out, 2 if setting.quick else 5)


def _checkpoint(setting: Setting) -> str:
    library = str(setting.build / "benchmarks" / "libmsprobe_bench_plain_read.so")
    rounds = 2 if setting.quick else 5
    return checkpoint.benchmark(sys.executable, setting.reference, library, setting.out, rounds)


def _config_check(setting: Setting) -> str:
    return config_check.benchmark(sys.executable, setting.reference, setting.out, 2 if setting.quick else 5)


def _graph(setting: Setting) -> str:
    """The reference for graphs is a later release of mindstudio-probe."""
    reference = reference_env.set_up(setting.out / "existing-tool-8.3.0", "8.3.0")
    return graph.benchmark(sys.executable, str(reference), setting.out, 1 if setting.quick else 3)


_BENCHMARKS: dict[str, Callable[[Setting], str]] = {
    "kernels": _kernels,
    "grad_probe": _grad_probe,
    "grad_compare": _grad_compare,
    "dump": _dump,
    "free_benchmark": _free_benchmark,
    "operators": _operators,
    "compare": _compare,
    "checkpoint": _checkpoint,
    "config_check": _config_check,
    "graph": _graph,
    "start_up": _start_up,
}


def build_native(build: Path) -> None:
    """Builds the C++ benchmarks, with the library as it is in this tree."""
    options = ["-DMSPROBE_BUILD_BENCHMARKS=ON", "-DMSPROBE_BUILD_TESTS=OFF", "-DMSPROBE_WITH_TORCH=OFF"]
    configure: list[str | Path] = ["cmake", "-S", _ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *options]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    targets = ["msprobe_bench_kernels", "msprobe_bench_plain_read"]
    jobs = str(os.cpu_count() or 1)  # or make starts all at once
    compile_: list[str | Path] = ["cmake", "--build", build, "--parallel", jobs, "--target", *targets]
    subprocess.run(compile_, check=True, stdout=subprocess.DEVNULL)


def replace_table(document: str, name: str, text: str) -> str:
    """`document` with what stands between the markers of `name` replaced by `text`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    head, found, rest = document.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{_DOCUMENT.name}: the markers of the table {name!r} are missing")
    return f"{head}{begin}{text.rstrip()}\n{end}{tail}"


def _check_environment() -> None:
    for module in ("torch", "msprobe"):
        if importlib.util.find_spec(module) is None:
            raise RuntimeError(f"{module} is not installed for this interpreter ({sys.executable})")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--reference", metavar="DIR", type=Path, required=True, help="environment of mindstudio-probe"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="results as JSON and Markdown; 6 GB of room"
    )
    parser.add_argument("--build", metavar="DIR", type=Path, default=_ROOT / "build" / "benchmarks")
    parser.add_argument("--only", nargs="+", choices=list(_BENCHMARKS), default=list(_BENCHMARKS))
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = _parse()
    try:
        _check_environment()
        options.out.mkdir(parents=True, exist_ok=True)
        build_native(options.build.resolve())
        reference = reference_env.set_up(options.reference.resolve())
        setting = Setting(options.out.resolve(), options.build.resolve(), str(reference), options.quick)
        for name in options.only:
            print(f"## {name}\n", flush=True)
            text = _BENCHMARKS[name](setting)
            print(text, flush=True)
            if not options.quick:
                document = replace_table(_DOCUMENT.read_text(), name, text)
                _DOCUMENT.write_text(replace_table(document, "machine", measure.machine()))
    except (OSError, RuntimeError, ValueError, subprocess.CalledProcessError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
