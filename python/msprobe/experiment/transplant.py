# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A module of one run put into another: what each of its calls returned, the gradients that it gave to its
inputs and parameters, the buffers and the random generator that it left.

The run that keeps them has an identity in front of each input and parameter of the module and behind each
output, so that its share of a gradient is seen alone; it copies, as the transplant does. So a keeping run is
what a transplant is compared with, and not the plain one: gradients are added up in another order.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.experiment import kept, updates
from msprobe.experiment.at_modules import AtModules, in_place_of_weights, weights_of
from msprobe.experiment.ending import end_process
from msprobe.experiment.made_again import MadeAgain, given_to, make_again, write_made_again
from msprobe.training.measurement import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from msprobe.experiment.plan import Change

KIND = "modules"
"""Of the files."""


class ModuleKeeper(AtModules):
    """Keeps the calls of modules in some steps: modules.rank{R}.step{S}.safetensors."""

    name = "modules that are kept"

    def __init__(
        self,
        folder: Path,
        steps: Container[int],
        paths: Sequence[str],
        first: int | None = None,
        again: Path | None = None,
    ) -> None:
        """first: the step of which what the calls are given is kept, too; None: of none. again: the folder of
        a run that kept it: the modules are given that here, too, before the optimizer steps (made_again.py).
        """
        super().__init__(paths)
        self._folder = folder
        self._steps = steps
        self._first = first
        self._again = again
        self._arguments: dict[str, tuple[Any, Any]] = {}
        self._tensors: dict[str, Any] = {}
        self._outputs: dict[str, list[bool]] = {}

    def is_on(self) -> bool:
        return self.step in self._steps

    def drop_step(self, step: int) -> None:
        super().drop_step(step)
        self._tensors, self._outputs, self._arguments = {}, {}, {}

    def end_step(self, step: int) -> None:
        super().end_step(step)
        if self.is_on():
            kept.write(kept.path_of(self._folder, step, KIND), self._tensors, {"outputs": self._outputs})
            self._tensors, self._outputs, self._arguments = {}, {}, {}

    def models_found(self, models: list[Any]) -> None:
        super().models_found(models)
        if self._again is not None:
            updates.listen(self._before_update)

    def close(self) -> None:
        updates.leave(self._before_update)
        super().close()

    def _before_update(self, _: Any) -> None:
        """All gradients of the step are there, and weights and the step are still what they were."""
        if self._again is None or self.step != self._first:
            return
        self._is_open = False
        try:
            self._make_again(self._again)
        finally:
            self._is_open, self._again = True, None

    def _make_again(self, folder: Path) -> None:
        other = kept.read(kept.path_of(folder, self.step, KIND))[0]
        found: list[MadeAgain] = []
        for place, (args, kwargs) in self._arguments.items():
            module = self.modules[place.rpartition(":")[0]]

            def call(tensors: list[Any], module: Any = module, given: Any = (args, kwargs)) -> list[Any]:
                args, kwargs = _with_tensors(given, lambda number, _: tensors[number])
                return tensors_in(module(*args, **kwargs))

            found.append(make_again(module, place, call, self._tensors, other))
        write_made_again(self._folder, found)

    def answer(self, path: str, number: int, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        identity, module, place = _functions()[0], self.modules[path], f"{path}:{number}"
        weights = {}
        if path and self.step == self._first:
            self._tensors.update(given_to(place, module, tensors_in((args, kwargs))))
            self._arguments[place] = args, kwargs
        if path:  # of the model itself only what it returns is of interest
            args, kwargs = _with_tensors(
                (args, kwargs), lambda n, one: identity.apply(one, self._taker(f"{place}.input.{n}"))
            )
            weights = {
                name: identity.apply(tensor, self._taker(f"{place}.weight.{name}"))
                for name, (tensor, _) in weights_of(module).items()
                if tensor.requires_grad
            }
        with in_place_of_weights(module, weights):
            result = call(*args, **kwargs)
        self._outputs[place] = []

        def output(number: int, tensor: Any) -> Any:
            self._outputs[place].append(bool(tensor.requires_grad))
            self._tensors[f"{place}.output.{number}"] = kept.copied(tensor)
            return identity.apply(tensor, self._taker(f"{place}.gradient.{number}"))

        result = _with_tensors(result, output)
        if not self._outputs[place]:
            end_process(f"{path}: cannot be transplanted: no tensor is seen in what it returns")
        for name, buffer in module.named_buffers():
            self._tensors[f"{place}.buffer.{name}"] = kept.copied(buffer)
        self._tensors[f"{place}.random"] = kept.torch_state()
        return result

    def _taker(self, name: str) -> Callable[[Any], Any]:
        def take(gradient: Any) -> None:
            if name in self._tensors:
                end_process(f"{name.partition(':')[0]}: cannot be transplanted: its backward pass runs twice")
            self._tensors[name] = kept.copied(gradient)

        return take


class Transplant(AtModules):
    """Answers the calls of modules with what another run kept, in the steps that it kept."""

    name = "transplanted modules"

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = {change.name.partition(".")[2]: change for change in changes}
        super().__init__(tuple(self._changes))
        self._values: dict[str, dict[str, Any]] = {}
        self._outputs: dict[str, dict[str, list[bool]]] = {}
        self._begun = False

    def begin_step(self, step: int) -> None:
        super().begin_step(step)
        self._values, self._outputs = {}, {}
        for path, change in self._changes.items():
            file = kept.path_of(Path(change.value), step + change.shift, KIND)
            values, states = kept.read(file) if step >= change.first else ({}, {})
            own = {name: one for name, one in values.items() if name.startswith(f"{path}:")}
            if values and not own:
                end_process(f"{file}: nothing of {path} was kept (msprobe run --keep {path})")
            if own:
                self._values[path], self._outputs[path] = own, states["outputs"]

    def is_on(self) -> bool:
        return bool(self._values)

    def answer(self, path: str, number: int, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        import torch

        if path not in self._values:
            return call(*args, **kwargs)
        module, place, values = self.modules[path], f"{path}:{number}", self._values[path]
        flags = self._outputs[path].get(place)
        if flags is None:
            end_process(
                f"{path}: is called more often in step {self.step} than in {self._changes[path].value}"
            )
        # It computes for what it may do beside: what it returns is not used.
        copies = _with_tensors((args, kwargs), lambda _, one: one.detach().clone())
        with torch.no_grad():
            result = call(*copies[0], **copies[1])
        inputs = tensors_in((args, kwargs))
        given = [(f"{place}.input.{number}", one) for number, one in enumerate(inputs)]
        given += [(f"{place}.weight.{name}", one) for name, (one, _) in weights_of(module).items()]
        given = [(name, one) for name, one in given if one.requires_grad]
        made = tensors_in(result)
        if len(made) != len(flags):
            end_process(f"{path}: returns {len(made)} tensors, in {self._changes[path].value} {len(flags)}")
        new = [self._in_place_of(path, f"{place}.output.{n}", one) for n, one in enumerate(made)]
        if torch.is_grad_enabled() and any(flags) and given:
            gradients = [values.get(name) for name, _ in given]
            answered = _functions()[1].apply(new, flags, gradients, *(one for _, one in given))
            new = list(answered)
        for name, buffer in module.named_buffers():
            with torch.no_grad():
                buffer.copy_(self._value(path, f"{place}.buffer.{name}", buffer))
        torch.set_rng_state(values[f"{place}.random"])
        return _with_tensors(result, lambda number, _: new[number])

    def _in_place_of(self, path: str, name: str, own: Any) -> Any:
        import torch

        value = self._value(path, name, own)
        return torch.empty_like(own, dtype=value.dtype).copy_(value)  # with its strides

    def _value(self, path: str, name: str, own: Any) -> Any:
        value = self._values[path].get(name)
        if value is None or value.shape != own.shape:
            found = "nothing" if value is None else f"shape {tuple(value.shape)}"
            end_process(f"{name}: expected shape {tuple(own.shape)}, found {found}")
        return value


class LossGradient(AtModules):
    """Gives the model the gradient of another run with respect to what it returns."""

    name = "the gradient of the loss"

    def __init__(self, change: Change) -> None:
        super().__init__(("",))
        self._change = change
        self._values: dict[str, Any] = {}

    def begin_step(self, step: int) -> None:
        super().begin_step(step)
        file = kept.path_of(Path(self._change.value), step + self._change.shift, KIND)
        self._values = kept.read(file)[0] if step >= self._change.first else {}

    def is_on(self) -> bool:
        return bool(self._values)

    def answer(self, path: str, number: int, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        identity = _functions()[0]

        def exchanged(place: int, tensor: Any) -> Any:
            return identity.apply(tensor, lambda own: self._in_place_of(f":{number}.gradient.{place}", own))

        return _with_tensors(call(*args, **kwargs), exchanged)

    def _in_place_of(self, name: str, own: Any) -> Any:
        value = self._values.get(name)
        if value is None or value.shape != own.shape:
            found = "nothing" if value is None else f"shape {tuple(value.shape)}"
            end_process(f"gradient of the loss: expected shape {tuple(own.shape)}, found {found}")
        return value.to(own.device)


# ---- tensors in what is passed on

_made: list[Any] = []


def _functions() -> list[Any]:
    """An identity that tells its gradient and takes what it is told back; and a function of known results and
    gradients.
    """
    if _made:
        return _made
    import torch

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, tensor: Any, take: Any) -> Any:
            ctx.take = take
            return tensor.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, gradient: Any) -> Any:
            other = ctx.take(gradient)
            return gradient if other is None else other, None

    class Known(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, results: Any, flags: Any, gradients: Any, *given: Any) -> Any:
            ctx.gradients = [
                None if value is None else value.to(one.device) for value, one in zip(gradients, given)
            ]
            ctx.mark_non_differentiable(*(one for one, flag in zip(results, flags) if not flag))
            ctx.set_materialize_grads(False)
            return tuple(results)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *_: Any) -> Any:
            return (None, None, None, *ctx.gradients)

    _made.extend((Identity, Known))
    return _made


def _with_tensors(values: Any, exchange: Callable[[int, Any], Any]) -> Any:
    """The same containers with exchange(number, tensor) in the place of each tensor."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    leaves, form = tree_flatten(values)
    number = 0
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            leaves[place] = exchange(number, leaf)
            number += 1
    return tree_unflatten(leaves, form)
