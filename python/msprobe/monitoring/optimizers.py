# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where the optimizers of torch, Megatron and DeepSpeed keep the gradient and the moments of a parameter.

A shard of this process is what is found where they are sharded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.engines import BY_FRAGMENT, BY_PIECE
from msprobe.training.partitioned_gradients import without_padding

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Moments:
    """Adam's running means of a parameter; None: it has none yet."""

    first: Any = None
    second: Any = None
    step: Any = None  # a number or a tensor of one
    options: dict[str, Any] | None = None  # of its group: betas, eps, lr


class OptimizerView(Protocol):
    """What one kind of optimizer knows of a parameter of the model."""

    def keeps(self, parameter: Any) -> bool:
        """Whether this process updates any of it."""

    def gradient(self, parameter: Any) -> Any:
        """What the next step will see; None: there is none."""

    def moments(self, parameter: Any) -> Moments:
        """Empty ones before the first step."""

    def master(self, parameter: Any) -> Any:
        """The numbers that are updated: the parameter, or its copy in float32."""

    def piece(self, parameter: Any) -> tuple[Any, ...] | None:
        """Which elements of what the process has of the parameter gradient(), moments() and master() are
        about; the last member is how many. Empty: none; None: all.
        """


def view_of(optimizer: Any, *, main_grad: bool) -> OptimizerView:
    """By the class of the optimizer and what it has; anything else is taken for one of torch.

    main_grad: gradients are in `parameter.main_grad`, as Megatron keeps them.
    """
    parts = _parts(optimizer)
    names = {type(part).__name__ for part in parts}
    if names & BY_PIECE:
        return Stage3View(optimizer)
    if names & BY_FRAGMENT:
        return FragmentView(optimizer)
    masters: dict[Any, Any] = {}
    for part in parts:
        masters.update(_masters(part))
    is_sharded = any(hasattr(part, "shard_fp32_from_float16_groups") for part in parts)
    return PlainView(parts, masters, main_grad=main_grad, is_sharded=is_sharded)


def gradient_scale(optimizer: Any) -> float:
    """What gradients are still multiplied with when step() is called, as it divides them itself: a fused
    optimizer of torch, Megatron's, DeepSpeed's.
    """
    ask = getattr(optimizer, "get_loss_scale", None)
    for found in (
        getattr(optimizer, "grad_scale", None),
        ask() if callable(ask) else None,
        getattr(optimizer, "loss_scale", None),
    ):
        if found is not None:
            return float(found)
    return 1.0


def _parts(optimizer: Any) -> list[Any]:
    """Megatron's ChainedOptimizer holds several."""
    chained = getattr(optimizer, "chained_optimizers", None)
    return list(chained) if chained else [optimizer]


_MASTER_GROUPS = (
    ("float16_groups", "fp32_from_float16_groups"),  # Float16OptimizerWithFloat16Params
    ("model_float16_groups", "shard_float16_groups"),  # DistributedOptimizer that keeps masters itself
    ("model_float16_groups", "shard_fp32_from_float16_groups"),  # DistributedOptimizer
    ("model_fp32_groups", "shard_fp32_groups"),
)


def _masters(part: Any) -> Iterator[tuple[Any, Any]]:
    """Parameters of the model and what the optimizer updates in their place."""
    for low_groups, high_groups in _MASTER_GROUPS:
        for low, high in zip(getattr(part, low_groups, ()), getattr(part, high_groups, ())):
            yield from ((parameter, master) for parameter, master in zip(low, high) if master is not None)


class PlainView:
    """An optimizer of torch, or one of Megatron around it, which may update a flat shard in float32 instead
    of the parameter.
    """

    def __init__(
        self, parts: list[Any], masters: dict[Any, Any], *, main_grad: bool, is_sharded: bool = False
    ) -> None:
        self._parts = parts
        self._masters = masters
        self._main_grad = main_grad
        self._is_sharded = is_sharded  # each process has masters of what it updates, and of nothing else
        self._groups: dict[int, dict[str, Any]] = {}

    def keeps(self, parameter: Any) -> bool:
        if self._is_sharded:
            return parameter in self._masters
        return not self._masters or parameter in self._masters or not self._is_low_precision(parameter)

    def gradient(self, parameter: Any) -> Any:
        gradient = getattr(parameter, "main_grad", None) if self._main_grad else parameter.grad
        master = self._masters.get(parameter)
        if gradient is None or master is None or master.numel() == parameter.numel():
            return gradient
        start = self._start(parameter, master)
        return gradient.reshape(-1)[start : start + master.numel()]

    def _start(self, parameter: Any, master: Any) -> int:
        starts = (_start_of_shard(part, parameter) for part in self._parts)
        start = next((found for found in starts if found is not None), None)
        if start is None:
            # Buffers are cut between two parameters: the first one in a shard has its end there, the last one
            # its beginning.
            start = parameter.numel() - master.numel() if parameter is next(iter(self._masters)) else 0
        return start

    def piece(self, parameter: Any) -> tuple[Any, ...] | None:
        if not self.keeps(parameter):
            return ()
        master = self._masters.get(parameter)
        if master is None or not self._is_sharded:
            return None
        if master.numel() == parameter.numel():
            return ("shard", 0, master.numel())
        return ("shard", self._start(parameter, master), master.numel())

    def master(self, parameter: Any) -> Any:
        return self._masters.get(parameter, parameter)

    def moments(self, parameter: Any) -> Moments:
        master = self._masters.get(parameter, parameter)
        for part in self._parts:
            state = _state_of(part, master)
            if state:
                options = self._options(part, master)
                step = state.get("step", (options or {}).get("step"))
                return Moments(state.get("exp_avg"), state.get("exp_avg_sq"), step, options)
        return Moments()

    def _is_low_precision(self, parameter: Any) -> bool:
        import torch

        return parameter.dtype in (torch.float16, torch.bfloat16)

    def _options(self, part: Any, master: Any) -> dict[str, Any] | None:
        if not self._groups:
            for one in self._parts:
                for group in getattr(one, "param_groups", ()):
                    self._groups.update((id(parameter), group) for parameter in group["params"])
        return self._groups.get(id(master))


def _state_of(part: Any, master: Any) -> dict[str, Any] | None:
    """The state of the optimizer itself, of the one it wraps, or of the copy of it on the host."""
    for holder in (part, getattr(part, "optimizer", None)):
        for attribute in ("param_to_cpu_states_map", "state"):
            states = getattr(holder, attribute, None)
            if states is None or not hasattr(states, "get"):
                continue
            # get: a defaultdict must not make an entry for a parameter that is asked for
            state = states.get(master)
            if state:
                return dict(state)
    return None


def _start_of_shard(part: Any, parameter: Any) -> int | None:
    """Where the shard of this process begins in the flat parameter, as DistributedOptimizer knows it."""
    find = getattr(part, "_get_model_param_range_map", None)
    if find is None:
        return None
    try:
        return int(find(parameter)["param"].start)
    except (KeyError, AttributeError, TypeError):
        return None


class FragmentView:
    """DeepSpeed's BF16_Optimizer and ZeRO 1 and 2: a parameter of the model has a fragment of a flat one."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def keeps(self, parameter: Any) -> bool:
        return getattr(parameter, "_hp_mapping", None) is not None

    def gradient(self, parameter: Any) -> Any:
        fragment = getattr(parameter, "_hp_mapping", None)
        if fragment is None:
            return None
        index = getattr(parameter, "_index_in_param_group", None)
        try:
            gradient = fragment.get_lp_grad_fragment(index)
        except (KeyError, IndexError, ValueError, AttributeError):
            return None
        address = getattr(fragment, "lp_fragment_address", None)
        if gradient is None or address is None or gradient.numel() == address.numel:
            return gradient
        # BF16_Optimizer has the whole gradient in every process.
        return gradient.reshape(-1)[address.start : address.start + address.numel]

    def piece(self, parameter: Any) -> tuple[Any, ...] | None:
        fragment = getattr(parameter, "_hp_mapping", None)
        if fragment is None:
            return ()
        address = fragment.lp_fragment_address
        return ("fragment", address.start, address.numel)

    def master(self, parameter: Any) -> Any:
        fragment = getattr(parameter, "_hp_mapping", None)
        return parameter if fragment is None else fragment.hp_fragment

    def moments(self, parameter: Any) -> Moments:
        fragment = getattr(parameter, "_hp_mapping", None)
        found = getattr(fragment, "optim_fragment", None)
        if not found:
            return Moments()
        groups = getattr(self._optimizer, "param_groups", None) or [{}]
        index = getattr(fragment, "param_group_index", 0) or 0
        options = groups[index if index < len(groups) else 0]
        step = found.get("step", options.get("step"))
        return Moments(found.get("exp_avg"), found.get("exp_avg_sq"), step, options)


class Stage3View:
    """ZeRO 3: parameters are sharded as well; the optimizer is asked for the part of this process."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def keeps(self, parameter: Any) -> bool:
        return hasattr(parameter, "ds_id")

    def gradient(self, parameter: Any) -> Any:
        return self._ask("get_local_fp32_grad_for_param", parameter)

    def master(self, parameter: Any) -> Any:
        found = self._ask("get_local_fp32_param", parameter)
        return shard_of(parameter) if found is None else found

    def piece(self, parameter: Any) -> tuple[Any, ...] | None:
        return None

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            found = getattr(self._optimizer, method)(*arguments)
        except (KeyError, IndexError, ValueError, AttributeError, AssertionError):
            return None
        return without_padding(arguments[0], found)

    def moments(self, parameter: Any) -> Moments:
        first = self._ask("get_local_fp32_param", parameter, "exp_avg")
        second = self._ask("get_local_fp32_param", parameter, "exp_avg_sq")
        if first is None or second is None:
            return Moments()
        groups = getattr(self._optimizer, "param_groups", None) or [{}]
        return Moments(first, second, groups[0].get("step"), groups[0])


def shard_of(parameter: Any) -> Any:
    """What this process has of a parameter, where it is not the tensor itself: with ZeRO 3 that is empty
    between two uses. None: the tensor itself.
    """
    shard = getattr(parameter, "ds_tensor", None)
    if shard is not None:
        return without_padding(parameter, shard)
    padding = getattr(parameter, "_shard_numel_padded", 0)  # of FSDP's FlatParameter
    if padding and parameter.dim() == 1 and parameter.numel() > padding:
        return parameter[: parameter.numel() - padding]
    return None
