# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What an optimizer's step made of some elements of each parameter, against the formula of its class.

The formulas are those of the documentation of torch.optim, evaluated in float64 from what the step found;
that of the parameter from the states that the step left, so each deviation is measured where it arises. It is
given in what rounding allows in the type of the parameter: at most about 1 for a correct step, in whatever
order and with whatever kernel it computes, hundreds or thousands for another rule.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from msprobe.native import core, torch_adapter
from msprobe.training.optimizer_step import scaler_skips

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Tensors = dict[str, Any]  # name ("parameter", "gradient" or of a state) -> tensor of float64
    # Before and after a step; the settings of the group, with `step` (its number) and `roundoff`.
    Rule = Callable[[Tensors, Tensors, Mapping[str, Any]], Iterator["Expected"]]

_PARAMETERS, _ELEMENTS = 32, 64
"""Evenly spread over a group, and over each of them: all of a group have the same rule."""

_WHOLE_PARAMETERS, _LARGEST_WHOLE = 4, 1 << 16
"""Where the whole tensor is needed: so many parameters of a group, of at most so many elements."""

_OF_NUMBERS = 2.0**-24  # a rate in a tensor, and all numbers of a capturable step, are float32
_DTYPES = ("torch.float64", "torch.float32", "torch.bfloat16")

# The largest errors of a chain of operations on an element, in roundings of the terms that it sums.
_OF_PARAMETER = 2.0  # decay and subtraction
_OF_UPDATE = 10.0  # two corrections, root, epsilon, division, rate
_OF_STATE = 6.0  # two products, a square, a sum, a weight decay


class Expected(NamedTuple):
    """By the rule: values of a tensor after the step, and what they may be off by, in roundings."""

    name: str
    values: Any
    roundings: Any


@dataclass
class _Sampled:
    """Some elements of one parameter, its gradient and states."""

    name: str
    roundoff: float
    parameter: Any
    before: Tensors
    after: Tensors = field(default_factory=dict)
    step: float = 0.0


class StepCheck:
    """Looks at an optimizer before its step; after() looks again and says how far off the step is.

    Reads memory only, and nothing that it does is recorded.
    """

    def __init__(self, optimizer: Any, name_of: Callable[[int, int, Any], str]) -> None:
        """name_of(group, position, parameter)"""
        self._rule = next((cls.__name__ for cls in type(optimizer).__mro__ if cls.__name__ in RULES), "")
        self._optimizer = optimizer
        self._groups: list[tuple[dict[str, Any], list[_Sampled]]] = []
        if self._rule and not scaler_skips(optimizer):
            self._name_of = name_of
            _unseen(self._look_before)

    def after(self) -> dict[str, Any] | None:
        """The rule, `off`, and the parameter and tensor that is farthest off; None: no rule is known, or none
        of what it needs is there.
        """
        found: dict[str, Any] | None = _unseen(self._look_after) if self._groups else None
        return found

    def _look_before(self) -> None:
        import torch

        scale = getattr(self._optimizer, "grad_scale", None)
        for index, group in enumerate(self._optimizer.param_groups):
            settings = {key: _number(value) for key, value in group.items() if key != "params"}
            in_tensors = isinstance(group.get("lr"), torch.Tensor) or group.get("capturable")
            rounded = _OF_NUMBERS if in_tensors else 0.0
            sampled = []
            for position in self._chosen(group["params"]):
                parameter = group["params"][position]
                roundoff = max(core.unit_roundoff(str(parameter.dtype)), rounded)
                before = self._look(parameter)
                gradient = self._elements(parameter.grad)
                before["gradient"] = gradient / float(scale) if scale is not None else gradient
                sampled.append(
                    _Sampled(self._name_of(index, position, parameter), roundoff, parameter, before)
                )
            self._groups.append((settings, sampled))

    def _look_after(self) -> dict[str, Any] | None:
        worst: dict[str, Any] | None = None
        for settings, sampled in self._groups:
            for one in sampled:
                one.after = self._look(one.parameter)
                one.step = float(_number(self._state(one.parameter).get("step", 0.0)))
            for together in self._batches(sampled):
                try:
                    found = _worst(RULES[self._rule].formula, settings, together)
                except KeyError:
                    continue  # a class that somebody wrote has other states
                if worst is None or found["off"] > worst["off"]:
                    worst = found
        return None if worst is None else {"rule": self._rule, **worst}

    def _chosen(self, parameters: list[Any]) -> list[int]:
        import torch

        usable = [
            position
            for position, one in enumerate(parameters)
            if type(one) in (torch.Tensor, torch.nn.Parameter)
            and str(one.dtype) in _DTYPES
            and one.grad is not None
            and one.grad.layout is torch.strided
            and one.numel() > 0
        ]
        if RULES[self._rule].by_element:
            return usable[:: math.ceil(len(usable) / _PARAMETERS) or 1]
        small = [position for position in usable if parameters[position].numel() <= _LARGEST_WHOLE]
        return small[:: math.ceil(len(small) / _WHOLE_PARAMETERS) or 1]

    def _look(self, parameter: Any) -> Tensors:
        import torch

        found = {"parameter": self._elements(parameter)}
        for name, state in self._state(parameter).items():
            if isinstance(state, torch.Tensor) and (state.dim() > 0 or name != "step"):
                found[str(name)] = self._elements(state)
        return found

    def _state(self, parameter: Any) -> Mapping[str, Any]:
        # get: the state is a defaultdict, and asking it for a parameter must not create one
        return self._optimizer.state.get(parameter) or {}

    def _elements(self, tensor: Any) -> Any:
        import torch

        tensor = tensor.detach()
        if RULES[self._rule].by_element:
            tensor = tensor.reshape(-1)
            tensor = tensor[:: max(1, tensor.numel() // _ELEMENTS)][:_ELEMENTS]
        return tensor.to("cpu", torch.float64, copy=True)

    def _batches(self, sampled: list[_Sampled]) -> Iterator[list[_Sampled]]:
        """Parameters whose elements can be computed at once."""
        if not RULES[self._rule].by_element:
            yield from ([one] for one in sampled)
            return
        batches: dict[Any, list[_Sampled]] = {}
        for one in sampled:
            key = (one.roundoff, one.step, tuple(one.before), tuple(one.after))
            batches.setdefault(key, []).append(one)
        yield from batches.values()


def _number(value: Any) -> Any:
    import torch

    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def _unseen(look: Callable[[], Any]) -> Any:
    import torch

    def quietly() -> Any:
        with torch.no_grad():
            return look()

    return torch_adapter().call_without_mode(quietly)


def _worst(rule: Rule, settings: Mapping[str, Any], sampled: list[_Sampled]) -> dict[str, Any]:
    import torch

    def joined(parts: list[Tensors]) -> Tensors:
        if len(parts) == 1:
            return parts[0]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    before, after = joined([one.before for one in sampled]), joined([one.after for one in sampled])
    unit = sampled[0].roundoff
    worst: dict[str, Any] = {"off": 0.0, "parameter": sampled[0].name, "of": "parameter"}
    for name, values, roundings in rule(
        before, after, {**settings, "step": sampled[0].step, "roundoff": unit}
    ):
        made = after[name]
        same = (made == values) | ~(made.isfinite() | values.isfinite())
        off = ((made - values).abs() / (unit * roundings + _TINY)).masked_fill(same, 0.0)
        off = off.nan_to_num(nan=math.inf, posinf=math.inf).reshape(-1)
        place = int(off.argmax())
        if float(off[place]) > worst["off"]:
            sizes = [one.before["parameter"].numel() for one in sampled]
            worst = {"off": float(off[place]), "parameter": sampled[_owner(sizes, place)].name, "of": name}
    return worst


_TINY = 2.0**-126  # what is below the smallest normal number is lost in float32 and bfloat16


def _owner(sizes: list[int], place: int) -> int:
    for index, size in enumerate(sizes):
        if place < size:
            return index
        place -= size
    return 0


# ---- the rules


def _descent(before: Tensors, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The gradient that a step goes down, and the sum of the magnitudes of its terms."""
    gradient = before["gradient"]
    if settings.get("maximize"):
        gradient = -gradient
    decay = settings.get("weight_decay") or 0
    weights = before["parameter"]
    return gradient + decay * weights, gradient.abs() + abs(decay) * weights.abs()


def _state(before: Tensors, name: str) -> Any:
    """Zero where the parameter has never been stepped."""
    import torch

    found = before.get(name)
    return torch.zeros_like(before["parameter"]) if found is None else found


def _sgd(before: Tensors, after: Tensors, settings: Mapping[str, Any]) -> Iterator[Expected]:
    gradient, terms = _descent(before, settings)
    direction, momentum = gradient, settings["momentum"]
    if momentum:
        buffer = gradient
        if "momentum_buffer" in before:
            earlier = before["momentum_buffer"]
            buffer = momentum * earlier + (1 - settings["dampening"]) * gradient
            terms = terms + earlier.abs()
        yield Expected("momentum_buffer", buffer, _OF_STATE * terms)
        direction = after["momentum_buffer"]
        if settings["nesterov"]:
            direction = gradient + momentum * direction
    yield _moved(before, settings["lr"] * direction, _OF_UPDATE * settings["lr"] * (terms + direction.abs()))


def _moved(before: Tensors, update: Any, roundings: Any, decay: float = 0.0) -> Expected:
    weights = before["parameter"]
    return Expected("parameter", weights * (1 - decay) - update, _OF_PARAMETER * weights.abs() + roundings)


def _adam(
    before: Tensors, after: Tensors, settings: Mapping[str, Any], *, decoupled: bool = False
) -> Iterator[Expected]:
    decay, rate = settings.get("weight_decay") or 0, settings["lr"]
    decoupled = decoupled or bool(settings.get("decoupled_weight_decay"))
    gradient, terms = _descent(before, {**settings, "weight_decay": 0 if decoupled else decay})
    first, second = (_number(beta) for beta in settings["betas"])
    mean, square = _state(before, "exp_avg"), _state(before, "exp_avg_sq")
    yield Expected("exp_avg", first * mean + (1 - first) * gradient, _OF_STATE * (mean.abs() + terms))
    made = second * square + (1 - second) * gradient.square()
    yield Expected("exp_avg_sq", made, _OF_STATE * (made + (1 - second) * terms.square()))
    root = after["max_exp_avg_sq" if settings.get("amsgrad") else "exp_avg_sq"]
    root = (root / (1 - second ** settings["step"])).sqrt() + settings["eps"]
    update = rate / (1 - first ** settings["step"]) * after["exp_avg"] / root
    yield _moved(before, update, _OF_UPDATE * update.abs(), rate * decay if decoupled else 0.0)


def _adagrad(before: Tensors, after: Tensors, settings: Mapping[str, Any]) -> Iterator[Expected]:
    gradient, terms = _descent(before, settings)
    total = _state(before, "sum") + gradient.square()
    yield Expected("sum", total, _OF_STATE * (_state(before, "sum") + terms.square()))
    rate = settings["lr"] / (1 + (settings["step"] - 1) * settings["lr_decay"])
    root = after["sum"].sqrt() + settings["eps"]
    yield _moved(before, rate * gradient / root, _OF_UPDATE * rate * terms / root)


def _rmsprop(before: Tensors, after: Tensors, settings: Mapping[str, Any]) -> Iterator[Expected]:
    gradient, terms = _descent(before, settings)
    alpha, rate = settings["alpha"], settings["lr"]
    square = alpha * _state(before, "square_avg") + (1 - alpha) * gradient.square()
    yield Expected("square_avg", square, _OF_STATE * (square + (1 - alpha) * terms.square()))
    if settings["centered"]:
        mean = _state(before, "grad_avg")
        yield Expected("grad_avg", alpha * mean + (1 - alpha) * gradient, _OF_STATE * (mean.abs() + terms))
        return  # what is left of the difference of the squares is rounding as often as not
    root = after["square_avg"].sqrt() + settings["eps"]
    direction, size = gradient / root, terms / root
    if settings["momentum"]:
        earlier = _state(before, "momentum_buffer")
        made = settings["momentum"] * earlier + direction
        yield Expected("momentum_buffer", made, _OF_UPDATE * (earlier.abs() + size))
        direction = after["momentum_buffer"]
        size = size + direction.abs()
    yield _moved(before, rate * direction, _OF_UPDATE * rate * size)


def _adafactor(before: Tensors, after: Tensors, settings: Mapping[str, Any]) -> Iterator[Expected]:
    gradient, _ = _descent(before, {**settings, "weight_decay": 0})
    weights, rate = before["parameter"], settings["lr"]
    kept = settings["step"] ** settings["beta2_decay"]
    least, scale = settings["eps"]
    least = 2 * settings["roundoff"] if least is None else least
    sums = gradient.numel()
    if gradient.dim() > 1:
        rows, columns = gradient.square().mean(-1, keepdim=True), gradient.square().mean(-2, keepdim=True)
        for name, square in (("row_var", rows), ("col_var", columns)):
            earlier = before.get(name)
            earlier = square * 0 if earlier is None else earlier
            made = earlier + kept * (square - earlier)
            yield Expected(name, made, _OF_STATE * math.sqrt(sums) * (made.abs() + earlier))
        rows, columns = after["row_var"], after["col_var"]
        variance = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=least)
    else:
        earlier = _state(before, "variance")
        made = earlier + kept * (gradient.square() - earlier)
        yield Expected("variance", made, _OF_STATE * (made + earlier))
        variance = after["variance"]
    direction = gradient / variance.clamp(min=least * least).sqrt()
    length = max(1.0, float(direction.norm()) / (math.sqrt(sums) * settings["d"]))
    size = max(scale, float(weights.norm()) / math.sqrt(sums)) * min(rate, 1 / math.sqrt(settings["step"]))
    update = size / length * direction
    yield _moved(
        before, update, _OF_UPDATE * math.sqrt(sums) * update.abs(), rate * (settings["weight_decay"] or 0)
    )


def _muon(before: Tensors, after: Tensors, settings: Mapping[str, Any]) -> Iterator[Expected]:
    gradient = before["gradient"]
    momentum, earlier = settings["momentum"], _state(before, "momentum_buffer")
    made = momentum * earlier + (1 - momentum) * gradient
    yield Expected("momentum_buffer", made, _OF_STATE * (earlier.abs() + gradient.abs()))
    direction = after["momentum_buffer"]
    if settings["nesterov"]:
        direction = (1 - momentum) * gradient + momentum * direction
    direction = _orthogonal(direction, settings)
    rows, columns = gradient.shape
    rate = settings["lr"]
    if settings.get("adjust_lr_fn") == "match_rms_adamw":
        larger = 0.2 * math.sqrt(max(rows, columns))
    else:
        larger = math.sqrt(max(1, rows / columns))
    update = rate * larger * direction
    # The iteration runs in bfloat16: each element is off by some hundredths of what is typical.
    loose = 0.1 / settings["roundoff"] * float(update.norm()) / math.sqrt(update.numel())
    yield _moved(before, update, update.abs() * _OF_UPDATE + loose, rate * (settings["weight_decay"] or 0))


def _orthogonal(matrix: Any, settings: Mapping[str, Any]) -> Any:
    """K. Jordan et al., Muon, 2024: Newton-Schulz iteration with a quintic polynomial."""
    a, b, c = settings["ns_coefficients"]
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / max(float(x.norm()), settings["eps"])
    for _ in range(settings["ns_steps"]):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if is_tall else x


class _Known(NamedTuple):
    formula: Rule
    by_element: bool = True


RULES: dict[str, _Known] = {
    "SGD": _Known(_sgd),
    "Adam": _Known(_adam),
    "AdamW": _Known(functools.partial(_adam, decoupled=True)),
    "Adagrad": _Known(_adagrad),
    "RMSprop": _Known(_rmsprop),
    "Adafactor": _Known(_adafactor, by_element=False),
    "Muon": _Known(_muon, by_element=False),
}
"""By the name of a class; optimizers that are written anew often have the name of torch's."""
