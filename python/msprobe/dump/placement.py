# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the local shard of a DTensor lies, as dump.json says it under "dtensor" (docs/formats/dump.md).

Nothing here communicates: only what a DTensor and its mesh know of themselves is asked.
"""

from __future__ import annotations

import functools
import zlib
from typing import TYPE_CHECKING, Any

from msprobe.training.fully_sharded import parameter_groups
from msprobe.training.model_parts import modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    Placement = dict[str, Any]


def placement_of(spec: Any) -> Placement:
    """That of a DTensor with this DTensorSpec."""
    try:
        return _known(spec)
    except TypeError:  # a symbolic shape has no hash
        return _placement(spec)


@functools.lru_cache(maxsize=4096)
def _known(spec: Any) -> Placement:
    return _placement(spec)


def _placement(spec: Any) -> Placement:
    return {
        "shape": [int(size) for size in spec.shape],
        "placements": [_text(placement) for placement in spec.placements],
        **_mesh(spec.mesh),
    }


@functools.lru_cache(maxsize=256)
def _mesh(mesh: Any) -> Placement:
    import torch

    with torch._C.DisableTorchFunction():  # so that no mode sees what is asked here
        ranks = mesh.mesh.flatten().tolist()
    return {
        "mesh": f"{zlib.crc32(str(ranks).encode()):08x}",
        "mesh_shape": [int(size) for size in mesh.shape],
        "mesh_dims": list(mesh.mesh_dim_names or ()),
        "coordinate": [int(place) for place in mesh.get_coordinate() or ()],
    }


def _text(placement: Any) -> str:
    """ "Shard(0)", "Replicate", "Partial(sum)": the same in each release of torch."""
    name = type(placement).__name__.lstrip("_")
    own = [getattr(placement, key, None) for key in ("dim", "split_factor", "reduce_op")]
    arguments = ", ".join(str(value) for value in own if value is not None)
    return f"{name}({arguments})" if arguments else name


def gathered_parameters(model: nn.Module) -> Iterator[tuple[nn.Module, dict[str, Placement]]]:
    """Modules with parameters that fully_shard() spreads over processes, and where these lie while the
    module runs. They are whole then, and do not tell.

    Along the dimensions of the mesh that are those of FSDP each rank has all of a parameter; along others, of
    tensor parallelism, its shard.
    """
    found: dict[nn.Module, dict[str, Placement]] = {}
    for module in modules(model):
        for group in parameter_groups(module):
            names = group.mesh_info.mesh.mesh_dim_names
            for parameter in group.fsdp_params:
                placement = _gathered(parameter.sharded_param._spec, names)
                for owner, name in _owners(parameter._module_info):
                    found.setdefault(owner, {})[name] = placement
    yield from found.items()


def _gathered(spec: Any, names: tuple[str, ...] | None) -> Placement:
    placement = placement_of(spec)
    dims = placement["mesh_dims"] or [None] * len(placement["mesh_shape"])
    kept = [
        text if names and len(names) < len(dims) and dim not in names else "Replicate"
        for dim, text in zip(dims, placement["placements"])
    ]
    return {**placement, "placements": kept}


def _owners(info: Any) -> Iterator[tuple[nn.Module, str]]:
    yield info.module, info.param_name
    yield from zip(info.shared_modules, info.shared_param_names)
