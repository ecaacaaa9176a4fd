# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the function of a recorded call, forward and backward, on a device and in a precision."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from msprobe.native import Error, FormatError, InvalidArgument, UnsupportedError, import_torch
from msprobe.replay.arguments import ArgumentBuilder, dtype_named, records_in, saved_tensor, tensors_in
from msprobe.replay.functions import function_named, functions_named
from msprobe.replay.npu_functions import reference_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch

    from msprobe.replay.arguments import Tensors
    from msprobe.replay.dump_file import RecordedCall

    Dtypes = Mapping[torch.dtype, torch.dtype]

# Below it, arguments are copied whether or not the function is known to change them.
_FEW_ELEMENTS = 1 << 14

_LIKE = 1e-2  # of the largest and the smallest value of a result, which another device has computed

_NOT_TO_BE_MADE_RANDOM = ("dropout", "dropout1d", "dropout2d", "dropout3d", "dropout_", "alpha_dropout",
                          "feature_alpha_dropout", "feature_dropout", "native_dropout")  # fmt: skip


def device_named(number: int, *, compile_operators: bool = False) -> str:
    """The device that is checked: "npu:0", "cuda:0", or "cpu" when there is neither.

    `compile_operators` is for the NPU. Raises InvalidArgument for a number that is not there.
    """
    torch = import_torch()
    npu = getattr(torch, "npu", None)  # there when the program has imported torch_npu
    for kind, module in (("npu", npu), ("cuda", torch.cuda)):
        if module is None or not module.is_available():
            continue
        count = module.device_count()
        if number >= count:
            raise InvalidArgument(f"device {number}: expected a number below {count}, that of {kind} devices")
        if kind == "npu":
            module.set_compile_mode(jit_compile=compile_operators)
        return f"{kind}:{number}"
    return "cpu"


@dataclass(frozen=True)
class Inputs:
    """What a call is given, on the CPU and as it was recorded. Nothing that runs changes it."""

    args: list[Any]
    kwargs: dict[str, Any]
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    """Of the outputs; empty: none were recorded."""
    function: Callable[..., Any] | None = None
    """Where the name of the record leaves a choice: what it is a call of."""

    @property
    def needs_gradients(self) -> bool:
        return any(tensor.requires_grad for tensor in tensors_in([self.args, self.kwargs]))

    @property
    def dtypes(self) -> set[torch.dtype]:
        """Of the tensors with fractions."""
        return {t.dtype for t in tensors_in([self.args, self.kwargs]) if t.is_floating_point()}


@dataclass(frozen=True)
class Precision:
    """In what a call is run."""

    dtypes: Dtypes = field(default_factory=dict)
    """Other dtypes of tensors and of arguments that are dtypes; those not named stay."""
    autocast: torch.dtype | None = None
    """Run under torch.autocast to this dtype."""
    tensors_only: bool = False
    """Arguments that are dtypes stay."""


def inputs_of(call: RecordedCall, builder: ArgumentBuilder, *, random: bool = False) -> Inputs:
    """The arguments of a recorded call. Without `random`, dropout drops nothing: what it keeps is drawn anew
    each time. Raises FormatError, IoError, UnsupportedError.
    """
    args = [builder.build(value) for value in call.args]
    # The memory of an argument `out` was another's.
    kwargs = {key: builder.build(value) for key, value in call.kwargs.items() if key != "out"}
    if not random and call.function in _NOT_TO_BE_MADE_RANDOM:
        args, kwargs = _without_dropping(args, kwargs)
    gradients: list[Any] = []
    if call.backward is not None:
        recorded = call.backward.get("input", [])
        if not isinstance(recorded, list):
            raise FormatError(f'{call.name}.backward: "input": expected a list')
        gradients = [builder.build(entry) for entry in recorded]
    inputs = Inputs(args, kwargs, [g if _is_tensor(g) else None for g in gradients])
    if call.operator is not None:
        return inputs
    candidates = functions_named(call.prefix, call.function)
    return inputs if len(candidates) < 2 else replace(inputs, function=_chosen(call, inputs, candidates))


def _without_dropping(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    if len(args) > 1:
        return [args[0], 0.0, *args[2:]], kwargs
    return args, {**kwargs, "p": 0.0}


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def function_of(call: RecordedCall, device: str = "") -> Callable[..., Any]:
    """device: where it is to run; the CPU has no fused operators of NPUs. Raises UnsupportedError for a call
    that is not run again.
    """
    if call.operator is not None:
        return call.operator
    if call.prefix == "NPU" and device == "cpu":
        reference = reference_of(call.function)
        if reference is not None:
            return reference
    function = function_named(call.prefix, call.function)
    if function is None:
        raise UnsupportedError("this function cannot be run by itself, or is no operator")
    return function


def _chosen(
    call: RecordedCall, inputs: Inputs, candidates: tuple[Callable[..., Any], ...]
) -> Callable[..., Any]:
    """The function that gives what was recorded, else the first that takes the arguments."""
    recorded = list(records_in(call.outputs))
    runs: list[Callable[..., Any]] = []
    for candidate in candidates:
        try:
            found = Execution(call, inputs, "cpu", function=candidate, with_gradients=False)
        except (Error, RuntimeError, TypeError, ValueError):
            continue
        runs.append(candidate)
        outputs = found.outputs
        if len(outputs) == len(recorded) and all(
            _is_like(output, record, call.folder) for output, record in zip(outputs, recorded)
        ):
            return candidate
    return runs[0] if runs else candidates[0]


def _is_like(tensor: torch.Tensor, record: dict[str, Any], folder: Tensors | None) -> bool:
    """Whether a record can be that of the tensor."""
    import torch

    if list(tensor.shape) != record.get("shape") or str(tensor.dtype) != record.get("dtype"):
        return False
    if tensor.numel() == 0 or tensor.is_complex():
        return True
    if folder is not None and isinstance(record.get("data_name"), str):
        saved = saved_tensor(folder, record)
        return torch.allclose(saved.double(), tensor.double(), rtol=_LIKE, atol=_LIKE, equal_nan=True)
    for key, value in (("Max", tensor.max()), ("Min", tensor.min())):
        number = record.get(key)
        if isinstance(number, (int, float)) and not math.isclose(
            number, float(value), rel_tol=_LIKE, abs_tol=_LIKE
        ):
            return math.isnan(number) and math.isnan(float(value))
    return True


class Execution:
    """One run of a call: its forward when it is made, its backward when gradients() is called.

    device: where it runs.
    function: other than that of the record, e.g. an implementation under test.
    Raises what the function raises, and UnsupportedError where it changed arguments that are used again.
    """

    def __init__(
        self,
        call: RecordedCall,
        inputs: Inputs,
        device: str,
        precision: Precision | None = None,
        *,
        function: Callable[..., Any] | None = None,
        with_gradients: bool = True,
    ) -> None:
        import torch

        self._device = device
        self._precision = precision or Precision()
        self._leaves: list[torch.Tensor] = []
        # What the function changes in place is a copy; a leaf of the graph cannot be changed at all.
        tensors = list(tensors_in([inputs.args, inputs.kwargs]))
        self._copies = changes_arguments(call, inputs) or sum(t.numel() for t in tensors) < _FEW_ELEMENTS
        versions = [tensor._version for tensor in tensors]
        wants = with_gradients and inputs.needs_gradients
        args = self._moved(inputs.args, wants)
        kwargs = self._moved(inputs.kwargs, wants)
        run = function or inputs.function or function_of(call, device)
        with torch.set_grad_enabled(wants), _autocast(device, self._precision.autocast):
            value = run(*args, **kwargs)
        if versions != [tensor._version for tensor in tensors]:
            raise UnsupportedError("the function changed its arguments, which was not known of it")
        # What a call like t[0] = x computes stands in its argument.
        self.value = args[0] if value is None and args else value
        self._outputs = list(output_tensors(self.value))

    @property
    def outputs(self) -> list[torch.Tensor]:
        return [tensor.detach() for tensor in self._outputs]

    @property
    def graph_outputs(self) -> list[torch.Tensor]:
        """The outputs with the graph that made them."""
        return self._outputs

    def gradients(self, recorded: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Gradients of the tensors that were arguments, from left to right, None for those that have none.

        recorded: gradients of the outputs, on the CPU. Raises UnsupportedError where they do not fit.
        """
        import torch

        given = _paired(self._outputs, recorded)
        if not given:
            raise UnsupportedError("no recorded gradient belongs to an output that depends on the arguments")
        if _depend_on_each_other([output for output, _ in given]):
            raise UnsupportedError(
                "one output is made of another: of its gradient, what came from outside is not recorded apart"
            )
        wanted = [leaf for leaf in self._leaves if leaf.requires_grad]
        found = iter(
            torch.autograd.grad(
                [output for output, _ in given],
                wanted,
                [self.converted(gradient).to(output) for output, gradient in given],
                allow_unused=True,
            )
            if wanted
            else ()
        )
        return [next(found) if leaf.requires_grad else None for leaf in self._leaves]

    def _moved(self, value: Any, wants_gradients: bool) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            tensor = self.converted(value)
            keeps = wants_gradients and value.requires_grad
            leaf = tensor.detach()
            if keeps and (leaf.is_floating_point() or leaf.is_complex()):
                leaf.requires_grad_()
            self._leaves.append(leaf)
            return leaf.clone() if self._copies else leaf
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            return [self._moved(entry, wants_gradients) for entry in value]
        if isinstance(value, dict):
            return {key: self._moved(entry, wants_gradients) for key, entry in value.items()}
        if isinstance(value, torch.dtype) and not self._precision.tensors_only:
            return self._precision.dtypes.get(value, value)
        return torch.device(self._device) if isinstance(value, torch.device) else value

    def converted(self, tensor: torch.Tensor) -> torch.Tensor:
        """On the device, in its precision, with its strides."""
        return tensor.detach().to(self._device, self._precision.dtypes.get(tensor.dtype, tensor.dtype))


def changes_arguments(call: RecordedCall, inputs: Inputs) -> bool:
    """Whether the function may change its arguments. It may say yes for one that does not."""
    name = call.function.rpartition(".")[2]
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or name.startswith("__i") or name in ("__setitem__", "batch_norm", "instance_norm"):
        return True
    flags = [*inputs.args[1:], *inputs.kwargs.values()]
    return any(flag is True for flag in flags) or "max_norm" in inputs.kwargs or name.startswith("embedding")


def output_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Of a result, from left to right; a number that is no tensor is one without dimensions."""
    import torch

    if isinstance(value, (bool, int, float, complex)):
        dtype = torch.float64 if isinstance(value, float) else None
        yield torch.tensor(value, dtype=dtype)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from output_tensors(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from output_tensors(entry)
    elif isinstance(value, torch.Tensor):
        yield value


def _paired(
    outputs: list[torch.Tensor], recorded: list[torch.Tensor | None]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Outputs with their recorded gradients. A dump has one for each output, or for each that depends on the
    arguments; an older one that of a view inside the call, which has as many elements.
    """
    if len(recorded) != len(outputs):
        outputs = [output for output in outputs if output.requires_grad]
    pairs = []
    for output, gradient in zip(outputs, recorded):
        if gradient is None or not output.requires_grad:
            continue
        if gradient.numel() != output.numel():
            raise UnsupportedError(
                f"the recorded gradient has shape {list(gradient.shape)}, the output {list(output.shape)}"
            )
        pairs.append((output, gradient.reshape(output.shape)))
    return pairs


def _depend_on_each_other(outputs: list[torch.Tensor]) -> bool:
    """As the two states of an LSTM cell do."""
    import torch

    if len({output.grad_fn for output in outputs}) < 2:
        return False
    for i, output in enumerate(outputs):
        others = [other for k, other in enumerate(outputs) if k != i and other.grad_fn is not output.grad_fn]
        ones = [torch.ones_like(other) for other in others]
        (found,) = torch.autograd.grad(others, [output], ones, retain_graph=True, allow_unused=True)
        if found is not None:
            return True
    return False


_Result = TypeVar("_Result")


def without_random_numbers(run: Callable[[], _Result]) -> _Result:
    """Raises UnsupportedError, with the generator as it was, where a run draws from it."""
    import torch

    generator = torch.default_generator
    before = generator.get_state()
    result = run()
    if not torch.equal(before, generator.get_state()):
        generator.set_state(before)
        raise UnsupportedError("it draws random numbers: no two results are the same")
    return result


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Around calls that are run again: what torch warns of is for whoever wrote them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _autocast(device: str, dtype: torch.dtype | None) -> Iterator[None]:
    import torch

    if dtype not in (torch.float16, torch.bfloat16):  # torch knows no others
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autocast(device.partition(":")[0], dtype=dtype):
            yield


def dtype_of_output(call: RecordedCall) -> torch.dtype | None:
    """Of the first recorded output, when it is a tensor with fractions."""
    first = call.outputs[0] if call.outputs else None
    if not isinstance(first, dict) or "dtype" not in first:
        return None
    dtype = dtype_named(first["dtype"])
    return dtype if dtype.is_floating_point else None
