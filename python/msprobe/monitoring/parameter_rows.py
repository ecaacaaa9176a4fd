# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the monitor measures of parameters: gradients, weights, moments, and pairs of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from msprobe.monitoring.layers import PlainNames
from msprobe.monitoring.optimizers import gradient_scale, shard_of, view_of
from msprobe.monitoring.quantities import chosen_metrics, quantities, quantity
from msprobe.native import torch_adapter
from msprobe.training.model_parts import named_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe._core import MonitorSession
    from msprobe._torch import MonitorMeter
    from msprobe.config import MonitorConfig
    from msprobe.monitoring.optimizers import OptimizerView

_OF_POWERS = {"kurtosis", "abs_mean"}  # metrics of tensors that need sums of |x| or x^4


@dataclass
class WatchedParameter:
    """A parameter, and the labels of its rows by quantity."""

    name: str
    tensor: Any
    labels: dict[str, int] = field(default_factory=dict)
    is_measured_here: bool = True  # False: another process of the group does it
    is_kept_here: bool = True  # the same of its gradient, and of what the optimizer keeps of it
    before: Any = None  # weights before the step, kept on the host, as the next
    last_gradient: Any = None


def parameters_of(models: Sequence[tuple[str, Any]], patterns: Sequence[str]) -> list[WatchedParameter]:
    """Those with gradients whose names match, each once."""
    found: list[WatchedParameter] = []
    seen: set[int] = set()
    for prefix, model in models:
        names = PlainNames(model)
        for name, tensor in named_parameters(model):
            if not tensor.requires_grad or id(tensor) in seen:
                continue
            full = prefix + names.of(name)
            if is_wanted(full, patterns):
                seen.add(id(tensor))
                found.append(WatchedParameter(full, tensor))
    return found


def is_wanted(name: str, patterns: Sequence[str]) -> bool:
    """A pattern is a name with * and ?, or the beginning of one up to a dot."""
    return not patterns or any(
        fnmatchcase(name, pattern) or name.startswith(pattern + ".") for pattern in patterns
    )


class ParameterRows:
    """Adds the rows of parameters to a frame.

    label: makes a label for a quantity and a parameter.
    """

    def __init__(
        self,
        parameters: list[WatchedParameter],
        settings: MonitorConfig,
        meter: MonitorMeter,
        session: MonitorSession,
        label: Callable[[str, str], int],
    ) -> None:
        self.parameters = parameters
        self._settings = settings
        self._meter = meter
        self._frame = session.frame("gradient")  # rows of all quantities
        self._calls = session.calls
        self._quantities = settings.quantities
        self._meters: dict[str, MonitorMeter] = {}  # by quantity
        self._lean: dict[tuple[bool, bool], MonitorMeter] = {}
        self._views: dict[int, OptimizerView] = {}
        self._of_optimizer: dict[int, list[WatchedParameter]] = {}
        # In blocks by quantity, so that the rows of one lie side by side.
        for of in quantities():
            if of.scope == "parameter" and of.kind != "number" and of.group in self._quantities:
                for one in parameters:
                    one.labels[of.name] = label(of.name, one.name)
                self._meters[of.name] = self._meter_for(of.name)

    # ---- the moments of a step

    def before_update(self, optimizer: Any, *, recorded: bool, next_recorded: bool) -> None:
        """When the gradients of an optimizer are complete."""
        view, parameters = self._view(optimizer)
        direction = "direction" in self._quantities
        if recorded:
            if "gradient" in self._quantities or direction:
                gradients = [view.gradient(one.tensor) for one in parameters]
                self._measure_gradients(optimizer, view, parameters, gradients)
            if "update" in self._quantities:
                self._keep(parameters, "before", [view.master(one.tensor) for one in parameters])
        if direction and next_recorded:
            self._keep(parameters, "last_gradient", [view.gradient(one.tensor) for one in parameters])

    def end_step(self, optimizers: Sequence[Any]) -> None:
        """Behind the last optimizer of a recorded step."""
        if "weight" in self._quantities:
            chosen = [one for one in self.parameters if one.is_measured_here]
            self._measure("weight", chosen, [_weight(one.tensor) for one in chosen])
        for optimizer in optimizers:
            view, parameters = self._view(optimizer)
            if "moment" in self._quantities:
                moments = [view.moments(one.tensor) for one in parameters]
                self._measure("moment", parameters, [of.first for of in moments])
                self._measure("second_moment", parameters, [of.second for of in moments])
            if "update" in self._quantities:
                known = [one for one in parameters if one.before is not None]
                self._measure_pairs(
                    "update",
                    known,
                    [one.before for one in known],
                    [view.master(one.tensor) for one in known],
                    left_is_kept=True,
                )

    def _measure_gradients(
        self, optimizer: Any, view: OptimizerView, parameters: list[WatchedParameter], gradients: list[Any]
    ) -> None:
        if "gradient" in self._quantities:
            self._measure("gradient", parameters, gradients)
            scale = gradient_scale(optimizer)
            if scale not in (0.0, 1.0):
                labels = [one.labels["gradient"] for one in parameters]
                self._frame.scale(labels, 1.0 / scale)
        if "direction" in self._quantities:
            first = [view.moments(one.tensor).first for one in parameters]
            self._measure_pairs("gradient_moment", parameters, gradients, first)
            last = [one.last_gradient for one in parameters]
            self._measure_pairs("gradient_change", parameters, last, gradients, left_is_kept=True)

    # ---- measuring

    def _meter_for(self, name: str) -> MonitorMeter:
        """One that takes no more than the metrics of a quantity need: sums of powers and counts of small
        elements take half as long again as everything else.
        """
        metrics = set(chosen_metrics(quantity(name), self._settings.metrics))
        powers, small = bool(metrics & _OF_POWERS), "zeros" in metrics
        if powers and small:
            return self._meter
        key = (powers, small)
        if key not in self._lean:
            eps = self._settings.eps if small else 0.0
            self._lean[key] = torch_adapter().MonitorMeter(eps=eps, powers=powers)
        return self._lean[key]

    def _measure(self, of: str, parameters: Sequence[WatchedParameter], tensors: Sequence[Any]) -> None:
        chosen = [
            (one.labels[of], tensor)
            for one, tensor in zip(parameters, tensors)
            if tensor is not None and (one.is_kept_here or of == "weight")
        ]
        if chosen:
            labels, values = zip(*chosen)
            self._meters[of].measure(self._frame, list(labels), list(values), self._calls)

    def _measure_pairs(
        self,
        of: str,
        parameters: Sequence[WatchedParameter],
        left: Sequence[Any],
        right: Sequence[Any],
        *,
        left_is_kept: bool = False,
    ) -> None:
        chosen = [
            (one.labels[of], a, b)
            for one, a, b in zip(parameters, left, right)
            if a is not None and b is not None and one.is_kept_here
        ]
        if chosen:
            labels, lefts, rights = zip(*chosen)
            self._meter.measure_pairs(self._frame, list(labels), list(lefts), list(rights), left_is_kept)

    def _keep(self, parameters: Sequence[WatchedParameter], place: str, tensors: Sequence[Any]) -> None:
        """Copies of tensors, for pairs of which they are the left side."""
        kept = self._meter.keep(
            [getattr(one, place) for one in parameters],
            [tensor if one.is_kept_here else None for one, tensor in zip(parameters, tensors)],
        )
        for one, copy in zip(parameters, kept):
            setattr(one, place, copy)

    def view(self, optimizer: Any) -> OptimizerView:
        return self._view(optimizer)[0]

    def _view(self, optimizer: Any) -> tuple[OptimizerView, list[WatchedParameter]]:
        """How the optimizer keeps things, and which parameters are its own."""
        key = id(optimizer)
        if key not in self._views:
            main_grad = any(getattr(one.tensor, "main_grad", None) is not None for one in self.parameters)
            view = self._views[key] = view_of(optimizer, main_grad=main_grad)
            own = {id(p) for group in getattr(optimizer, "param_groups", ()) for p in group["params"]}
            of_torch = [one for one in self.parameters if id(one.tensor) in own]
            self._of_optimizer[key] = of_torch or [one for one in self.parameters if view.keeps(one.tensor)]
        return self._views[key], self._of_optimizer[key]


def _weight(tensor: Any) -> Any:
    shard = shard_of(tensor)
    return tensor if shard is None else shard


def spectra(parameters: Sequence[WatchedParameter]) -> list[tuple[float, float]]:
    """Spectral norm and stable rank of each matrix; of a sharded one the whole, which is gathered for it."""
    import torch

    whole = []
    with torch.no_grad():
        for one in parameters:
            gather = getattr(one.tensor, "full_tensor", None)
            whole.append(one.tensor.detach() if gather is None else gather().detach())
    found: list[tuple[float, float]] = torch_adapter().monitor_spectra(whole)
    return found
