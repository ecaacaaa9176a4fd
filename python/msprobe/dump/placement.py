# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the parameters that fully_shard() has gathered lie, as dump.json says it under "dtensor"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.training.fully_sharded import parameter_groups
from msprobe.training.model_parts import modules
from msprobe.training.placement import placement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from msprobe.training.placement import Placement


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
