# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of one run put into another: kept.rank{R}.step{S}.safetensors holds what a step began with and was
given; a `Feeder` copies it into the tensors of the run that is to have it.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msprobe.experiment.along_the_training import AlongTheTraining
from msprobe.files.regular_file import open_to_read, open_to_write
from msprobe.native import log
from msprobe.recording.run_file import rank_of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.experiment.plan import Change

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "C64": "complex64", "C128": "complex128",
}  # fmt: skip


class Keeper(AlongTheTraining):
    """Writes the values of steps."""

    def __init__(self, folder: Path, steps: tuple[int, int]) -> None:
        super().__init__()
        self._folder = folder
        self._steps = steps
        self._kept: dict[str, Any] = {}
        self._states: dict[str, Any] = {}

    def _wanted(self) -> bool:
        return self._steps[0] <= self.step < self._steps[1]

    def begin_step(self, step: int) -> None:
        super().begin_step(step)
        if self._wanted():
            self._states = _python_states()
            self._keep("random.torch", _torch_state())
            for name, tensor in [*self.named("parameters"), *self.named("buffers")]:
                self._keep(f"weights.{name}", tensor)

    def given(self, place: str, tensor: Any) -> None:
        if self._wanted():
            self._keep(f"inputs.{place}", tensor)

    def before_update(self, optimizer: Any) -> None:
        if not self._wanted():
            return
        for name, tensor in self.named("parameters"):
            if tensor.grad is not None:
                self._keep(f"gradients.{name}", tensor.grad)
        for name, value in self._state_of(optimizer):
            self._keep(name, value)
        self._states["groups"] = [
            {key: value for key, value in group.items() if isinstance(value, (int, float, tuple))}
            for group in optimizer.param_groups
        ]

    def end_step(self, step: int) -> None:
        if self._wanted():
            _write(_path(self._folder, step), self._kept, self._states)
            self._kept = {}
        super().end_step(step)

    def _state_of(self, optimizer: Any) -> list[tuple[str, Any]]:
        """Name and value of each tensor."""
        names = {id(tensor): name for name, tensor in self.named("parameters")}
        return [
            (f"optimizer.{names[id(parameter)]}.{key}", value)
            for parameter, state in optimizer.state.items()
            for key, value in state.items()
            if hasattr(value, "numel") and id(parameter) in names
        ]

    def _keep(self, name: str, tensor: Any) -> None:
        self._kept[name] = tensor.detach().to("cpu", copy=True).contiguous()


class Feeder(AlongTheTraining):
    """Copies what another run kept into this one, from the first step of each change on."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        self._changes = {change.name.partition(".")[2]: change for change in changes}
        self._values: dict[str, Any] = {}
        self._states: dict[str, Any] = {}
        self._of_step = -1

    def failed(self, error: Exception) -> None:
        """Without what it was to be given, the training would be that of another experiment."""
        _end(f"step {self.step}: {type(error).__name__}: {error}")

    def begin_step(self, step: int) -> None:
        super().begin_step(step)
        self._guarded(self._feed_beginning, step)

    def _feed_beginning(self, step: int) -> None:
        if self._is_on("random") and "random.torch" in self._values:
            _set_states(self._values["random.torch"], self._states)
        # Weights of the first step only: the others are the training's own.
        if self._is_on("weights") and step == self._changes["weights"].first:
            for name, tensor in [*self.named("parameters"), *self.named("buffers")]:
                self._put(f"weights.{name}", tensor)

    def given(self, place: str, tensor: Any) -> None:
        if self._is_on("inputs"):
            self._put(f"inputs.{place}", tensor)

    def before_update(self, optimizer: Any) -> None:
        for name, tensor in self.named("parameters") if self._is_on("gradients") else ():
            if tensor.grad is not None:
                self._put(f"gradients.{name}", tensor.grad)
        if self._is_on("optimizer"):
            for group, kept in zip(optimizer.param_groups, self._states.get("groups", ())):
                group.update({key: tuple(one) if type(one) is list else one for key, one in kept.items()})
            if self.step == self._changes["optimizer"].first:
                self._put_state(optimizer)

    def _put_state(self, optimizer: Any) -> None:
        """Anew, with the dtypes of the other run: what was not restored is not there."""
        parameters = dict(self.named("parameters"))
        for name, value in self._values.items():
            if name.startswith("optimizer."):
                path, _, key = name.removeprefix("optimizer.").rpartition(".")
                parameter = parameters[path]
                device = (
                    parameter.device if value.dim() else optimizer.state[parameter].get(key, value).device
                )
                optimizer.state[parameter][key] = value.clone().to(device)

    def _is_on(self, what: str) -> bool:
        if what not in self._changes or self.step < self._changes[what].first:
            return False
        if self._of_step != self.step:
            self._of_step = self.step
            change = self._changes[what]
            self._values, self._states = _read(_path(Path(change.value), self.step + change.shift))
        return bool(self._values)

    def _put(self, name: str, tensor: Any) -> None:
        import torch

        value = self._values.get(name)
        if value is None or value.shape != tensor.shape:
            found = "nothing" if value is None else f"shape {tuple(value.shape)}"
            _end(f"{name}: expected shape {tuple(tensor.shape)}, found {found}")
        with torch.no_grad():
            tensor.copy_(value)


def _end(text: str) -> NoReturn:
    log.error("feed: %s", text)
    raise SystemExit(2)


# ---- random generators


def _torch_state() -> Any:
    import torch

    return torch.get_rng_state()


def _python_states() -> dict[str, Any]:
    states: dict[str, Any] = {"python": random.getstate()}
    if "numpy.random" in sys.modules:
        kind, words, *rest = sys.modules["numpy.random"].get_state()
        states["numpy"] = [kind, words.tolist(), *rest]
    return states


def _set_states(torch_state: Any, states: dict[str, Any]) -> None:
    import torch

    torch.set_rng_state(torch_state)
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in states and "numpy.random" in sys.modules:
        sys.modules["numpy.random"].set_state(tuple(states["numpy"]))


# ---- files


def _path(folder: Path, step: int) -> Path:
    return folder / f"kept.rank{rank_of_process()}.step{step}.safetensors"


def _write(path: Path, tensors: dict[str, Any], states: dict[str, Any]) -> None:
    import torch

    names = {getattr(torch, name): short for short, name in _DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"states": json.dumps(states)}}
    blocks, end = [], 0
    for name, tensor in tensors.items():
        content = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        begin, end = end, end + len(content)
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        blocks.append(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open_to_write(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(blocks)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and states; nothing where the step was not kept."""
    import torch

    if not path.exists():
        return {}, {}
    with open_to_read(path) as file:
        content = bytearray(file.read())
    size = int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8 : 8 + size]))
    states = json.loads(header.pop("__metadata__")["states"])
    make: Callable[..., Any] = torch.frombuffer
    tensors = {}
    for name, one in header.items():
        begin, end = one["data_offsets"]
        dtype = getattr(torch, _DTYPES[one["dtype"]])
        count = (end - begin) // dtype.itemsize
        place = 8 + size + begin
        flat = (
            make(content[place : place + end - begin], dtype=dtype) if count else torch.empty(0, dtype=dtype)
        )
        tensors[name] = flat.reshape(one["shape"])
    return tensors, states
