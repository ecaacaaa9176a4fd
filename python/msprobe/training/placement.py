# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the local shard of a DTensor lies, as dump.json and diagnosis.json say it under "dtensor"
(docs/formats/dump.md).

Nothing here communicates: only what a DTensor and its mesh know of themselves is asked.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

Placement = dict[str, Any]


def placement_of(spec: Any) -> Placement:
    """That of a DTensor with this DTensorSpec."""
    try:
        return _known(spec)
    except TypeError:  # a symbolic shape has no hash
        return _placement(spec)


def place_of_shard(spec: Any) -> tuple[list[int], list[int]] | None:
    """Shape and offsets of the local shard in the whole, without the padding of an uneven one. None: it is no
    block of it, or this release of torch does not tell.
    """
    try:
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        found = compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)
        return [int(size) for size in found[0]], [int(first) for first in found[1]]
    except Exception:
        return None


@functools.lru_cache(maxsize=4096)
def _known(spec: Any) -> Placement:
    return _placement(spec)


def _placement(spec: Any) -> Placement:
    return {
        "shape": [int(size) for size in spec.shape],
        "placements": [_text(placement) for placement in spec.placements],
        **_mesh(spec.mesh),
    }


def ranks_of(mesh: Any) -> list[int]:
    """Of a DeviceMesh, in row-major order."""
    import torch

    with torch._C.DisableTorchFunction():  # so that no mode sees what is asked here
        return [int(rank) for rank in mesh.mesh.flatten().tolist()]


@functools.lru_cache(maxsize=256)
def _mesh(mesh: Any) -> Placement:
    ranks = ranks_of(mesh)
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
