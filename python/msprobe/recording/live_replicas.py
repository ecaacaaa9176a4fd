# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The replica check while a training runs: one number of each step is exchanged between the ranks that hold
copies of a model (docs/layouts.md).
"""

from __future__ import annotations

import datetime
import hashlib
import struct
import time
from typing import Any

from msprobe.files.ranges import numbers
from msprobe.native import torch_adapter
from msprobe.recording.recorder import QuietRecorder
from msprobe.training.job_layout import job_layout
from msprobe.training.model_parts import named_parameters
from msprobe.training.torch_state import memory_of

_PATIENCE = datetime.timedelta(seconds=60)
_AT_THE_END = 5.0  # seconds: another rank may be gone
_BITS = 1 << 64


class ReplicasDisagree(Exception):
    """Ends the check; the training goes on."""


class LiveReplicas(QuietRecorder):
    """Compares gradients and weights after each step. The exchange of a step is looked at when the next one
    ends, so that nobody waits for it.
    """

    name = "replicas"

    def __init__(self) -> None:
        self._models: list[Any] = []
        self._group: _Group | None = None
        self._running: _Exchange | None = None

    def models_found(self, models: list[Any]) -> None:
        self._models = models

    def end_step(self, step: int) -> None:
        """Raises ReplicasDisagree for the step before."""
        self._conclude(wait=True)
        if self._group is None:
            self._group = _group_of(self._named())
        self._running = _Exchange(self._group, step, self._digests(self._group.without))

    def close(self) -> None:
        self._conclude(wait=False)

    def _conclude(self, *, wait: bool) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.conclude(wait=wait)

    def _named(self) -> list[tuple[str, Any]]:
        several = len(self._models) > 1
        return [(f"{place}." if several else "", model) for place, model in enumerate(self._models)]

    def _digests(self, without: frozenset[str]) -> dict[str, int]:
        parameters = [
            (prefix + name, parameter)
            for prefix, model in self._named()
            for name, parameter in named_parameters(model)
            if prefix + name not in without
        ]
        tensors = [(f"gradient of {name}", one.grad) for name, one in parameters if one.grad is not None]
        tensors += [(f"weight {name}", one) for name, one in parameters]
        named = {name: memory_of(one.detach())[0] for name, one in tensors}
        # Of what lies in memory a checksum is half the work, and one call. One of a GPU needs a copy of it.
        found = iter(torch_adapter().checksums([one for one in named.values() if one.is_cpu]))
        return {name: next(found) if one.is_cpu else _digest(one) for name, one in named.items()}


def _digest(tensor: Any) -> int:
    """A scalar as a tensor of one element."""
    found: Any = torch_adapter().summarize(tensor.reshape(-1) if tensor.dim() == 0 else tensor, sketch=True)
    return 0 if found["sketch"] is None else int(found["sketch"]["digest"])


class _Group:
    """The ranks that hold copies, and a channel of their own."""

    def __init__(self, ranks: list[int], why: str, without: frozenset[str]) -> None:
        from torch import distributed

        self.ranks, self.why, self.without = ranks, why, without
        # Only its members meet; the training's own groups, and the order in them, stay as they are.
        self._channel: Any = distributed.new_group(
            ranks, timeout=_PATIENCE, backend="gloo", use_local_synchronization=True
        )

    def gather(self, values: list[int]) -> tuple[Any, list[Any]]:
        """Starts it: the handle, and a tensor of each rank."""
        import torch

        own = torch.tensor([_signed(value) for value in values], dtype=torch.int64)
        found = [torch.empty_like(own) for _ in self.ranks]
        return self._channel.allgather([found], [own]), found


def _group_of(models: list[tuple[str, Any]]) -> _Group:
    """Raises ReplicasDisagree where there is nothing to compare."""
    copies = job_layout(models).get("copies", [])
    if not copies:
        raise ReplicasDisagree("nothing says which ranks hold copies: expected DistributedDataParallel")
    first = copies[0]
    return _Group(
        first["ranks"], first["wrapper"], frozenset(first["model"] + name for name in first["without"])
    )


def _signed(value: int) -> int:
    return value - _BITS if value >= _BITS // 2 else value


class _Exchange:
    """Of one step: how many values there are, and one number of them all."""

    def __init__(self, group: _Group, step: int, digests: dict[str, int]) -> None:
        self._group, self._step, self._digests = group, step, digests
        packed = hashlib.blake2b(struct.pack(f"<{len(digests)}Q", *digests.values()), digest_size=8).digest()
        self._work, self._found = group.gather([len(digests), int.from_bytes(packed, "little")])

    def conclude(self, *, wait: bool) -> None:
        """Raises ReplicasDisagree that names the first value."""
        latest = time.monotonic() + _AT_THE_END
        while not wait and not self._work.is_completed():
            if time.monotonic() > latest:
                return
            time.sleep(0.01)
        self._work.wait()
        first = self._found[0].tolist()
        if all(one.tolist() == first for one in self._found):
            return
        counts = {int(one[0]) for one in self._found}
        if len(counts) > 1:
            raise ReplicasDisagree(
                f"step {self._step}: ranks have {' and '.join(map(str, sorted(counts)))} values"
            )
        work, found = self._group.gather(list(self._digests.values()))
        work.wait()
        for place, name in enumerate(self._digests):
            values = [int(one[place]) for one in found]
            if len(set(values)) > 1:
                usual = max(set(values), key=values.count)
                off = [rank for rank, value in zip(self._group.ranks, values) if value != usual]
                where = f"; off: {numbers('rank', off)}" if len(off) * 2 < len(values) else ""
                ranks = numbers("rank", self._group.ranks)
                raise ReplicasDisagree(
                    f"step {self._step}: the {name} is not the same on {ranks}, which "
                    f"{self._group.why} keeps equal{where}"
                )
