# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is recorded of a run, from the options of the command line and a configuration file; all of it is
optional.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config import (
    Config,
    DumpConfig,
    FreeBenchmarkConfig,
    GradProbeConfig,
    load_config,
    read_file,
    words_of,
)
from msprobe.files.ranges import numbers
from msprobe.files.run_folder import DUMP, FREE_BENCHMARK, GRADIENTS, MONITOR
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS = ("config", "losses", "gradients", "dump", "monitor", "perturb", "free_benchmark")
CAN_BE_LEFT_OUT = PARTS[:4]
WITHOUT = (*CAN_BE_LEFT_OUT, "sketch")

# Parts that a task leaves out.
_LEFT_OUT = {
    "grad_probe": ("dump",),
    "monitor": CAN_BE_LEFT_OUT,
    "free_benchmark": ("config", "gradients", "dump"),
}

# What `perturb` may be: of the perturbation, and the modes of the free benchmark.
PERTURBATIONS = ("all", "calls", "modules")
CHANGES = ("improve_precision", "add_noise", "bit_noise", "change_value", "no_change", "to_cpu")

DEFAULT_OUTPUT = "msprobe_run"
DEFAULT_STEPS = "0-2"
DEFAULT_LEVEL = "mix"


@dataclass(frozen=True)
class RunSettings:
    """A checked wish. `output` is absolute: scripts change the working directory."""

    output: Path
    steps: tuple[int, ...]
    level: str
    parts: tuple[str, ...]
    dump: Config | None
    gradients: Config | None
    monitor: Config | None = None
    perturb: str = ""
    """What is perturbed, out of PERTURBATIONS; empty: nothing."""
    free_benchmark: Config | None = None

    @property
    def words(self) -> str:
        """What is recorded, and where."""
        steps = numbers("step", self.steps) if self.steps else "all steps"
        return f"{', '.join(self.parts)} of {steps}, level {self.level}: {self.output}"

    @property
    def goes_on(self) -> bool:
        """Whether the run may go on in the folder of an earlier one: a resumed training is one record."""
        return self.parts == ("monitor",)

    @property
    def last_step(self) -> int | None:
        """None: all steps are wanted."""
        return self.steps[-1] if self.steps else None


def run_settings(
    config: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    steps: str | Sequence[int | str] | None = None,
    level: str | None = None,
    without: Sequence[str] = (),
    *,
    monitor: bool = False,
    perturb: str = "",
) -> RunSettings:
    """Raises InvalidArgument for anything wrong, before anything is done.

    config: config.json or config.yaml of PrecisionDebugger. Its `task` is that of the dump ("grad_probe": no
        dump; "monitor": nothing but the monitor), its sections `grad_probe` and `monitor`
        are those of the gradients and the monitor. What is given here wins.
    output: folder of the run; without it the `dump_path` of the file, else ./msprobe_run.
    steps: "0-2,10" or a list as in the file; "all" for all. Without it those of the file, else 0-2.
    level: without it that of the file, else mix.
    without: parts that are not recorded, out of WITHOUT.
    monitor: record the monitor, too: at all steps, and not only those of `steps`.
    perturb: what is perturbed in `steps`, out of PERTURBATIONS; or how the free benchmark changes calls, out
        of CHANGES. Beside it only the losses are recorded: calls that are made again would be in a dump.
    """
    content: dict[str, Any] = {} if config is None else read_file(config)
    folder = Path(output or content.get("dump_path") or DEFAULT_OUTPUT).absolute()
    wanted: Any = _steps(steps) if steps is not None else content.get("step") or _steps(DEFAULT_STEPS)
    task = content.get("task") or "statistics"
    level = level or content.get("level") or DEFAULT_LEVEL
    monitor = monitor or task == "monitor"
    left_out = _left_out(task, without, monitor=monitor, perturb=perturb)

    def load(task: str, place: str) -> Config:
        return load_config(config, task=task, dump_path=folder / place, level=level, step=wanted)

    gradients = None if "gradients" in left_out else _gradients(load("grad_probe", GRADIENTS), task)
    dump = None if "dump" in left_out else _dump(load(task, DUMP), content, sketch="sketch" not in left_out)
    watched = replace(load("monitor", MONITOR), steps=()) if monitor else None
    benchmark = None
    if perturb in CHANGES or (task == "free_benchmark" and not perturb):
        benchmark = _benchmark(load("free_benchmark", FREE_BENCHMARK), perturb)
    loaded = dump or gradients or benchmark
    wanted_parts = {
        "monitor": watched is not None,
        "perturb": perturb in PERTURBATIONS,
        "free_benchmark": benchmark is not None,
    }
    return RunSettings(
        output=folder,
        steps=load_config(None, dump_path=folder, step=wanted).steps if loaded is None else loaded.steps,
        level=level,
        parts=tuple(part for part in PARTS if wanted_parts.get(part, part not in left_out)),
        dump=dump,
        gradients=gradients,
        monitor=watched,
        perturb=perturb if perturb in PERTURBATIONS else "",
        free_benchmark=benchmark,
    )


def _left_out(task: str, without: Sequence[str], *, monitor: bool, perturb: str) -> set[str]:
    for part in without:
        if part not in WITHOUT:
            raise InvalidArgument(f"without: expected parts out of {', '.join(WITHOUT)}, found {part!r}")
    if perturb and monitor:
        raise InvalidArgument(
            "perturb: expected no monitor beside it, which would see what is not the training"
        )
    return {*without, *_LEFT_OUT.get(task, ()), *(_LEFT_OUT["free_benchmark"] if perturb else ())}


def _dump(config: Config, content: dict[str, Any], *, sketch: bool) -> Config:
    """Steps are those of the optimizer. Where the file does not say otherwise, the state of the training is
    recorded beside the calls, which is what a diagnosis of two runs needs, and each step is one file.
    """
    section = config.section
    assert isinstance(section, DumpConfig)
    asked = content.get(config.task, {})
    if "diagnosis" not in asked:
        section = replace(section, diagnosis=words_of("diagnosis"))
    if "json" not in asked:
        section = replace(section, json="packed")
    if not sketch:
        section = replace(section, sketch=False)
    return replace(config, enable_dataloader=False, section=section)


def _gradients(config: Config, task: str) -> Config:
    """Packed, where neither the file nor its task asks for the files of mindstudio-probe."""
    assert isinstance(config.section, GradProbeConfig)
    if task == "grad_probe" or config.section.layout != "auto":
        return config
    return replace(config, section=replace(config.section, layout="packed"))


def _benchmark(config: Config, mode: str) -> Config:
    config = replace(config, enable_dataloader=False)
    assert isinstance(config.section, FreeBenchmarkConfig)
    return replace(config, section=replace(config.section, pert_mode=mode)) if mode else config


def _steps(given: str | Sequence[int | str]) -> list[int | str]:
    """As `step` of a configuration has them."""
    if not isinstance(given, str):
        return list(given)
    if given == "all":
        return []
    if not re.fullmatch(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*", given, re.ASCII):
        raise InvalidArgument(f"steps: expected numbers and ranges such as 0-2,10, or all; found {given!r}")
    for first, dash, last in (part.partition("-") for part in given.split(",")):
        if dash and int(first) > int(last):
            raise InvalidArgument(
                f"steps: expected a range from the smaller to the larger, found {first}-{last}"
            )
    return [int(part) if part.isascii() and part.isdigit() else part for part in given.split(",")]
