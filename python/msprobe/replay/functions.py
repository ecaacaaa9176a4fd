# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The function that a record names. The name comes from a file, so it is looked up in tables of functions
that compute and do nothing else.
"""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Names that begin with an underscore are others' business, but for the operators.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OPERATORS = frozenset(
    f"__{way}{name}__"
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "div", "mod", "pow", "matmul", "and", "or", "xor",
        "lshift", "rshift",
    )
    for way in ("", "i", "r")
) | {
    "__neg__", "__invert__", "__abs__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
    "__getitem__", "__setitem__",
}  # fmt: skip
# Written in Python, and not over an operator of the same name.
_METHODS = _OPERATORS | {"lu", "unique", "unique_consecutive"}

# Not computations: files, memory of others, other processes, hooks; and results that mean nothing.
_REFUSED = frozenset(
    (
        "apply_", "as_subclass", "backward", "cpu", "cuda", "data_ptr", "dim_order", "empty", "empty_like",
        "empty_permuted", "empty_quantized", "empty_strided", "from_dlpack", "from_file", "from_numpy",
        "frombuffer",
        "get_device", "ipu", "item", "map2_", "map_", "module_load", "mtia", "new", "new_empty",
        "new_empty_strided", "numpy", "pin_memory", "record_stream", "reduce_refs", "register_hook",
        "register_post_accumulate_grad_hook", "requires_grad_", "resize_", "resize_as_", "resize_as_sparse_",
        "set_", "share_memory_", "storage", "storage_offset", "to", "tolist", "type", "type_as",
        "untyped_storage", "xpu",
    )
)  # fmt: skip


def function_named(prefix: str, name: str) -> Callable[..., Any] | None:
    """The function of a record `{prefix}.{name}.{count}.forward`; None when it is not run again."""
    import torch

    homes: dict[str, tuple[Any, ...]] = {
        "Functional": (torch.nn.functional,),
        "Tensor": (torch.Tensor,),
        "Torch": (torch, torch.linalg, torch.fft, torch.special),
    }
    is_public = _NAME.fullmatch(name) is not None and name not in _REFUSED
    if not is_public and not (prefix == "Tensor" and name in _OPERATORS):
        return None
    for home in homes.get(prefix, ()):
        function: Callable[..., Any] | None = getattr(home, name, None)
        if _computes(home, name, function):
            return function
    return None


def _computes(home: Any, name: str, function: Any) -> bool:
    """Whether a function of `home` is one of torch's operators, or Python code around some."""
    import torch

    if home is torch:
        is_operator = hasattr(torch._C._VariableFunctions, name)
        return is_operator or getattr(function, "__module__", None) == "torch.functional"
    if home is torch.Tensor:
        is_operator = hasattr(torch._C.TensorBase, name) or name in _METHODS
        return is_operator and isinstance(
            function, (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
        )
    if isinstance(function, types.FunctionType):
        return function.__module__ in ("torch.nn.functional", "torch._jit_internal")
    return isinstance(function, types.BuiltinFunctionType)
