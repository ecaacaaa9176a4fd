# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One value for a tensor that lies in many processes.

Statistics are kept as sums that can be added up and extremes of which the largest can be taken, so two
collectives merge all rows of a step. A tensor that several processes have is measured by one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.native import log, torch_adapter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe._core import MonitorFrame, MonitorLabels
    from msprobe.monitoring.parameter_rows import WatchedParameter

_TIMEOUT_SECONDS = 600


class WholeTensors:
    """Merges the frames of all processes. Each of them must call merge() for the same steps."""

    def __init__(self, labels: MonitorLabels) -> None:
        from datetime import timedelta

        from torch import distributed

        self._labels = labels
        # A group of our own: what goes wrong in it does not end the training's.
        self._group = distributed.new_group(backend="gloo", timeout=timedelta(seconds=_TIMEOUT_SECONDS))
        self._known = 0  # labels of this process that all know
        self._shared: dict[
            tuple[str, int], int
        ] = {}  # label here, by name and group, of all that any process has
        self._order: list[tuple[str, int]] = []
        self._counts: dict[tuple[str, int], int] = {}
        self.collectives = 0  # in the last merge(), for tests

    def merge(self, frame: MonitorFrame, counts: dict[int, int], loss: float | None) -> float | None:
        """Puts the values of whole tensors into `frame`, and returns the mean loss of those that have one.

        counts: how many numbers the rows of counts have, by label. Labels are exchanged at the first merge;
        those that come later are in the step after the one in which they came.
        """
        import torch
        from torch import distributed

        self.collectives = 0
        if self._known == 0:
            self._exchange(counts)
        labels = [self._shared[key] for key in self._order]
        counted = [key for key in self._order if self._counts.get(key)]
        packing = (labels, [self._shared[key] for key in counted], [self._counts[key] for key in counted])
        summed, largest = torch_adapter().monitor_pack(frame, *packing)
        losses = [0.0, 0.0] if loss is None else [loss, 1.0]
        summed = torch.cat([summed, torch.tensor(losses, dtype=torch.float64)])
        news = torch.tensor([float(len(self._labels) > self._known)], dtype=torch.float64)
        largest = torch.cat([largest, news])
        distributed.all_reduce(summed, group=self._group)
        distributed.all_reduce(largest, op=distributed.ReduceOp.MAX, group=self._group)
        self.collectives += 2
        torch_adapter().monitor_unpack(frame, *packing, summed[:-2], largest[:-1])
        if largest[-1] > 0:
            self._exchange(counts)
        total, count = summed[-2:].tolist()
        return total / count if count else None

    def leave(self) -> None:
        """The others, should they wait for this process, get an error at once."""
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group(self._group)

    def _exchange(self, counts: dict[int, int]) -> None:
        """Which labels there are, in any process."""
        from torch import distributed

        mine = self._labels.all()
        names = {(name, group): counts.get(label, 0) for label, (_, name, group) in enumerate(mine)}
        everyone: list[Any] = [None] * distributed.get_world_size(self._group)
        distributed.all_gather_object(everyone, names, group=self._group)
        here = {(name, group): label for label, (_, name, group) in enumerate(mine)}
        for names in everyone:
            for key, count in names.items():
                if key not in self._shared:
                    label = here.get(key)
                    if label is None:
                        label = here[key] = self._labels.add(0, key[0], key[1])
                    self._shared[key] = label
                if count:
                    self._counts[key] = max(count, self._counts.get(key, 0))
        self._order = sorted(self._shared)
        self._known = len(self._labels)


def share_parameters(
    parameters: Sequence[WatchedParameter], models: Sequence[Any], group: Any = None
) -> None:
    """Decides which process measures a piece of a parameter that several have: they take turns."""
    from torch import distributed

    rank = distributed.get_rank()
    mine = [(one.name, piece_of(one.tensor, models)) for one in parameters]
    everyone: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(everyone, mine, group=group)
    holders: dict[Any, list[int]] = {}
    for holder, pieces in enumerate(everyone):
        for piece in pieces:
            holders.setdefault(piece, []).append(holder)
    loads = [0] * len(everyone)
    chosen = {}
    # The same in every process: by the order of the pieces, to who has the least to do.
    for piece in sorted(holders, key=str):
        best = min(holders[piece], key=lambda holder: (loads[holder], holder))
        loads[best] += piece[1][-1]
        chosen[piece] = best
    for one, piece in zip(parameters, mine):
        one.is_measured_here = chosen[piece] == rank


def piece_of(tensor: Any, models: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Tells pieces of a parameter apart; the last member is how many elements it has. Equal ones are the same
    elements.
    """
    placements = getattr(tensor, "placements", None)
    if placements is not None:
        return (*_box_of(tensor), tensor.to_local().numel())
    if getattr(tensor, "_hp_mapping", None) is not None:  # DeepSpeed
        address = tensor._hp_mapping.lp_fragment_address
        return ("fragment", address.start, address.numel)
    if hasattr(tensor, "ds_id"):
        return ("stage 3", _rank(), int(getattr(tensor, "ds_numel", tensor.numel())))
    if getattr(tensor, "tensor_model_parallel", False):  # Megatron
        return ("tensor parallel", _rank_in_megatron("tensor_model_parallel"), tensor.numel())
    if getattr(tensor, "allreduce", True) is False:
        return ("expert parallel", _rank_in_megatron("expert_model_parallel"), tensor.numel())
    if any(
        type(module).__name__ == "FullyShardedDataParallel" for model in models for module in model.modules()
    ):
        return ("flat shard", _rank(), tensor.numel())
    return ("whole", tensor.numel())


def _box_of(tensor: Any) -> tuple[Any, ...]:
    """Where the local shard of a DTensor begins in the whole, and how large it is."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    try:
        shape, offset = compute_local_shape_and_global_offset(
            tensor.shape, tensor.device_mesh, tensor.placements
        )
        return ("box", tuple(offset), tuple(shape))
    except Exception as error:  # strided or uneven placements of some releases
        log.debug("monitor: the place of a shard is not known: %s", error)
        coordinate = tensor.device_mesh.get_coordinate() or []
        sharded = [c for c, placement in zip(coordinate, tensor.placements) if not placement.is_replicate()]
        return ("shard", tuple(sharded), tuple(tensor.to_local().shape))


def _rank() -> int:
    from torch import distributed

    return distributed.get_rank()


def _rank_in_megatron(kind: str) -> int:
    """The rank in a group of Megatron; without it that of the process, so that no two pieces are taken for
    the same.
    """
    import sys

    state = sys.modules.get("megatron.core.parallel_state")
    find = getattr(state, f"get_{kind}_rank", None)
    try:
        return _rank() if find is None else int(find())
    except (AssertionError, RuntimeError):
        return _rank()
