# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Modules, names and commands of mindstudio-probe: what lies elsewhere here, and what is not here.

What is on disk goes before what is said here, so a row that is stale does no harm. The table in
docs/migration.md is made by tests/python/compat/migration, which tries each; the run that writes it names
rows that are stale.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Module of mindstudio-probe -> the names in it and where they are here.
ELSEWHERE: dict[str, dict[str, str]] = {
    "msprobe.pytorch.common": {"seed_all": "msprobe.seed"},
    "msprobe.pytorch.common.utils": {"seed_all": "msprobe.seed"},
    "msprobe.pytorch.debugger": {},
    "msprobe.pytorch.debugger.precision_debugger": dict.fromkeys(
        ("PrecisionDebugger", "module_dump", "module_dump_end"), "msprobe.debugger"
    ),
    "msprobe.pytorch.dump": {},
    "msprobe.pytorch.dump.debugger": {},
    "msprobe.pytorch.dump.debugger.precision_debugger": dict.fromkeys(
        ("PrecisionDebugger", "module_dump", "module_dump_end"), "msprobe.debugger"
    ),
    "msprobe.pytorch.online_dispatch": {"PtdbgDispatch": "msprobe.compat.online_dispatch.dispatch"},
    "msprobe.pytorch.online_dispatch.dispatch": {"PtdbgDispatch": "msprobe.compat.online_dispatch.dispatch"},
    "msprobe.mindspore.common": {},
    "msprobe.mindspore.common.utils": {
        "seed_all": "msprobe.frameworks.mindspore.seed",
        **dict.fromkeys(("MsprobeInitStep", "MsprobeStep"), "msprobe.mindspore.callbacks"),
    },
    "msprobe.core.config_check.config_checker": {"ConfigChecker": "msprobe.config_check.checker"},
    # Where msprobe 0.2 had them.
    "msprobe.accuracy": {},
    "msprobe.accuracy.parallel": {"multi_run_ut": "msprobe.compat.accuracy.parallel"},
    "msprobe.accuracy.precision_compare": {
        "api_precision_compare": "msprobe.compat.accuracy.precision_compare"
    },
    "msprobe.accuracy.run": {"run_ut": "msprobe.compat.accuracy.run"},
    "msprobe.compare.merge_result": {"merge_result": "msprobe.compat.merge_result.merge_result"},
}


class Absent(NamedTuple):
    """Something that mindstudio-probe has and msprobe does not. `sentence`: what to use instead."""

    sentence: str
    names: tuple[str, ...] = ()
    """Modules, and names in modules."""
    commands: tuple[str, ...] = ()


# One row for each feature: who makes one deletes its row.
ABSENT = (
    Absent(
        "its place is taken by `msprobe.monitor(model, optimizer)`; TrainerMon is in msprobe.pytorch",
        ("msprobe.core.monitor_v2",),
    ),
    Absent(
        "its place is taken by the command `msprobe run_ut` and by msprobe.accuracy.run.run_ut; `msprobe "
        "check` judges the same calls by other measures",
        ("msprobe.pytorch.api_accuracy_checker", "msprobe.pytorch.bench_functions"),
    ),
    Absent(
        'its place is taken by task "free_benchmark" of PrecisionDebugger and its configuration',
        ("msprobe.pytorch.free_benchmark",),
    ),
    Absent(
        "its place is taken by TrainerMon in msprobe.mindspore",
        ("msprobe.mindspore.monitor",),
    ),
    Absent(
        "steps of MindSpore trainings are ended by PrecisionDebugger.step() and by the callback MsprobeStep",
        ("msprobe.mindspore.step",),
    ),
    Absent(
        "graph modes of Ascend devices are not recorded by msprobe; PrecisionDebugger records eager PyTorch, "
        "and PrecisionDebugger.save() single tensors",
        (
            "msprobe.pytorch.set_fx_dump_config",
            "msprobe.pytorch.set_ge_dump_config",
            "msprobe.pytorch.torchair_dump",
            "msprobe.pytorch.acl_save",
            "msprobe.pytorch.AclGraphDumper",
            "msprobe.pytorch.aclgraph_dump",
            "msprobe.pytorch.aclgraph_dumper",
        ),
    ),
    Absent(
        "the kernels of Ascend devices for it are not in msprobe; task overflow_check of PrecisionDebugger "
        "finds NaN and infinities on any device",
        ("msprobe.pytorch.nan_check",),
    ),
    Absent(
        "its place is taken by the command `msprobe nan_analyze -i STEP -o OUT`", ("msprobe.nan_analyze",)
    ),
    Absent(
        "its place is taken by the command `msprobe overflow_check -i STEP -o OUT`",
        ("msprobe.overflow_check",),
    ),
    Absent(
        "its place is taken by the commands `msprobe graph` and `msprobe view`", ("msprobe.visualization",)
    ),
    Absent("its place is taken by the command `msprobe parse`", ("msprobe.pytorch.parse_tool",)),
    Absent(
        "msprobe does not judge generated texts; SingleSave and `msprobe rl_compare` compare their tokens "
        "and log probabilities with those of another run",
        ("msprobe.response_anomaly",),
    ),
    Absent(
        "comparing compiled and eager code is a comparison of two runs: `msprobe run` both, then `msprobe "
        "diagnose`",
        ("msprobe.pytorch.compile_accuracy_checker",),
    ),
    Absent(
        "random operations are collected by ConfigChecker and `msprobe run`, and compared by `msprobe "
        "config_check -c` and `msprobe diagnose`",
        ("msprobe.pytorch.random_save", "msprobe.pytorch.reproducibility"),
    ),
    Absent(
        'checksums of tensors are recorded with "summary_mode": "md5" of the data dump',
        ("msprobe.pytorch.xor_checksum",),
    ),
    Absent(
        "dumps need no database here: `msprobe view` and `msprobe graph` read them as they are",
        commands=("data2db",),
    ),
    Absent(
        "offline models of Ascend devices are not in msprobe; arrays that were made of their dumps are "
        "compared by `msprobe parse vc` and `msprobe diff`",
        commands=("offline_dump",),
    ),
    Absent(
        "nothing is installed later here; `msprobe doctor` says what is missing", commands=("install_deps",)
    ),
)

NOT_HERE = {name: row.sentence for row in ABSENT for name in row.names}
COMMANDS_NOT_HERE = {command: row.sentence for row in ABSENT for command in row.commands}


def missing(module: str, name: str) -> Exception:
    """What the look-up of a name that a module does not have raises."""
    sentence = NOT_HERE.get(f"{module}.{name}")
    if sentence is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return ImportError(f"{module}.{name}: {sentence}", name=module)


def spec_of(name: str) -> ModuleSpec | None:
    """Of a module that is not on disk; None: mindstudio-probe does not have it either."""
    if name in ELSEWHERE or name in NOT_HERE:
        loader: Any = _Loader()
        return importlib.util.spec_from_loader(name, loader, is_package=True)
    return None


class _Loader:
    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name in NOT_HERE:
            raise ImportError(f"{name}: {NOT_HERE[name]}", name=name)
        places = ELSEWHERE[name]
        module.__dict__["__all__"] = sorted(places)

        def look_up(attribute: str) -> object:
            if attribute not in places:
                raise missing(name, attribute)
            return getattr(importlib.import_module(places[attribute]), attribute)

        module.__dict__["__getattr__"] = look_up
