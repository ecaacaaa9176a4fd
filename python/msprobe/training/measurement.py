# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of a training program as short entries of diagnosis.json (docs/formats/diagnosis.md)."""

from __future__ import annotations

import functools
import json
import sys
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.files.credentials import concealed_argument
from msprobe.native import UnsupportedError, import_torch, torch_adapter
from msprobe.training.json_text import Json, json_text
from msprobe.training.placement import place_of_shard, placement_of
from msprobe.training.torch_state import OMITTED, memory_of, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import Literal

    from msprobe.training.placement import Placement

_DEEPEST = 20


class Faults(Protocol):
    """Where faults of measuring are noted."""

    def noting(self, doing: str) -> AbstractContextManager[None, bool]:
        """`with`: what raises inside is noted as what happened while `doing`, and goes no further."""


def members(
    items: Iterable[tuple[str, Any]],
    report: Faults,
    doing: Callable[[str], str],
    *,
    of: Literal["value", "parameter", "gradient"] = "value",
    separator: str = ", ",
) -> Json:
    """Members of a JSON object: each tensor and each setting in `items`, by its name. What cannot be measured
    is left out and noted as what `doing` says of its name.

    of: parameter: the entries say whether a gradient is required; gradient: what is measured is
        the gradient of each item, null for one that is absent although wanted, nothing for a frozen one.

    Reads memory only: nothing becomes part of the graph. Tensors of torch's own classes are measured all at
    once, in native code.
    """
    otherwise = _one_by_one(report, doing, of, separator)
    return Json(_native().state_members(list(items), of=of, otherwise=otherwise, separator=separator))


def groups(
    named: Iterable[tuple[str, list[tuple[str, Any]]]],
    report: Faults,
    doing: Callable[[str], str],
) -> Json:
    """Members of a JSON object, each of which is an object of members() of values. The tensors of all are
    measured at once.
    """
    listed = [(json_text(name), items) for name, items in named]
    return Json(_native().state_groups(listed, otherwise=_one_by_one(report, doing)))


def _one_by_one(
    report: Faults,
    doing: Callable[[str], str],
    of: Literal["value", "parameter", "gradient"] = "value",
    separator: str = ", ",
) -> Callable[[str, Any], str]:
    """For what is no tensor of torch's own classes: makes the members of one item."""

    def found(name: str, value: Any) -> dict[str, Json]:
        if of == "gradient":
            gradient = value.grad
            if gradient is None and not value.requires_grad:
                return {}
            return {name: Json("null") if gradient is None else measure(gradient)}
        if of == "parameter":
            return {name: measure(value, value.requires_grad)}
        return dict(entries(name, value))

    def text(name: str, value: Any) -> str:
        with report.noting(doing(name)):
            members = found(name, value)
            return separator.join(f"{json_text(key)}: {entry}" for key, entry in members.items())
        return ""

    return text


def measure(tensor: Any, requires_grad: bool | None = None) -> Json:
    """Type, shape, CRC-32 and statistics of a tensor, after `requires_grad` where it is given. What cannot be
    measured has the reason instead.

    Of a DTensor the shard of this process is measured, of a sparse tensor its values.
    """
    found, memory = described(tensor)
    if requires_grad is not None:
        found = {"requires_grad": requires_grad, **found}
    if memory is None:
        return Json(json.dumps(found))
    place = _place_in_whole(tensor, memory) if "part" in found and hasattr(tensor, "placements") else None
    if place is not None:
        found["dtensor"] = place
    try:
        statistics = _statistics(memory, place)
    except UnsupportedError as error:
        return Json(json.dumps({**found, "unmeasured": str(error)}))
    return Json(f"{json.dumps(found)[:-1]}, {statistics}}}")


def _place_in_whole(tensor: Any, memory: Any) -> Placement:
    """With the shape of the shard; and its offset where it is a block of the whole."""
    spec = tensor._spec
    place = {**placement_of(spec), "local_shape": [int(size) for size in memory.shape]}
    block = place_of_shard(spec)
    if block is not None and block[0] == place["local_shape"]:
        place["offset"] = block[1]
    return place


def _statistics(memory: Any, place: Placement | None) -> str:
    """place: the sketch is taken at the places of the elements in the whole, where it is known; else the
    offset is taken out of it.
    """
    if place is not None and "offset" in place:
        try:
            return str(_native().state_statistics(memory, shard=(place["shape"], place["offset"])))
        except UnsupportedError:  # on a device
            del place["offset"]
    return str(_native().state_statistics(memory))


def described(tensor: Any) -> tuple[dict[str, Any], Any]:
    """Type, shape, and which part of a sharded or sparse tensor is measured; and the tensor to be measured,
    None: there is none, and `unmeasured` says why.
    """
    found: dict[str, Any] = {"dtype": str(tensor.dtype)}
    if _lazy()(tensor):
        found["unmeasured"] = "the parameter of a lazy module has no value yet"
        return found, None
    if not tensor.is_nested:
        found["shape"] = [size if isinstance(size, int) else str(size) for size in tensor.shape]
    memory, part = memory_of(tensor)
    if part:
        found["part"] = part
    return found, memory


# Asked for dozens of times in a step; finding it takes longer than measuring a small tensor.
_native = functools.lru_cache(maxsize=1)(torch_adapter)


@functools.lru_cache(maxsize=1)
def _lazy() -> Callable[[Any], bool]:
    import_torch()
    from torch.nn.parameter import is_lazy

    return is_lazy


def has_numbers(tensor: Any) -> bool:
    """Whether there are elements behind a tensor: not on the meta device, and not where torch works out
    shapes alone.
    """
    fake: Any = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    return not tensor.is_meta and not isinstance(tensor, fake)


def tensors_in(values: object) -> list[Any]:
    """All tensors in containers, in their order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def entries(
    path: str, value: object, depth: int = 0, *, leaves_out: Callable[[Any], bool] = lambda _: False
) -> Iterator[tuple[str, Json]]:
    """Each tensor and each setting in nested lists, tuples and dicts, by its path; without the tensors that
    `leaves_out` names.
    """
    import torch

    inside = functools.partial(entries, depth=depth + 1, leaves_out=leaves_out)
    if isinstance(value, torch.Tensor):
        if not leaves_out(value):
            yield path, measure(value)
    elif isinstance(value, (list, tuple)) and depth < _DEEPEST:
        for index, item in enumerate(value):
            yield from inside(f"{path}.{index}", item)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            name = key if isinstance(key, (str, int)) else type(key).__name__
            yield from inside(f"{path}.{name}", item)
    else:
        short = plain(value)
        if isinstance(short, str):
            short = concealed_argument(path.rpartition(".")[2], short)
        found = {"type": type(value).__qualname__} if short is OMITTED else {"value": short}
        yield path, Json(json.dumps(found))
