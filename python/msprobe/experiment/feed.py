# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of one run put into another: kept.rank{R}.step{S}.safetensors holds what a step began with, was
given and made; a `Feeder` copies it into the tensors of the run that is to have it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.experiment import kept
from msprobe.experiment.along_the_training import AlongTheTraining
from msprobe.experiment.ending import end_process

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from msprobe.experiment.plan import Change


class Keeper(AlongTheTraining):
    """Writes values of these kinds (kept.KINDS) of steps."""

    def __init__(self, folder: Path, steps: Container[int], kinds: Sequence[str]) -> None:
        super().__init__()
        self._folder = folder
        self._steps = steps
        self._kinds = kinds
        self._kept: dict[str, Any] = {}
        self._states: dict[str, Any] = {}
        self._optimizers: list[Any] = []

    def _wants(self, kind: str) -> bool:
        return kind in self._kinds and self.step in self._steps

    def begin_step(self, step: int) -> None:
        super().begin_step(step)
        self._states = {"kinds": list(self._kinds)}
        if self._wants("random"):
            self._states.update(kept.python_states())
            self._keep("random.torch", kept.torch_state())
        if self._wants("weights"):
            for name, tensor in self.weights():
                self._keep(f"weights.{name}", tensor)

    def given(self, place: str, tensor: Any) -> None:
        if self._wants("inputs"):
            self._keep(f"inputs.{place}", tensor)

    def before_update(self, optimizer: Any) -> None:
        if self._wants("gradients"):
            for name, tensor in self.named("parameters"):
                if tensor.grad is not None:
                    self._keep(f"gradients.{name}", tensor.grad)
        if self._wants("optimizer"):
            for name, value in self._state_of(optimizer):
                self._keep(f"optimizer.{name}", value)
            self._states["groups"] = [
                {key: value for key, value in group.items() if isinstance(value, (int, float, tuple))}
                for group in optimizer.param_groups
            ]
        if self._wants("update"):
            self._optimizers.append(optimizer)

    def end_step(self, step: int) -> None:
        if self._wants("update"):
            for name, tensor in self.weights():
                self._keep(f"update.weights.{name}", tensor)
            for name, value in (one for made in self._optimizers for one in self._state_of(made)):
                self._keep(f"update.state.{name}", value)
        if step in self._steps:
            kept.write(kept.path_of(self._folder, step), self._kept, self._states)
            self._kept, self._optimizers = {}, []
        super().end_step(step)

    def _state_of(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        """Name and value of each tensor."""
        names = {id(tensor): name for name, tensor in self.named("parameters")}
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if hasattr(value, "numel") and id(parameter) in names:
                    yield f"{names[id(parameter)]}.{key}", value

    def _keep(self, name: str, tensor: Any) -> None:
        self._kept[name] = kept.copied(tensor)


class Feeder(AlongTheTraining):
    """Copies what another run kept into this one, from the first step of each change on."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        self._changes = {change.name.partition(".")[2]: change for change in changes}
        self._values: dict[str, Any] = {}
        self._states: dict[str, Any] = {}
        self._file: Path | None = None
        self._optimizers: list[Any] = []

    def failed(self, error: Exception) -> None:
        """Without what it was to be given, the training would be that of another experiment."""
        end_process(f"feed: step {self.step}: {type(error).__name__}: {error}")

    def begin_step(self, step: int) -> None:
        super().begin_step(step)
        self._guarded(self._feed_beginning, step)

    def _feed_beginning(self, step: int) -> None:
        if self._is_on("random") and "random.torch" in self._values:
            kept.set_states(self._values["random.torch"], self._states)
        # Weights of the first step only: the others are the training's own.
        if self._is_on("weights") and step == self._changes["weights"].first:
            self._put_weights("weights.")

    def given(self, place: str, tensor: Any) -> None:
        if self._is_on("inputs"):
            self._put(f"inputs.{place}", tensor)

    def before_update(self, optimizer: Any) -> None:
        self._optimizers.append(optimizer)
        if self._is_on("gradients"):
            self._put_gradients()
        if self._is_on("optimizer"):
            for group, of_other in zip(optimizer.param_groups, self._states.get("groups", ())):
                group.update({key: tuple(one) if type(one) is list else one for key, one in of_other.items()})
            if self.step == self._changes["optimizer"].first:
                self._put_state(optimizer, "optimizer.")

    def end_step(self, step: int) -> None:
        self._guarded(self._feed_update)
        self._optimizers = []
        super().end_step(step)

    def _feed_update(self) -> None:
        if self._is_on("update"):
            self._put_weights("update.weights.")
            for optimizer in self._optimizers:
                self._put_state(optimizer, "update.state.")

    def _put_weights(self, prefix: str) -> None:
        for name, tensor in self.weights():
            self._put(f"{prefix}{name}", tensor)

    def _put_gradients(self) -> None:
        """Those of the other run and no others: one that only it has, or only this one, is a difference."""
        for name, tensor in self.named("parameters"):
            value = self._values.get(f"gradients.{name}")
            if value is None:
                tensor.grad = None
            elif tensor.grad is None:
                tensor.grad = value.to(tensor.device)
            else:
                self._put(f"gradients.{name}", tensor.grad)

    def _put_state(self, optimizer: Any, prefix: str) -> None:
        """Anew, with the dtypes of the other run: what was not restored is not there."""
        parameters = dict(self.named("parameters"))
        held = {id(one) for group in optimizer.param_groups for one in group["params"]}
        for name, parameter in parameters.items():
            state = optimizer.state.get(parameter, {}) if id(parameter) in held else {}
            for key in [one for one in state if f"{prefix}{name}.{one}" not in self._values]:
                if hasattr(state[key], "numel"):  # the other run has none
                    del state[key]
        for name, value in self._values.items():
            if name.startswith(prefix):
                path, _, key = name.removeprefix(prefix).rpartition(".")
                parameter = parameters[path]
                if id(parameter) in held:
                    known = optimizer.state[parameter].get(key, value)
                    device = parameter.device if value.dim() or not hasattr(known, "device") else known.device
                    optimizer.state[parameter][key] = value.clone().to(device)

    def _is_on(self, what: str) -> bool:
        """Whether there are values of this kind for the step, which are at hand then."""
        change = self._changes.get(what)
        if change is None or self.step < change.first:
            return False
        file = kept.path_of(Path(change.value), self.step + change.shift)
        if file != self._file:
            self._file = file
            self._values, self._states = kept.read(file)
        if not self._states:  # the step was not kept
            return False
        if what not in self._states.get("kinds", kept.KINDS):
            end_process(f"feed.{what}: {file}: expected a run with --keep-values, {what} was not kept")
        return True

    def _put(self, name: str, tensor: Any) -> None:
        import torch

        value = self._values.get(name)
        if value is None or value.shape != tensor.shape:
            found = "nothing" if value is None else f"shape {tuple(value.shape)}"
            end_process(f"feed: {name}: expected shape {tuple(tensor.shape)}, found {found}")
        with torch.no_grad():
            tensor.copy_(value)
