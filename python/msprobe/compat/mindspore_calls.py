# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls in a dump of MindSpore, as calls of PyTorch's functions with the same meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msprobe.compare.framework_names import keyword_in_pytorch, of_functions
from msprobe.compare.translated import as_pytorch
from msprobe.replay.arguments import dtype_named, records_in
from msprobe.replay.dump_file import Dump, RecordedCall

if TYPE_CHECKING:
    from collections.abc import Mapping


class MindSporeDump(Dump):
    framework = "mindspore"


@dataclass(frozen=True)
class PortedCall:
    """`call` has PyTorch's name, dtypes and keywords. Where it has a backward, the tensors with fractions
    among its arguments require gradients.
    """

    name: str
    """In the dump: "Mint.add.0"."""
    call: RecordedCall
    keywords: Mapping[str, str]
    """What PyTorch calls a keyword -> what MindSpore does."""

    @property
    def callee(self) -> str:
        """ "Mint.add"."""
        return self.name.rpartition(".")[0]

    def own_keywords(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {self.keywords.get(key, key): value for key, value in kwargs.items()}


def ported(call: RecordedCall) -> PortedCall:
    """Raises FormatError."""
    names = of_functions(None)
    records: dict[str, Any] = {f"{call.name}.forward": call.forward}
    if call.backward is not None:
        records[f"{call.name}.backward"] = call.backward
    made = as_pytorch({"data": records}, names)["data"]
    other = names.other_record(f"{call.name}.forward").removesuffix(".forward")
    kwargs = {keyword_in_pytorch(key): value for key, value in call.kwargs.items()}
    forward = made[f"{other}.forward"]
    named = {keyword_in_pytorch(key): value for key, value in forward.get("input_kwargs", {}).items()}
    forward = {**forward, "input_kwargs": named}
    backward = made.get(f"{other}.backward")
    if backward is not None:
        for record in records_in([forward.get("input_args", []), named]):
            record["requires_grad"] = dtype_named(record.get("dtype")).is_floating_point
    found = replace(call, name=other, forward=forward, backward=backward)
    return PortedCall(call.name, found, dict(zip(kwargs, call.kwargs)))


def is_of_mindspore(call: RecordedCall) -> bool:
    """By its tensors."""
    return '"mindspore.' in repr(call.forward).replace("'", '"')
