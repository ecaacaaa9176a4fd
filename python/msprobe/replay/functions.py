# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The function that a record names. The name comes from a file, so it is looked up in tables of functions
that compute and do nothing else.
"""

from __future__ import annotations

import functools
import re
import types
from typing import TYPE_CHECKING, Any

from msprobe.replay import npu_functions

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
    "__neg__", "__pos__", "__invert__", "__abs__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
    "__getitem__", "__setitem__",
}  # fmt: skip
# Written in Python, and not over an operator of the same name.
_METHODS = _OPERATORS | {"lu", "norm", "split", "stft", "istft", "unique", "unique_consecutive"}

# Not computations: files, memory of others, other processes, hooks; and results that mean nothing.
_REFUSED = frozenset(
    (
        "apply_", "as_subclass", "backward", "cpu", "cuda", "data_ptr", "dim_order", "empty", "empty_like",
        "empty_permuted", "empty_quantized", "empty_strided", "from_dlpack", "from_file", "from_numpy",
        "frombuffer",
        "get_device", "ipu", "is_contiguous", "item", "map2_", "map_", "module_load", "mtia", "new",
        "new_empty",
        "new_empty_strided", "numpy", "pin_memory", "record_stream", "reduce_refs", "register_hook",
        "register_post_accumulate_grad_hook", "requires_grad_", "resize_", "resize_as_", "resize_as_sparse_",
        "set_", "share_memory_", "storage", "storage_offset", "stride", "to", "tolist", "type",
        "untyped_storage", "xpu",
    )
)  # fmt: skip
_MODULES = ("linalg", "fft", "special")
# Prefixes of records of what is never run again: what several processes call together, a library of others.
NEVER_RUN = ("Distributed", "MindSpeed")
# Prefixes of records of operators that are called by their names in a library of torch.
_LIBRARIES = {"Aten": "aten", "NPU": "npu"}
# The texts that an operator of a library may be given. Others may be names of files.
_HARMLESS_TEXTS = frozenset(
    ("approximate", "driver", "equation", "indexing", "interpolation", "mode", "norm", "pad_mode",
     "padding_mode", "reduce", "reduction", "rounding_mode", "side", "UPLO")
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def parts_of(name: str) -> tuple[str, str]:
    """Prefix and function of a call: "Functional", "linear" of "Functional.linear.0", "Torch", "linalg.inv"
    of "Torch.linalg.inv.0". Two empty texts: the name has another form.
    """
    prefix, *function, count = name.split(".") if "." in name else ("", name)
    if not (1 <= len(function) <= 2 and count.isascii() and count.isdigit()):
        return "", ""
    return prefix, ".".join(function)


def function_named(prefix: str, name: str) -> Callable[..., Any] | None:
    """The function of a record `{prefix}.{name}.{count}.forward`; None when it is not run again."""
    return next(iter(functions_named(prefix, name)), None)


@functools.lru_cache(maxsize=4096)
def functions_named(prefix: str, name: str) -> tuple[Callable[..., Any], ...]:
    """All that a record of this name can be of: torch.norm and torch.linalg.norm are both Torch.norm."""
    import torch

    if prefix in _LIBRARIES:
        operator = _library_operator(_LIBRARIES[prefix], name)
        if operator is None and prefix == "NPU":  # torch_npu is not here
            operator = npu_functions.reference_of(name)
        return () if operator is None else (operator,)
    if prefix == "Torch" and name.startswith("_"):
        inner = getattr(torch, name, None) if _library_operator("aten", name) else None
        return () if inner is None else (inner,)
    homes: dict[str, tuple[Any, ...]] = {
        "Functional": (torch.nn.functional,),
        "Tensor": (torch.Tensor,),
        "Torch": (torch, torch.linalg, torch.fft, torch.special),
        "VF": (torch._VF,),
    }
    module, dot, plain = name.rpartition(".")
    places = homes.get(prefix, ())
    if dot:
        if prefix != "Torch" or module not in _MODULES:
            return ()
        places = (getattr(torch, module),)
    is_public = _NAME.fullmatch(plain) is not None and plain not in _REFUSED
    if not is_public and not (prefix == "Tensor" and plain in _OPERATORS):
        return ()
    found: list[Callable[..., Any]] = []
    for home in places:
        function: Any = getattr(home, plain, None)
        if _computes(home, plain, function) and function not in found:
            found.append(function)
    return tuple(found)


def _computes(home: Any, name: str, function: Any) -> bool:
    """Whether a function of `home` is one of torch's operators, or Python code around some."""
    import torch

    if home is torch or home is torch._VF:
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


def _library_operator(library: str, name: str) -> Callable[..., Any] | None:
    """An operator of a library of torch that makes tensors of tensors, and takes no text that could be the
    name of a file.
    """
    import torch

    if _NAME.fullmatch(name.lstrip("_")) is None or name in _REFUSED:
        return None
    packet = getattr(getattr(torch.ops, library), name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    schemas = [getattr(packet, overload)._schema for overload in packet._overload_names]
    # Some have forms for plain numbers and lists besides.
    computing = [schema for schema in schemas if _takes_tensors(schema)]
    return packet if computing and all(map(_is_harmless, computing)) else None


def _takes_tensors(schema: Any) -> bool:
    return any("Tensor" in str(argument.type) for argument in schema.arguments)


def _is_harmless(schema: Any) -> bool:
    texts = {argument.name for argument in schema.arguments if "str" in str(argument.type).split("[")}
    texts |= {argument.name for argument in schema.arguments if str(argument.type) == "Optional[str]"}
    gives_tensor = any("Tensor" in str(result.type) for result in schema.returns)
    return gives_tensor and texts <= _HARMLESS_TEXTS
