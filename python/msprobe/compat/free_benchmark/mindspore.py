# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The free benchmark of a MindSpore training: functions are called a second time with a perturbed argument,
and what they give then is held against what they gave.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config import Config, FreeBenchmarkConfig
from msprobe.files.appending import append_rows
from msprobe.files.atomic_file import make_directory
from msprobe.frameworks.mindspore import array_of, import_mindspore, without_graph
from msprobe.frameworks.mindspore.calls import path_of
from msprobe.hooks.functions import Hooks
from msprobe.native import Error, InvalidArgument, UnsupportedError, core, log
from msprobe.training.wanted_steps import WantedSteps

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.frameworks.mindspore.mindspore_port import MindSporePort

FILE = "free_benchmark.csv"
HEADER = ["rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index"]
_PREFIXES = ("Functional", "Tensor", "Mint", "MintFunctional")

# Of the document of mindstudio-probe. What is added to an element, by dtype; its root is the least element
# that is changed, and the least that is compared.
_NOISE = {"BFloat16": 1e-4, "Float16": 1e-6, "Float32": 1e-8, "Float64": 1e-16}
_THRESHOLDS = {"BFloat16": 1.004, "Float16": 1.002}
_OTHER_THRESHOLD = 1.0002
_BITS = {"Float16": "int16", "Float32": "int32", "Float64": "int64"}


class MindSporeFreeBenchmark:
    """Between start() and stop(), in the steps that the configuration wants. Check mode changes no number of
    the training. Raises InvalidArgument for what MindSpore has not.
    """

    def __init__(self, config: Config, port: MindSporePort) -> None:
        section = config.section
        assert isinstance(section, FreeBenchmarkConfig)
        if section.pert_mode == "to_cpu" or section.if_preheat:
            key = "if_preheat" if section.if_preheat else "pert_mode"
            raise InvalidArgument(f'"free_benchmark.{key}": MindSpore has no to_cpu and no preheat')
        if section.handler_type == "fix" and (
            section.pert_mode != "improve_precision" or section.fuzz_stage != "forward"
        ):
            raise InvalidArgument('"handler_type": fix goes with improve_precision, forward, alone')
        self._section, self._port = section, port
        self._steps = WantedSteps(config, rank=port.rank)
        self._path = Path(config.dump_path) / FILE
        self._step = 0
        self._collecting = self._inside = False
        self._counts: Counter[str] = Counter()
        self.checked = self.inconsistent = 0
        self._hooks: Hooks | None = None
        self._told: set[str] = set()
        self._process = os.getpid()

    # ---- what PrecisionDebugger calls

    def start(self, model: object = None, token_range: list[int] | None = None) -> None:
        if self._collecting or os.getpid() != self._process:
            return
        if not self._steps.has_step(self._step) or not self._steps.has_rank():
            return
        if reason := self._port.why_not():
            raise UnsupportedError(f"start(): {reason}")
        if self._hooks is None:
            self._hooks = self._make_hooks()
        self._collecting = True
        self._hooks.install()

    def stop(self) -> None:
        if self._collecting and self._hooks is not None:
            self._collecting = False
            self._hooks.remove()

    def step(self) -> None:
        self.stop()
        if self.checked:
            log.info(
                "free_benchmark: step %d: %d calls made again so far, %d inconsistent results",
                self._step, self.checked, self.inconsistent,
            )  # fmt: skip
        self._counts.clear()
        self._step += 1

    def set_init_step(self, step: int) -> None:
        self.stop()
        self._counts.clear()
        self._step = step

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Nothing, as for module_dump(): no values are kept."""

    def register_custom_api(self, module: Any, api: str, prefix: str) -> None:
        raise UnsupportedError("free_benchmark: functions of your own are not made again")

    def restore_custom_api(self, module: Any, api: str) -> None: ...

    def module_dump(self, module: object, name: str) -> None: ...

    def module_dump_end(self) -> None: ...

    def restore_api_dump(self) -> None:
        self.stop()

    def close(self) -> None:
        self.stop()

    def release(self) -> None:
        self._hooks = None

    # ---- calls

    def _make_hooks(self) -> Hooks:
        exchanges = self._port.functions(self, None)
        return Hooks([*exchanges, *self._port.around_compiled(exchanges, self)])

    def function_call(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, *, distributed: bool = False
    ) -> Any:
        if self._inside or not self._collecting or not self._wants(name):
            return function(*args, **kwargs)
        number, self._counts[name] = self._counts[name], self._counts[name] + 1
        self._inside = True
        try:
            result = function(*args, **kwargs)
            try:
                return self._looked_at(f"{name}.{number}", function, args, kwargs, result)
            except Exception as error:  # a fault of ours never stops the training
                self._tell(name, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
                return result
        finally:
            self._inside = False

    def primitive_call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def _wants(self, name: str) -> bool:
        prefix, _, function = name.partition(".")
        changes = (function.endswith("_") and not function.endswith("__")) or function.startswith("__i")
        if prefix not in _PREFIXES or changes or function == "__setitem__":
            return False
        if core.find_operator(name).gain == "draws":  # the next numbers of the training
            return False
        listed = self._section.list
        return not listed or path_of(name) in listed or any(one in name for one in listed)

    def _tell(self, name: str, reason: str) -> None:
        if name not in self._told:
            self._told.add(name)
            log.warning("free_benchmark: %s is left out: %s", name, reason)

    def _looked_at(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Any:
        """The result of the call: the first one, but for handler_type fix."""
        place = next((i for i, arg in enumerate(args) if self._is_perturbed(arg)), None)
        if place is None:
            return result
        perturbation = _Perturbation(self._port, self._section.pert_mode)
        if self._section.pert_mode == "improve_precision":
            new_args, new_kwargs = perturbation.of(tuple(args)), perturbation.of(dict(kwargs))
        else:
            new_args = (*args[:place], perturbation.of(args[place]), *args[place + 1 :])
            new_kwargs = kwargs
        if not perturbation.done:
            return result
        self.checked += 1
        if self._section.handler_type == "fix":
            return self._as(result, function(*new_args, **new_kwargs))
        if self._section.fuzz_stage == "backward":
            pair = self._gradients(function, args, kwargs), self._gradients(function, new_args, new_kwargs)
        else:
            with without_graph():
                pair = (result, function(*new_args, **new_kwargs))
        self._compare(name, *pair)
        return result

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._port.tensor_type)

    def _is_perturbed(self, arg: Any) -> bool:
        is_tensor = self._is_tensor(arg)
        return str(arg.dtype) in _NOISE if is_tensor else isinstance(arg, (list, tuple, dict))

    def _gradients(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """With ones as the gradients of the results."""
        ms = import_mindspore()

        tensors = [arg for arg in args if self._is_tensor(arg)]
        if len(tensors) != len(args):
            raise UnsupportedError("it has arguments that are no tensors: its backward is not made again")
        outputs, backward = ms.vjp(lambda *given: function(*given, **kwargs), *args)
        ones = tuple(ms.ops.ones_like(output) for output in self._port.tensors_of(outputs))
        return backward(ones if isinstance(outputs, tuple) else ones[0])

    def _as(self, original: Any, perturbed: Any) -> Any:
        if self._is_tensor(original):
            return perturbed.astype(original.dtype)
        if isinstance(original, (tuple, list)):
            return type(original)(self._as(a, b) for a, b in zip(original, perturbed))
        return original

    # ---- the judgement

    def _compare(self, name: str, original: Any, perturbed: Any) -> None:
        is_one = self._is_tensor(original)
        pairs = [(original, perturbed)] if is_one else list(zip(original, perturbed))
        for index, (a, b) in enumerate(pairs):
            if not self._is_tensor(a) or str(a.dtype) not in _NOISE:
                continue
            floor = math.sqrt(_NOISE.get(str(b.dtype), _NOISE["Float32"]))
            ratio = _ratio(array_of(a).astype("float64"), array_of(b).astype("float64"), floor)
            threshold = _THRESHOLDS.get(str(a.dtype), _OTHER_THRESHOLD)
            if self._section.pert_mode == "no_change":
                threshold = 1.0
            if ratio is not None and ratio <= threshold:
                continue
            self.inconsistent += 1
            found = "symbol_flipping" if ratio is None else str(ratio - 1)
            rank = self._port.rank()
            place = "" if is_one else str(index)
            section = self._section
            self._write(
                ["" if rank is None else str(rank), section.pert_mode, section.fuzz_stage, str(self._step),
                 name, found, str(a.dtype), str(tuple(a.shape)), place]
            )  # fmt: skip

    def _write(self, row: list[str]) -> None:
        try:
            make_directory(self._path.parent)
            append_rows(self._path, [row], header=HEADER)
        except Error as error:
            self._tell(FILE, str(error))


def _ratio(a: Any, b: Any, floor: float) -> float | None:
    """The largest quotient of the elements, either way, of those above the floor. None: the signs differ."""
    import numpy as np

    with np.errstate(all="ignore"):
        there = np.where(np.abs(b) > floor, a / b, 1.0)
        back = np.where(np.abs(a) > floor, b / a, 1.0)
    there, back = (np.where(np.isfinite(one), one, 1.0) for one in (there, back))
    if there.size == 0:
        return 1.0
    return None if there.min() < 0 else float(max(there.max(), back.max()))


class _Perturbation:
    """Of the first tensor that can be, or with improve_precision of all."""

    def __init__(self, port: MindSporePort, mode: str) -> None:
        self._port = port
        self._mode = mode
        self.done = False

    def of(self, value: Any) -> Any:
        if isinstance(value, self._port.tensor_type):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.of(entry) for entry in value)
        return {key: self.of(entry) for key, entry in value.items()} if isinstance(value, dict) else value

    def _tensor(self, tensor: Any) -> Any:
        ms = import_mindspore()

        kind = str(tensor.dtype)
        if kind not in _NOISE:
            return tensor
        if self._mode == "improve_precision":
            if kind in ("Float32", "Float64"):
                return tensor
            self.done = True
            return tensor.astype(ms.float32)
        if self.done or tensor.size == 0:
            return tensor
        if self._mode == "no_change":
            self.done = True
            return tensor.copy()
        changed = self._changed(tensor, kind)
        if changed is None:
            return tensor
        self.done = True
        return ms.Tensor(changed).astype(tensor.dtype)

    def _changed(self, tensor: Any, kind: str) -> Any:
        """As an array; None: this perturbation does nothing to it."""
        import numpy as np

        array = array_of(tensor).copy()
        if self._mode == "change_value":
            shape = array.shape
            if not shape or max(shape[:2]) < 2 or (len(shape) > 1 and shape[1] == 0):
                return None
            first, last = ((0,), (-1,)) if len(shape) == 1 else ((0, 0), (-1, -1))
            array[first], array[last] = array[last].copy(), array[first].copy()
            return array
        noise = _NOISE[kind]
        if not np.abs(array).max() >= noise:
            return None
        if self._mode == "add_noise":
            return np.where(np.abs(array) > math.sqrt(noise), array + array.dtype.type(noise), array)
        if kind not in _BITS:
            return None
        flipped = (array.view(_BITS[kind]) ^ 1).view(array.dtype)
        return np.where(np.abs(array) > np.finfo(array.dtype).smallest_normal, flipped, array)
