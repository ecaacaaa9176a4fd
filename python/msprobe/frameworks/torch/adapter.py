# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""In place of `msprobe._torch`: the same names, as far as recording needs them, for any torch from 2.1 on."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

import torch

from msprobe.frameworks.torch.dump_session import DumpOptions, DumpSession
from msprobe.frameworks.torch.modes import NoModes, call_without_mode, remove_mode
from msprobe.frameworks.torch.values import plain, tensors_of, view
from msprobe.native import Error, UnsupportedError, core, log

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

__all__ = [
    "DumpOptions",
    "DumpSession",
    "GradProbe",
    "NoModes",
    "ResultsWatch",
    "built_with_torch",
    "call_without_mode",
    "captures_graph",
    "pack_tensors",
    "remove_mode",
    "set_class_attributes",
    "state_groups",
    "state_members",
    "state_statistics",
    "summarize",
    "way_of_device",
]

built_with_torch = str(core.built_with_torch)
# Formats of memoryview.cast() by the size of an element; what they mean is told beside them.
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    release = ".".join(torch.__version__.split(".")[:2])
    raise UnsupportedError(
        f"{name} needs the native recorder, which was built with torch {built_with_torch}, found torch "
        f"{torch.__version__}: install the wheel msprobe-...+torch{release}, or in a clone "
        "`pip install . --no-build-isolation`"
    )


def captures_graph() -> bool:
    """Whether the script captures a CUDA graph on this thread."""
    cuda: Any = torch.cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def way_of_device(device: str) -> str:
    return "copied to the host: recording goes through Python"


def set_class_attributes(owner: type, values: dict[str, Any], removed: list[str]) -> None:
    for name, value in values.items():
        setattr(owner, name, value)
    for name in removed:
        if name in vars(owner):
            delattr(owner, name)


# ---- measuring


def summarize(tensor: Any, **options: Any) -> dict[str, Any]:
    """As _core.summarize() of its memory."""
    memory = plain(tensor).contiguous()
    dtype = str(memory.dtype).removeprefix("torch.")
    size = memory.element_size()
    if memory.numel() == 0 or memory.is_complex():
        return core.summarize(memory.numpy(), **options)
    raw = (ctypes.c_char * (memory.numel() * size)).from_address(memory.data_ptr())
    flat: Any = memoryview(raw).cast("B")
    shaped = flat.cast(_UNSIGNED[size], tuple(memory.shape)) if memory.dim() else flat.cast(_UNSIGNED[size])
    return core.summarize(shaped, dtype=dtype, **options)


def state_statistics(tensor: Any) -> str:
    return core.state_statistics(view(tensor)[:5])


def state_members(
    items: list[tuple[str, Any]], *, of: str, otherwise: Callable[[str, Any], str], separator: str
) -> str:
    """Each by itself: there is no measuring of many at once."""
    texts = (otherwise(name, value) for name, value in items)
    return separator.join(text for text in texts if text)


def state_groups(
    groups: list[tuple[str, list[tuple[str, Any]]]], *, otherwise: Callable[[str, Any], str]
) -> str:
    members = (
        (name, state_members(items, of="value", otherwise=otherwise, separator=", "))
        for name, items in groups
    )
    return ", ".join(f"{name}: {{{text}}}" for name, text in members)


def pack_tensors(tensors: list[Any], *, in_float32: bool, threads: int) -> list[None]:
    """Each of them is to be measured by itself."""
    return [None] * len(tensors)


class _Sentinel:
    """Lives as long as the node that it is put into."""


class ResultsWatch:
    """Whether a result of a call, or a graph behind it, is still there."""

    def __init__(self, result: object) -> None:
        self._watched: list[weakref.ref[Any]] = []
        for tensor in tensors_of(result):
            node = tensor.grad_fn
            if node is None:
                self._watched.append(weakref.ref(tensor))
            else:
                sentinel = node.metadata.setdefault("msprobe", _Sentinel())
                self._watched.append(weakref.ref(sentinel))

    def is_alive(self) -> bool:
        return not self._watched or any(one() is not None for one in self._watched)


# ---- gradients


class GradProbe:
    """As _torch.GradProbe: the gradients of named parameters, at each step of an optimizer."""

    def __init__(
        self,
        named_parameters: Sequence[tuple[str, Any]],
        dump_path: str | os.PathLike[str],
        *,
        rank: int = 0,
        level: str = "L1",
        bounds: Sequence[tuple[float, str]] = (),
        steps: Sequence[int] = (),
        threads: int = 0,
        elsewhere: Callable[[Any], Any] | None = None,
        layout: Literal["npy", "packed"] = "npy",
        keepers: Mapping[str, int] | None = None,
    ) -> None:
        """keepers: has no effect, each rank records what it holds."""
        self._parameters = list(named_parameters)
        self._writer = core.GradWriter(dump_path, rank=rank, level=level, bounds=bounds, layout=layout)
        self._steps = frozenset(steps)
        self._elsewhere = elsewhere
        self.steps_seen = 0
        self.local_shards: list[str] = []

    def on_optimizer_step(self, optimizer: Any, args: Any = None, kwargs: Any = None) -> None:
        mine = {id(one) for group in optimizer.param_groups for one in group["params"]}
        if not any(id(parameter) in mine for _, parameter in self._parameters):
            return
        step, self.steps_seen = self.steps_seen, self.steps_seen + 1
        if self._steps and step not in self._steps:
            return
        try:
            with NoModes(), torch.no_grad():
                found = [(name, self._gradient(parameter)) for name, parameter in self._parameters]
                views = [(name, view(gradient)[:5]) for name, gradient in found if gradient is not None]
                self._writer.record(step, views)
        except (Error, RuntimeError, TypeError, ValueError) as error:
            log.error("gradient probe: step %d is not recorded: %s", step, error)

    def _gradient(self, parameter: Any) -> Any:
        gradient = parameter.grad
        if gradient is None and self._elsewhere is not None:
            gradient = self._elsewhere(parameter)
        return gradient.to_local() if hasattr(gradient, "to_local") else gradient

    def flush(self) -> int:
        return self._writer.flush()
