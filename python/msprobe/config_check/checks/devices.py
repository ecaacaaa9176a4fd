# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which device a run trains on, and which settings act there.

A setting of one device says nothing of a run on another one. Of two runs on different devices the settings
that mean the same are compared (autocast, the precision of float32 products); what has no counterpart is no
cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.tensors.float32_products import SWITCHES, format_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from msprobe.config_check.packs.pack_reader import Pack

    _Settings = Mapping[str, Any]

CPU = "cpu"
_ACCELERATORS = ("cuda", "npu", "xpu")
# What a setting is named after that one of the runs, or none, trains on the device of.
OF_ANOTHER_DEVICE = "of another device: "

# A setting, a variable of the environment in lower case, or a function, by name: the device it acts on.
_ACTS_ON = (
    (CPU, re.compile(r"torch\.(autocast\.cpu$|backends\.(mkldnn|mkl)\.|cpu_capability$)")),
    (CPU, re.compile(r"(omp|mkl|openblas|aten_cpu|dnnl|onednn|mkldnn)_")),
    ("cuda", re.compile(r"torch\.(autocast\.cuda$|backends\.(cuda|cudnn)\.|cuda\.)")),
    ("cuda", re.compile(r"(nvidia|cuda|cudnn|cublas|cublaslt|nccl|torch_nccl)_|torch_allow_tf32")),
    ("npu", re.compile(r"torch\.(autocast\.npu$|npu\.)|(ascend|aclnn|npu|hccl|lccl|atb)_")),
    ("xpu", re.compile(r"torch\.(autocast\.xpu$|xpu\.)")),
)


@dataclass(frozen=True)
class Devices:
    """The kinds of device that both runs train on: "cpu", "cuda", ...; empty: not known."""

    reference: str
    target: str

    @property
    def are_known(self) -> bool:
        return bool(self.reference and self.target)

    @property
    def differ(self) -> bool:
        return self.are_known and self.reference != self.target

    def act(self, name: str) -> bool:
        """Whether a setting acts on both sides, as far as is known."""
        return not self.are_known or all(acts(name, device) for device in (self.reference, self.target))


def acts(name: str, device: str) -> bool:
    """Whether a setting, variable or function of this name has to do with a device; most have with each."""
    own = next((kind for kind, names in _ACTS_ON if names.match(name.lower())), device)
    return own == device


def devices_of(reference: Pack, target: Pack) -> Devices:
    return Devices(_device_of(reference), _device_of(target))


def _device_of(pack: Pack) -> str:
    for file in pack.files("settings").values():
        model = (pack.json(file) or {}).get("model")
        if isinstance(model, dict) and model.get("device"):
            return str(model["device"])
    # A pack from before that was written down: a training on a device has a generator of it in use.
    for file in pack.files("seeds").values():
        states = (pack.json(file) or {}).get("states")
        if isinstance(states, dict):
            kinds = {str(name).removeprefix("torch.").partition(":")[0] for name in states}
            return next((kind for kind in _ACCELERATORS if kind in kinds), CPU)
    return ""


# ---- settings that mean the same on several devices

_TORCH = "torch."
# What they do depends on the device, and is compared as that.
SAID_BY_COUNTERPARTS = ("torch.get_float32_matmul_precision", "torch.backends.fp32_precision")


def counterparts(devices: Devices, reference: _Settings, target: _Settings) -> Iterator[tuple[str, Any, Any]]:
    """Of all settings of both: name and both values of each that means the same on the two devices."""
    autocast = f"{_TORCH}autocast.{devices.reference}", f"{_TORCH}autocast.{devices.target}"
    yield " / ".join(autocast), reference.get(autocast[0]), target.get(autocast[1])
    sides = _switches(reference), _switches(target)
    for names in SWITCHES.values():
        ours, theirs = names.get(devices.reference), names.get(devices.target)
        if ours is None or theirs is None or not (sides[0].keys() & ours or sides[1].keys() & theirs):
            continue  # one of the devices, or both releases, have no such setting
        shown = (_TORCH + _known(side, names) for side, names in zip(sides, (ours, theirs)))
        yield " / ".join(shown), format_of(sides[0], ours), format_of(sides[1], theirs)


def _switches(settings: _Settings) -> dict[str, Any]:
    return {name.removeprefix(_TORCH): value for name, value in settings.items() if name.startswith(_TORCH)}


def _known(switches: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((name for name in names if name in switches), names[0])
