# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a device rounds the float32 operands of products to, by torch's switches for that device.

Matrix units multiply numbers of few bits. Asked for it, as convolutions on CUDA are unless they are told not
to, float32 operands are rounded to TF32 (10 bits), bfloat16 (7 bits) or HF32 (11 bits, NPU) and the products
summed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["matmul", "conv", "rnn"]
Switches = Mapping[str, Any]
"""Values by name below torch: "backends.cudnn.allow_tf32"."""

EXACT = "ieee"
_BITS = {"tf32": 10, "bf16": 7, "hf32": 11}
_OF_ALL = "backends.fp32_precision"  # where a newer switch says "none"

# Kind of device -> names, of which the first one that is there is told: torch before 2.9 has the last alone.
SWITCHES: dict[Kind, dict[str, tuple[str, ...]]] = {
    "matmul": {
        "cpu": ("backends.mkldnn.matmul.fp32_precision",),
        "cuda": ("backends.cuda.matmul.fp32_precision", "backends.cuda.matmul.allow_tf32"),
        "npu": ("npu.matmul.allow_hf32",),
    },
    "conv": {
        "cpu": ("backends.mkldnn.conv.fp32_precision",),
        "cuda": ("backends.cudnn.conv.fp32_precision", "backends.cudnn.allow_tf32"),
        "npu": ("npu.conv.allow_hf32",),
    },
    "rnn": {
        "cpu": ("backends.mkldnn.rnn.fp32_precision",),
        "cuda": ("backends.cudnn.rnn.fp32_precision", "backends.cudnn.allow_tf32"),
    },
}


@dataclass(frozen=True)
class Rounding:
    """float32 operands are rounded, before they are multiplied."""

    format: str
    """ "tf32", "bf16" or "hf32"."""
    switch: str
    """That asks for it: "torch.backends.cudnn.allow_tf32"."""

    @property
    def bits(self) -> int:
        """Of the mantissa, without the leading one."""
        return _BITS[self.format]

    @property
    def roundoff(self) -> float:
        """Half a unit in the last place of 1."""
        return 2.0 ** -(self.bits + 1)

    @property
    def sentence(self) -> str:
        return (
            f"float32 operands are rounded to {self.bits} bits ({self.format.upper()}), as {self.switch} says"
        )


def roundings(switches: Switches, device: str) -> dict[Kind, Rounding]:
    """By kind of product, where operands are rounded. `device`: its kind, "cuda"."""
    found: dict[Kind, Rounding] = {}
    for kind, names in SWITCHES.items():
        known = [name for name in names.get(device, ()) if name in switches]
        asked = format_of(switches, names.get(device, ()))
        if asked != EXACT:
            found[kind] = Rounding(asked, f"torch.{_that_says(switches, known)}")
    return found


def format_of(switches: Switches, names: tuple[str, ...]) -> str:
    """What these switches ask for: "tf32", ..., or "ieee": float32 as it is."""
    known = [switches[name] for name in names if name in switches]
    for value in known:
        if value in _BITS:
            return str(value)
    if any(value is True for value in known):
        return "hf32" if names[0].endswith("hf32") else "tf32"
    whole = switches.get(_OF_ALL)
    return str(whole) if whole in _BITS and "none" in known else EXACT


def _that_says(switches: Switches, names: list[str]) -> str:
    """The older name, which more people know, where it says the same."""
    return next(
        (name for name in reversed(names) if switches[name] is True or switches[name] in _BITS), _OF_ALL
    )
