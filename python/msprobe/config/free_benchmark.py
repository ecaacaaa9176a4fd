# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Section `free_benchmark`: how calls are made a second time. null means that the key is not given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msprobe.config.values import Words, switch, texts

if TYPE_CHECKING:
    from msprobe.config.values import Section, Value

PertMode = Literal["improve_precision", "add_noise", "change_value", "no_change", "bit_noise", "to_cpu"]
FuzzDevice = Literal["npu", "cpu", "cuda"]
HandlerType = Literal["check", "fix"]
FuzzStage = Literal["forward", "backward"]

FREE_BENCHMARK_KEYS = (
    "scope",
    "list",
    "fuzz_device",
    "pert_mode",
    "handler_type",
    "fuzz_level",
    "fuzz_stage",
    "if_preheat",
    "preheat_step",
    "max_sample",
)

_PERT_MODES: Words[PertMode] = Words(
    ("improve_precision", "add_noise", "change_value", "no_change", "bit_noise", "to_cpu")
)
# "npu" and "cuda": where the model is; both mean the same.
_FUZZ_DEVICES: Words[FuzzDevice] = Words(("npu", "cpu", "cuda"))
_HANDLER_TYPES: Words[HandlerType] = Words(("check", "fix"))
_FUZZ_LEVELS = Words(("L1",))
_FUZZ_STAGES: Words[FuzzStage] = Words(("forward", "backward"))
_FIXING: tuple[PertMode, ...] = ("improve_precision", "to_cpu")


@dataclass(frozen=True)
class FreeBenchmarkConfig:
    """Section `free_benchmark`, checked as a whole."""

    scope: tuple[str, str] | None = None  # names of the first and the last call; None: no limits
    list: tuple[str, ...] = ()  # a call is made again when its name holds one of these; empty: all
    pert_mode: PertMode = "improve_precision"
    handler_type: HandlerType = "check"
    fuzz_stage: FuzzStage = "forward"
    if_preheat: bool = False
    preheat_step: int = 15
    max_sample: int = 20

    @classmethod
    def read(cls, section: Section) -> FreeBenchmarkConfig:
        section.allow_only(FREE_BENCHMARK_KEYS)
        section = section.given(FREE_BENCHMARK_KEYS)
        get = section.get
        _FUZZ_LEVELS.one(get("fuzz_level", "L1"))
        config = cls(
            scope=_scope(get("scope", [])),
            list=texts(get("list", [])),
            pert_mode=_PERT_MODES.one(get("pert_mode", cls.pert_mode)),
            handler_type=_HANDLER_TYPES.one(get("handler_type", cls.handler_type)),
            fuzz_stage=_FUZZ_STAGES.one(get("fuzz_stage", cls.fuzz_stage)),
            if_preheat=switch(get("if_preheat", cls.if_preheat)),
            preheat_step=_positive(get("preheat_step", cls.preheat_step)),
            max_sample=_positive(get("max_sample", cls.max_sample)),
        )
        device = get("fuzz_device", "npu")
        on_cpu = _FUZZ_DEVICES.one(device) == "cpu"
        if on_cpu != (config.pert_mode == "to_cpu"):
            device.fail(
                f'expected "cpu" with pert_mode to_cpu, and only with it, {device.found} with pert_mode '
                f"{config.pert_mode}"
            )
        if config.scope and config.list:
            get("list", []).fail("Scope and api_list conflict: expected only one of scope and list")
        if config.handler_type == "fix":
            config._check_fix(get("handler_type", "fix"))
        if config.if_preheat and config.fuzz_stage == "backward":
            get("if_preheat", True).fail("expected false with fuzz_stage backward, found true")
        return config

    def _check_fix(self, value: Value) -> None:
        if self.pert_mode not in _FIXING:
            value.fail(f"fix needs pert_mode {' or '.join(_FIXING)}, found {self.pert_mode}")
        if self.fuzz_stage != "forward":
            value.fail(f"fix needs fuzz_stage forward, found {self.fuzz_stage}")
        if self.if_preheat:
            value.fail("fix needs if_preheat false, found true")


def _scope(value: Value) -> tuple[str, str] | None:
    names = texts(value)
    if not names:
        return None
    if len(names) != 2:
        value.fail(f"expected the names of the first and the last call, {value.found}")
    for name in names:
        if name.startswith("Module."):
            value.fail(f"expected names of APIs, not of modules, found {name!r}")
    return names[0], names[1]


def _positive(value: Value) -> int:
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int) or number <= 0 or number >= 2**31:
        value.fail(f"expected a positive integer, {value.found}")
    return number
