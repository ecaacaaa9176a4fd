# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed and the wrappers of a model say of how a job is laid out over its ranks
(docs/formats/diagnosis.md, "Layout"). Nothing here communicates.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

from msprobe.engines import (
    COPYING,
    PLAN,
    PLAN_MESH,
    PLANS,
    TENSOR_PARALLEL,
    dim_by_megatron,
    group_of,
    of_megatron,
)
from msprobe.training.model_parts import named_modules, named_parameters, unwrapped
from msprobe.training.placement import ranks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NO_NAMES = ("default_pg", "undefined", "None")  # of a process group to which the program gives none


def job_layout(models: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Empty for a process alone. models: with the beginning of the names inside."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return {}
    return {
        "rank": distributed.get_rank(),
        "world_size": distributed.get_world_size(),
        **_groups(distributed.get_rank()),
        "copies": list(_copies(models)),
        **_cut(models),
    }


def _cut(models: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """What engines write on plain parameters of which each rank has a shard: the dimension. Empty: there is
    none.
    """
    found = [*_cut_by_megatron(models), *_cut_by_transformers(models)]
    return {"cut": found} if found else {}


def _cut_by_transformers(models: Sequence[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """By the names of its plans alone; nothing of transformers is imported or called."""
    found: dict[tuple[int, ...], dict[str, int]] = {}
    for prefix, model in models:
        for path, module in named_modules(model):
            plan, mesh = (vars(module).get(name) for name in (PLAN, PLAN_MESH))
            if not isinstance(plan, str) or plan not in PLANS or getattr(mesh, "ndim", 0) != 1:
                continue
            ranks = tuple(ranks_of(mesh))
            for name, parameter in module._parameters.items():
                if parameter is None or hasattr(parameter, "placements") or not 1 <= parameter.dim() <= 2:
                    continue
                full = f"{prefix}{path}.{name}" if path else f"{prefix}{name}"
                found.setdefault(ranks, {})[full] = PLANS[plan][2 - parameter.dim()]
    for ranks, parameters in found.items():
        yield {"axis": "tp", "ranks": list(ranks), "parameters": parameters}


def _cut_by_megatron(models: Sequence[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    found = {
        f"{prefix}{name}": dim
        for prefix, model in models
        for name, parameter in named_parameters(model)
        if (dim := dim_by_megatron(parameter)) is not None
    }
    if found and (group := of_megatron(TENSOR_PARALLEL, "group")) is not None:
        yield {"axis": "tp", "ranks": _in_order(group), "parameters": found}


def _groups(rank: int) -> dict[str, Any]:
    """The ranks of each process group that this process is in, and what the program calls it."""
    from torch.distributed import distributed_c10d

    world: Any = getattr(distributed_c10d, "_world", None)
    known: Any = getattr(world, "pg_group_ranks", {})
    names: dict[tuple[int, ...], str] = {}
    for group, ranks in known.items():
        if rank in ranks:
            name = str(getattr(group, "group_desc", ""))
            key = tuple(sorted(ranks))
            names[key] = names.get(key) or ("" if name in _NO_NAMES else name)
    groups = sorted(names)
    return {"groups": [list(key) for key in groups], "group_names": [names[key] for key in groups]}


def _copies(models: Sequence[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    paths = {
        id(module): f"{prefix}{path}." if path else prefix
        for prefix, model in models
        for path, module in named_modules(model)
    }
    for wrapper in _wrappers(frozenset(paths)):
        group = group_of(wrapper)
        if group is not None:
            yield {
                "model": paths[id(unwrapped(wrapper))],
                "wrapper": type(wrapper).__name__,
                "ranks": _ranks(group),
                "without": sorted(map(str, getattr(wrapper, "parameters_to_ignore", ()))),
            }


_found: dict[
    frozenset[int], list[Any]
] = {}  # weak references to wrappers, by the modules that were asked for


def _wrappers(modules: frozenset[int]) -> list[Any]:
    """Around these modules, which do not know them. All objects of the program are looked at once."""
    if modules not in _found:
        _found.clear()
        _found[modules] = [
            weakref.ref(one)
            for one in gc.get_objects()
            if type(one).__name__ in COPYING and hasattr(one, "_modules") and id(unwrapped(one)) in modules
        ]
    alive = (reference() for reference in _found[modules])
    return [one for one in alive if one is not None and id(unwrapped(one)) in modules]


def _ranks(group: Any) -> list[int]:
    return sorted(_in_order(group))


def _in_order(group: Any) -> list[int]:
    from torch import distributed

    return list(distributed.get_process_group_ranks(group))
