# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a model, under the names that they have without what the model is wrapped in.

Everything is read where torch itself keeps it: a module may have a `buffers` or a `children` of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.engines import COMPILED, HELD, PRIVATELY_HELD

if TYPE_CHECKING:
    from collections.abc import Iterator


def wrapped_by(module: Any) -> Any:
    """The one module that `module` is nothing but a wrapper of, or None."""
    if any(value is not None for name in ("_parameters", "_buffers") for value in _stored(module, name)):
        return None
    parts = parts_of(module)
    held = [name for name in parts if name in HELD]
    if len(held) != 1:
        return None
    inner = parts[held[0]]
    if len(parts) > 1 and {id(part) for part in parts.values()} - {id(part) for part in modules(inner)}:
        return None
    return inner


def chain(module: Any) -> list[Any]:
    """A module and, while it is a wrapper, what it holds."""
    found = [module]
    while (inner := wrapped_by(found[-1])) is not None and not any(inner is one for one in found):
        found.append(inner)
    return found


def unwrapped(module: Any) -> Any:
    """What all wrappers around it hold."""
    return chain(module)[-1]


def modules(root: Any) -> Iterator[Any]:
    """As nn.Module.modules()."""
    return (module for _, module in _walk(root))


def named_modules(root: Any) -> Iterator[tuple[str, Any]]:
    """As nn.Module.named_modules(), without wrappers."""
    for path, module in _walk(root):
        if PRIVATELY_HELD.isdisjoint(parts_of(module)) or wrapped_by(module) is None:
            yield plain_name(path), module


def compiled_around(root: Any) -> dict[int, Any]:
    """What torch.compile() returned for parts of a model, by the id of what it was given. That is called in
    the place of it.
    """
    pairs = ((parts_of(module).get(COMPILED), module) for module in modules(root))
    return {id(inner): outer for inner, outer in pairs if inner is not None}


def named_parameters(root: Any) -> Iterator[tuple[str, Any]]:
    """As nn.Module.named_parameters(), without the names of wrappers."""
    return _named_tensors(root, "_parameters")


def named_buffers(root: Any) -> Iterator[tuple[str, Any]]:
    """As nn.Module.named_buffers(), without the names of wrappers."""
    return _named_tensors(root, "_buffers")


def parameters(root: Any) -> Iterator[Any]:
    return (parameter for _, parameter in named_parameters(root))


def parameters_and_buffers(root: Any) -> Iterator[Any]:
    """Of all modules, in one walk; what several share comes as often."""
    for module in modules(root):
        for kind in ("_parameters", "_buffers"):
            yield from (tensor for tensor in _stored(module, kind) if tensor is not None)


def is_training(module: Any) -> bool:
    """Whether it is in training mode."""
    return bool(object.__getattribute__(module, "__dict__").get("training", True))


def plain_name(name: str) -> str:
    """A path in a model without what wrappers put into it."""
    if "_" not in name:
        return name
    return ".".join(part for part in name.split(".") if part not in PRIVATELY_HELD)


def _named_tensors(root: Any, kind: str) -> Iterator[tuple[str, Any]]:
    from torch._C import _functorch

    seen: set[int] = set()
    for path, module in _walk(root):
        for name, tensor in _items(module, kind):
            # torch.func.grad puts a tensor of its own in the place of each for as long as a call runs.
            while tensor is not None and _functorch.is_gradtrackingtensor(tensor):
                tensor = _functorch.get_unwrapped(tensor)
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield plain_name(f"{path}.{name}" if path else name), tensor


def _walk(root: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    seen = set() if seen is None else seen
    seen.add(id(root))
    yield path, root
    for name, part in parts_of(root).items():
        if id(part) not in seen:
            yield from _walk(part, f"{path}.{name}" if path else name, seen)


def parts_of(module: Any) -> dict[str, Any]:
    """The modules directly inside."""
    return {name: part for name, part in _items(module, "_modules") if part is not None}


def _stored(module: Any, kind: str) -> list[Any]:
    return [value for _, value in _items(module, kind)]


def _items(module: Any, kind: str) -> list[tuple[str, Any]]:
    """What torch keeps in `_modules`, `_parameters` or `_buffers`; nothing where somebody deleted it."""
    kept = object.__getattribute__(module, "__dict__").get(kind)
    if kept is None:  # TorchScript has it elsewhere
        kept = getattr(module, kind, {})
    return list(kept.items())
