# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One value for a tensor that lies in many processes.

Statistics are kept as sums that can be added up and extremes of which the largest can be taken, so two
collectives merge all rows of a step. A tensor that several processes have is measured by one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.engines import (
    EXPERT_PARALLEL,
    TENSOR_PARALLEL,
    group_of,
    is_cut_by_megatron,
    of_megatron,
    shards_flat,
)
from msprobe.monitoring.quantities import quantities
from msprobe.native import Error, log, torch_adapter
from msprobe.training.fully_sharded import parameter_groups
from msprobe.training.model_parts import modules, parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe._core import MonitorFrame, MonitorLabels
    from msprobe.monitoring.optimizers import OptimizerView
    from msprobe.monitoring.parameter_rows import WatchedParameter

    _Key = tuple[str, int]  # name and group of a label

_TIMEOUT_SECONDS = 300  # in which the others come to a step


class WholeTensors:
    """Merges the frames of processes. Each of them must call merge() for the same steps: what comes from
    different ones is never put together.

    members: the processes; None: all. Each of them makes this object at the same time.
    peers: the processes, this one among them, that work on the same data with other parts of the model. What
        several of them have of a module, to the last bit, is the same tensor, and is counted once.
    """

    def __init__(
        self, labels: MonitorLabels, peers: Sequence[int] = (), members: Sequence[int] | None = None
    ) -> None:
        from datetime import timedelta

        from torch import distributed

        self._labels = labels
        # A group of our own: what goes wrong in it does not end the training's. One of some processes does
        # not wait for the others.
        # The stubs of some releases let it be the number of a group that this process is no part of.
        group: Any = distributed.new_group(
            None if members is None else list(members),
            backend="gloo",
            timeout=timedelta(seconds=_TIMEOUT_SECONDS),
            use_local_synchronization=members is not None,
        )
        self._group = group
        everyone = distributed.get_process_group_ranks(group)
        self._first = everyone[0]
        self._place = distributed.get_rank(group)
        self._peers = tuple(everyone.index(peer) for peer in peers if peer in everyone)
        self._known = 0  # labels of this process that all know
        self._shared: dict[_Key, int] = {}  # label here, of all that any process has
        self._order: list[_Key] = []
        self._counts: dict[_Key, int] = {}
        self._left: set[int] = set()  # labels of rows that a peer counts
        self.collectives = 0  # in the last merge(), for tests

    @property
    def group(self) -> Any:
        return self._group

    def merge(
        self, step: int, frame: MonitorFrame, counts: dict[int, int], loss: float | None
    ) -> float | None:
        """Puts the values of whole tensors into `frame`, and returns the mean loss of those that have one.

        counts: how many numbers the rows of counts have, by label. Labels are exchanged at the first merge;
        those that come later are in the step after the one in which they came. Raises Error when the others
        have ended, do not come, or are at another step.
        """
        try:
            return self._merge(step, frame, counts, loss)
        except RuntimeError as error:
            raise Error(
                f"the other processes have ended, or did not come to this step within {_TIMEOUT_SECONDS} s "
                f"({error}). Where some step more often than others, `group` says who steps together"
            ) from error

    def _merge(
        self, step: int, frame: MonitorFrame, counts: dict[int, int], loss: float | None
    ) -> float | None:
        import torch
        from torch import distributed

        self.collectives = 0
        has_news = len(self._labels) > self._known
        seen = self._fingerprints(frame, counts) if has_news else {}
        if self._known == 0:
            self._exchange(step, counts, seen)
            has_news = False
        labels = [self._shared[key] for key in self._order]
        counted = [key for key in self._order if self._counts.get(key)]
        packing = (labels, [self._shared[key] for key in counted], [self._counts[key] for key in counted])
        summed, largest = torch_adapter().monitor_pack(frame, *packing, left=sorted(self._left))
        losses = [0.0, 0.0] if loss is None else [loss, 1.0]
        summed = torch.cat([summed, torch.tensor(losses, dtype=torch.float64)])
        news = torch.tensor([step, -step, float(has_news)], dtype=torch.float64)
        largest = torch.cat([largest, news])
        distributed.all_reduce(summed, group=self._group)
        distributed.all_reduce(largest, op=distributed.ReduceOp.MAX, group=self._group)
        self.collectives += 2
        last, first = int(largest[-3]), -int(largest[-2])
        if last != first:
            raise _of_steps(first, last)
        torch_adapter().monitor_unpack(frame, *packing, summed[:-2], largest[:-3])
        if largest[-1] > 0:
            self._exchange(step, counts, seen)
        total, count = summed[-2:].tolist()
        return total / count if count else None

    def of_first(self, value: Any) -> Any:
        """What the first process has."""
        from torch import distributed

        values = [value]
        distributed.broadcast_object_list(values, self._first, group=self._group)
        return values[0]

    def leave(self) -> None:
        """The others, should they wait for this process, get an error at once."""
        from torch import distributed

        group, self._group = self._group, None  # its connections are closed with the last reference
        if group is not None and distributed.is_initialized():
            distributed.destroy_process_group(group)

    def _exchange(self, step: int, counts: dict[int, int], seen: dict[_Key, tuple[float, ...]]) -> None:
        """Which labels there are, in any process, and which rows of peers are the same."""
        from torch import distributed

        mine = self._labels.all()
        names = {(name, group): counts.get(label, 0) for label, (_, name, group) in enumerate(mine)}
        everyone: list[Any] = [None] * distributed.get_world_size(self._group)
        distributed.all_gather_object(everyone, (names, seen, step), group=self._group)
        steps = [one[2] for one in everyone]
        if min(steps) != max(steps):  # before anything of them has been put together
            raise _of_steps(min(steps), max(steps))
        here = {(name, group): label for label, (_, name, group) in enumerate(mine)}
        for names, *_ in everyone:
            for key, count in names.items():
                if key not in self._shared:
                    label = here.get(key)
                    if label is None:
                        label = here[key] = self._labels.add(0, key[0], key[1])
                    self._shared[key] = label
                if count:
                    self._counts[key] = max(count, self._counts.get(key, 0))
        before = [everyone[peer][1] for peer in self._peers if peer < self._place]
        for key, numbers in seen.items():
            if any(one.get(key) == numbers for one in before):
                self._left.add(here[key])
        self._order = sorted(self._shared)
        self._known = len(self._labels)

    def _fingerprints(self, frame: MonitorFrame, counts: dict[int, int]) -> dict[_Key, tuple[float, ...]]:
        """What was measured of modules, of labels that are new. Rows that could be the same by chance, as
        those of tensors that are all zero, are left out: in their shares and means it makes no difference.
        """
        all_ = self._labels.all()
        labels = list(range(self._known, len(all_)))
        if len(self._peers) < 2 or not labels:
            return {}
        sizes = {label: counts[label] for label in labels if counts.get(label)}
        packed = torch_adapter().monitor_pack(frame, labels, list(sizes), list(sizes.values()))
        summed, largest = (tensor.tolist() for tensor in packed)
        width, height = (len(summed) - sum(sizes.values())) // len(labels), len(largest) // len(labels)
        at = width * len(labels)
        found = {}
        for place, label in enumerate(labels):
            tally = summed[at : at + sizes.get(label, 0)]
            at += len(tally)
            most, least_negated, kind = largest[place * height : (place + 1) * height]
            is_telling = len(set(tally)) > 1 if tally else most != -least_negated
            _, name, group = all_[label]
            of = quantities()[group]
            if kind >= 0 and is_telling and of.scope == "module" and of.name != "communication":
                found[name, group] = (*summed[place * width : (place + 1) * width], most, *tally)
        return found


def _of_steps(first: int, last: int) -> Error:
    return Error(
        f"processes are at different steps, {first} to {last}: their values are not put together. Where some "
        "step more often than others, `group` says who steps together"
    )


def peers_of(models: Sequence[Any]) -> tuple[int, ...]:
    """The processes of tensor parallelism that this one belongs to: along the dimensions of a mesh over which
    parameters are split, without those of fully_shard(); with Megatron, as it says.
    """
    from torch import distributed

    if (own := of_megatron(TENSOR_PARALLEL, "group")) is not None:
        return tuple(distributed.get_process_group_ranks(own))
    rank = _rank()
    same_parameters = {rank}
    for model in models:
        for module in modules(model):
            for group in parameter_groups(module):
                same_parameters.update(group.mesh_info.mesh.mesh.flatten().tolist())
    peers = {rank}
    for model in models:
        for parameter in parameters(model):
            if getattr(parameter, "placements", None) is not None:
                peers.update(_along_split(parameter, same_parameters, rank))
    return tuple(sorted(peers))


def _along_split(parameter: Any, same_parameters: set[int], rank: int) -> set[int]:
    mesh, coordinate = parameter.device_mesh, parameter.device_mesh.get_coordinate()
    if coordinate is None:
        return set()
    index: list[Any] = list(coordinate)
    for dim, placement in enumerate(parameter.placements):
        line = [*coordinate[:dim], slice(None), *coordinate[dim + 1 :]]
        others = set(mesh.mesh[tuple(line)].tolist()) & same_parameters
        if placement.is_shard() and others <= {rank}:
            index[dim] = slice(None)
    return set(mesh.mesh[tuple(index)].reshape(-1).tolist())


def share_parameters(
    parameters: Sequence[WatchedParameter],
    models: Sequence[Any],
    views: Sequence[OptimizerView] = (),
    group: Any = None,
) -> None:
    """Decides which process measures a piece of a parameter that several have: they take turns. What the
    optimizers of `views` keep of it may be another piece than what the model has. group: None: all processes.
    """
    from torch import distributed

    rank = distributed.get_rank(group)
    mine: list[tuple[Any, Any]] = []
    for one in parameters:
        of_model = piece_of(one.tensor, models)
        kept = next((found for view in views if (found := view.piece(one.tensor)) is not None), None)
        of_optimizer = of_model if kept is None else (*of_model[:-1], *kept) if kept else None
        mine.append(((one.name, of_model), None if of_optimizer is None else (one.name, of_optimizer)))
    everyone: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(everyone, [list({*pair} - {None}) for pair in mine], group=group)
    holders: dict[Any, list[int]] = {}
    for holder, pieces in enumerate(everyone):
        for piece in (piece for pair in pieces for piece in pair):
            holders.setdefault(piece, []).append(holder)
    loads = [0] * len(everyone)
    chosen = {}
    # The same in every process: by the order of the pieces, to who has the least to do.
    for piece in sorted(holders, key=str):
        best = min(holders[piece], key=lambda holder: (loads[holder], holder))
        loads[best] += piece[1][-1]
        chosen[piece] = best
    for one, (piece, kept) in zip(parameters, mine):
        one.is_measured_here = chosen[piece] == rank
        one.is_kept_here = kept is not None and chosen[kept] == rank


def piece_of(tensor: Any, models: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Tells pieces of a parameter apart; the last member is how many elements it has. Equal ones are the same
    elements.
    """
    placements = getattr(tensor, "placements", None)
    if placements is not None:
        return (*_box_of(tensor), tensor.to_local().numel())
    if hasattr(tensor, "ds_id"):
        return ("stage 3", _rank(), int(getattr(tensor, "ds_numel", tensor.numel())))
    if is_cut_by_megatron(tensor):
        return ("tensor parallel", _rank_in_megatron(TENSOR_PARALLEL), tensor.numel())
    if getattr(tensor, "allreduce", True) is False:
        return ("expert parallel", _rank_in_megatron(EXPERT_PARALLEL), tensor.numel())
    for model in models:
        for module in modules(model):
            if shards_flat(module) and _is_sharded(module):
                return ("flat shard", _rank_in(group_of(module)), tensor.numel())
    return ("whole", tensor.numel())


def _is_sharded(module: Any) -> bool:
    return "NO_SHARD" not in str(getattr(module, "sharding_strategy", ""))


def _rank_in(group: Any) -> int:
    from torch import distributed

    return int(distributed.get_rank(group))


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
    """The rank in a kind of parallelism of Megatron; without it that of the process, so that no two pieces
    are taken for the same.
    """
    found = of_megatron(kind, "rank")
    return _rank() if found is None else int(found)
