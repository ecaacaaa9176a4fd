# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the environment variables and of the installed packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Union

from msprobe.config_check.checks.check_result import ERROR, WARNING, CheckResult, Difference, shown
from msprobe.config_check.checks.devices import OF_ANOTHER_DEVICE, devices_of
from msprobe.config_check.packs import pack

if TYPE_CHECKING:
    from msprobe.config_check.checks.likelihood import Likelihood
    from msprobe.config_check.packs.pack_reader import Pack

    _Variable = tuple[str, Union[str, bool, int]]

ENVIRONMENT_COLUMNS = ("bench_env_name", "cmp_env_name", "bench_value", "cmp_value", "level")
VARIABLE_COLUMNS = ("variable", "bench_value", "cmp_value", "level")
PACKAGE_COLUMNS = ("package", "bench version", "cmp version", "level")

# By kind of device: the variables that mean the same, with their defaults. One row each.
_VARIABLES: tuple[dict[str, _Variable], ...] = (
    {"npu": ("HCCL_DETERMINISTIC", False), "gpu": ("NCCL_DETERMINISTIC", False)},
    {"npu": ("HCCL_ALGO", "None"), "gpu": ("NCCL_ALGO", "None")},
    {"npu": ("HCCL_INTRA_ROCE_ENABLE", 0)},
    {"npu": ("HCCL_INTRA_PCIE_ENABLE", 1)},
    {"npu": ("ASCEND_LAUNCH_BLOCKING", 0), "gpu": ("CUDA_LAUNCH_BLOCKING", 0)},
    {"npu": ("ASCEND_RT_VISIBLE_DEVICES", "None"), "gpu": ("CUDA_VISIBLE_DEVICES", "None")},
)
_IN_TABLE = {variable[0] for kinds in _VARIABLES for variable in kinds.values()}

# Sheet name -> names of distributions, in the normal form of packaging; the first that is there counts.
_PACKAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("transformers", ("transformers",)),
    ("deepspeed", ("deepspeed",)),
    ("megatron", ("megatron", "megatron-core", "megatron-lm")),
    ("numpy", ("numpy",)),
    ("datasets", ("datasets",)),
    ("peft", ("peft",)),
    ("torch", ("torch",)),
    ("mindspore", ("mindspore",)),
    ("torch_npu", ("torch-npu",)),
    ("mindspeed", ("mindspeed",)),
    ("transformer_engine", ("transformer-engine", "transformer-engine-cu12", "transformer-engine-cu13")),
    ("flash_attn", ("flash-attn", "flash-attn-3")),
    ("apex", ("apex",)),
    ("xformers", ("xformers",)),
    ("bitsandbytes", ("bitsandbytes",)),
    ("accelerate", ("accelerate",)),
    ("triton", ("triton", "triton-ascend")),
    ("tokenizers", ("tokenizers",)),
    ("sentencepiece", ("sentencepiece",)),
    ("torchvision", ("torchvision",)),
    ("nvidia-cublas", ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12")),
    ("nvidia-cudnn", ("nvidia-cudnn", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12")),
    ("nvidia-nccl", ("nvidia-nccl", "nvidia-nccl-cu13", "nvidia-nccl-cu12")),
)

_NAME_SEPARATORS = re.compile(r"[-_.]+")


# ---- environment variables


def check_environment(reference: Pack, target: Pack) -> CheckResult | None:
    """None when a side has no environment."""
    sides = _environments(reference, target)
    if sides is None:
        return None
    result = CheckResult("env", ENVIRONMENT_COLUMNS)
    kinds = [_device_kind(side) for side in sides]
    for variables in _VARIABLES:
        names = [variables[kind][0] if kind in variables else None for kind in kinds]
        values = [
            side.get(variables[kind][0], variables[kind][1]) if kind in variables else None
            for kind, side in zip(kinds, sides)
        ]
        if names[0] is None and names[1] is None:
            continue
        if names[0] is None:
            _add_one_sided(result, "only cmp has this env", str(names[1]), None, values[1])
        elif names[1] is None:
            _add_one_sided(result, names[0], "only bench has this env", values[0], None)
        elif _setting(values[0]) != _setting(values[1]):
            result.rows.append([names[0], names[1], values[0], values[1], ERROR])
            name = names[0] if names[0] == names[1] else f"{names[0]} / {names[1]}"
            result.fail(Difference("env", name, shown(values[0]), shown(values[1])))
    return result


def check_variables(reference: Pack, target: Pack, likelihood: Likelihood) -> CheckResult | None:
    """The variables that mindstudio-probe does not look at, as far as likelihood.json knows them. None when
    there is nothing to say.
    """
    sides = _environments(reference, target)
    if sides is None:
        return None
    result = CheckResult("variables", VARIABLE_COLUMNS)
    devices = devices_of(reference, target)
    for variable in sorted({*sides[0], *sides[1]} - _IN_TABLE):
        values = [side.get(variable) for side in sides]
        if likelihood.level("variables", variable) is None or _setting(values[0]) == _setting(values[1]):
            continue
        name = variable if devices.act(variable) else OF_ANOTHER_DEVICE + variable
        level = likelihood.level("variables", name) or WARNING
        result.rows.append([name, values[0], values[1], level])
        difference = Difference("variables", name, shown(values[0]), shown(values[1]), level)
        if level == ERROR:
            result.fail(difference)
        else:
            result.differences.append(difference)
    return result if result.rows or (reference.is_ours and target.is_ours) else None


def _environments(reference: Pack, target: Pack) -> list[dict[str, str]] | None:
    sides = []
    for side in (reference, target):
        content = side.json(pack.ENVIRONMENT)
        if content is None:
            return None
        sides.append({name: shown(value) for name, value in content.items()})
    return sides


def _device_kind(environment: dict[str, str]) -> str:
    return "npu" if any("ASCEND" in name for name in environment) else "gpu"


def _setting(value: str | bool | int | None) -> str | None:
    """Equal for texts that switch the same: variables are text, the defaults are not."""
    if value is None:
        return None
    text = str(value).strip()
    return {"false": "0", "off": "0", "true": "1", "on": "1"}.get(text.lower(), text)


def _add_one_sided(
    result: CheckResult,
    reference_name: str,
    target_name: str,
    reference_value: str | bool | int | None,
    target_value: str | bool | int | None,
) -> None:
    """One side has another kind of device: no fault by itself."""
    result.rows.append([reference_name, target_name, reference_value, target_value, WARNING])
    name = target_name if reference_value is None else reference_name
    result.differences.append(Difference("env", name, shown(reference_value), shown(target_value), WARNING))


# ---- packages


def check_packages(reference: Pack, target: Pack) -> CheckResult | None:
    """None when a side has no list of packages."""
    texts = [side.text(pack.PACKAGES) for side in (reference, target)]
    if texts[0] is None or texts[1] is None:
        return None
    versions = [_versions(text or "") for text in texts]
    result = CheckResult("pip", PACKAGE_COLUMNS)
    for name, distributions in _PACKAGES:
        found = [next((side[one] for one in distributions if one in side), None) for side in versions]
        if found[0] == found[1]:
            continue
        cells = ["None" if version is None else version for version in found]
        result.rows.append([name, cells[0], cells[1], ERROR])
        result.fail(Difference("pip", name, shown(found[0]), shown(found[1])))
    others = _other_packages(versions)
    if others:
        result.notes.append(f"other packages of another version: {others}")
    return result


def _other_packages(versions: list[dict[str, str]]) -> str:
    """Packages of both sides that no row is about."""
    known = {one for _, distributions in _PACKAGES for one in distributions}
    names = sorted(
        name
        for name in versions[0].keys() & versions[1].keys()
        if name not in known and versions[0][name] != versions[1][name]
    )
    most = 8
    texts = [f"{name} {versions[0][name]} -> {versions[1][name]}" for name in names[:most]]
    return ", ".join([*texts, f"and {len(names) - most} more"] if len(names) > most else texts)


def _versions(text: str) -> dict[str, str]:
    """Of a package that is listed twice Python imports the first."""
    versions: dict[str, str] = {}
    for line in text.splitlines():
        name, _, version = line.partition("=")
        if name.strip():
            versions.setdefault(
                _NAME_SEPARATORS.sub("-", name.strip()).lower(), version if "=" not in version else ""
            )
    return versions
