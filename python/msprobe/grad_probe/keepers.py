# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients that are the same in several ranks, and which of these keeps their signs.

Decided once, by the groups, and alike in all ranks: nobody has to ask another one. Where replicas are not
equal after all, the hashes that the others keep say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor


def keepers(
    models: Iterable[Any], named: Iterable[tuple[str, Tensor]], recorded: Sequence[int]
) -> dict[str, int]:
    """The lowest rank among the replicas of each parameter; without those that have no replicas.

    models: with what they are wrapped in. recorded: the ranks that are recorded; empty: all.
    """
    import torch.distributed

    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return {}
    reduced = _reduced_by_ddp(models)
    result = {}
    for name, parameter in named:
        ranks = set(reduced.get(id(parameter), ())) or _replicas_of_part(parameter)
        kept = [rank for rank in ranks if not recorded or rank in recorded]
        if len(kept) > 1:
            result[name] = min(kept)
    return result


def _reduced_by_ddp(models: Iterable[Any]) -> dict[int, list[int]]:
    """Ids of parameters whose gradients DistributedDataParallel makes equal, and the ranks of its group."""
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    found: dict[int, list[int]] = {}
    for model in models:
        for module in model.modules():
            if not isinstance(module, DistributedDataParallel):
                continue
            ranks = torch.distributed.get_process_group_ranks(module.process_group)
            ignored = module.parameters_to_ignore
            for name, parameter in module.module.named_parameters():
                if name not in ignored:
                    found[id(parameter)] = ranks
    return found


def _replicas_of_part(parameter: Any) -> set[int]:
    """Of a DTensor: the ranks of its mesh that hold the same part."""
    placements: Any = getattr(parameter, "placements", None)
    mesh: Any = getattr(parameter, "device_mesh", None)
    place = None if placements is None or mesh is None else mesh.get_coordinate()
    if place is None:
        return set()
    part = tuple(slice(None) if placement.is_replicate() else at for placement, at in zip(placements, place))
    return set(mesh.mesh[part].flatten().tolist())
