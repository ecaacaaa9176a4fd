# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which functions are recorded by default, and under which names."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Beside this file, so that a team can add its own functions to it.
_FILE = Path(__file__).with_name("api_list.json")


@dataclass(frozen=True)
class ListedApi:
    """A function of the framework that runs."""

    name: str  # of its records: "Functional.linear"
    owner: Any  # the module or class that has it
    attribute: str
    function: Any

    @property
    def distributed(self) -> bool:
        return self.name.startswith(("Distributed.", "MintDistributed."))


def listed_apis() -> Iterator[ListedApi]:
    """The functions of the list that exist here. Only modules that are loaded already are looked into, so
    nothing is imported for the sake of the list.
    """
    for group in json.loads(_FILE.read_text(encoding="utf-8"))["sets"]:
        home = _loaded(group["home"])
        if home is None:
            continue
        renamed = group.get("renamed", {})
        for path in (*group["names"], *renamed):
            *inner, attribute = path.split(".")
            owner = home
            for part in inner:
                owner = getattr(owner, part, None)
            function = getattr(owner, attribute, None)
            if callable(function):
                name = renamed.get(attribute, attribute)
                yield ListedApi(f"{group['prefix']}.{name}", owner, attribute, function)


def _loaded(path: str) -> Any:
    """A loaded module, or an attribute of one, by its path."""
    if path in sys.modules:
        return sys.modules[path]
    module, _, attribute = path.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None)


# What is asked of tensors without computing anything: no records, whatever set is chosen.
_QUESTIONS = frozenset(
    (
        "__array__", "__contains__", "__deepcopy__", "__dir__", "__dlpack__", "__dlpack_device__",
        "__format__", "__hash__", "__iter__", "__len__", "__reduce_ex__", "__repr__", "__reversed__",
        "__setstate__", "__str__", "_is_view", "_typed_storage", "backward", "data_ptr", "dim",
        "dim_order", "element_size", "get_device", "grad", "has_names", "is_complex", "is_conj",
        "is_contiguous", "is_floating_point", "is_inference", "is_neg", "is_pinned", "is_shared",
        "is_signed", "is_storage", "is_tensor", "ndimension", "nelement", "numel", "register_hook",
        "register_post_accumulate_grad_hook", "requires_grad_", "retain_grad", "size", "storage",
        "storage_offset", "storage_type", "stride", "untyped_storage",
    )
)  # fmt: skip
_ACCESSORS = ("__get__", "__set__", "__delete__")
_PREFIXES = {"torch.nn.functional": "Functional", "torch._C._nn": "Functional", "torch._tensor": "Tensor"}


def name_of_unlisted(function: Any) -> str | None:
    """The record name of a torch function that the list does not have, None for what computes nothing."""
    namespace = getattr(function, "_qualified_op_name", "") or getattr(function, "name", "")
    if callable(namespace):
        namespace = namespace()
    if isinstance(namespace, str) and "::" in namespace:  # torch.ops: an operator of a library
        library, name = namespace.split("::", 1)
        return f"{'Aten' if library == 'aten' else library}.{name.split('.')[0]}"
    plain_name: object = getattr(function, "__name__", None)
    if not isinstance(plain_name, str) or plain_name in _QUESTIONS or plain_name.startswith(_ACCESSORS):
        return None
    owner = getattr(function, "__objclass__", None)
    if owner is not None or getattr(function, "__qualname__", "").startswith("Tensor"):
        return f"Tensor.{plain_name}"
    return f"{_PREFIXES.get(getattr(function, '__module__', ''), 'Torch')}.{plain_name}"
