# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of modules: what surrounds a step and is no tensor of it. What else there is, msprobe.torch_state
has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.torch_state import OMITTED, plain

if TYPE_CHECKING:
    from torch import nn

    from msprobe.dump.diagnosis_report import DiagnosisReport


def settings(path: str, module: nn.Module, report: DiagnosisReport) -> dict[str, Any]:
    """Mode and settings of a module: what its attributes hold. Properties are not asked, they run code.

    Call it inside of report.noting().
    """
    attributes = object.__getattribute__(module, "__dict__")
    found = {}
    for name, value in attributes.items():
        if name.startswith("_") or name == "training":
            continue
        try:  # not report.noting(): there are thousands of attributes
            short = plain(value)
        except Exception as error:
            report.note_error(f"module {path!r}, attribute {name!r}", error)
            continue
        if short is not OMITTED:
            found[name] = short
    return {
        "class": f"{type(module).__module__}.{type(module).__qualname__}",
        "training": plain(attributes.get("training")),
        "settings": found,
        # A layer without bias has the name `bias` with None.
        "parameters": {
            name: parameter is not None for name, parameter in attributes.get("_parameters", {}).items()
        },
    }
