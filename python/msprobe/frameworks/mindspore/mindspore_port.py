# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The port of MindSpore."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from msprobe.frameworks.backward import BackwardOfCall, number_of
from msprobe.frameworks.mindspore import array_of, import_mindspore, without_graph
from msprobe.frameworks.mindspore.calls import (
    OffWhileCompiled,
    OptimizerCalls,
    OptimizerSteps,
    PrimitiveExchange,
    TrainingCalls,
    cell_exchange,
    differentiated_calls,
    function_exchange,
    function_exchanges,
    listed_functions,
)
from msprobe.frameworks.mindspore.settings import hyper_parameters, own_parameters, settings_of
from msprobe.native import InvalidArgument, log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from msprobe.frameworks.port import Backward, Named, Observer, TrainingWatcher, View
    from msprobe.hooks.api_list import ListedApi
    from msprobe.hooks.functions import Exchange, Removable

_DEEPEST = 50  # of values inside of each other


class MindSporePort:
    """Tensors, Cells and calls of MindSpore. Raises UnsupportedError where it cannot be imported."""

    name = "mindspore"
    package = "mindspore"
    qualifies_dtypes = False

    def __init__(self) -> None:
        ms = self._ms = import_mindspore()
        self.tensor_type: type = ms.Tensor
        self._type = getattr(getattr(ms, "_c_expression", None), "typing", None)
        self._told_of: set[str] = set()
        self._add = ms.ops.add  # as it is without hooks: what we add up is no call of the training
        self._shows_nodes = hasattr(ms.Tensor, "_grad_node")
        if not self._shows_nodes:
            log.warning(
                "MindSpore %s does not show the nodes of its graph, as 2.10 does: gradients of parameters "
                "are recorded, those of calls are not",
                ms.__version__,
            )

    # ---- values

    def view(self, tensor: Any) -> View:
        shape = tuple(tensor.shape)
        dtype = str(tensor.dtype).lower()
        if self._on_host():
            address = tensor.data_ptr()
            strides = tuple(tensor.stride())
            owner = tensor
        else:
            owner = array_of(tensor)
            address = owner.ctypes.data
            strides = tuple(step // owner.itemsize for step in owner.strides)
            dtype = str(owner.dtype)
        return address or ("has no memory yet" if 0 not in shape else 0), dtype, shape, strides, owner

    def _on_host(self) -> bool:
        return bool(self._ms.get_context("device_target") == "CPU")

    def special(self, value: Any, key: str) -> tuple[str, str] | None:
        of_type = getattr(self._type, "Type", None)
        if key == "dtype" or (of_type is not None and isinstance(value, of_type)):
            return "mindspore.dtype", str(value)
        return None

    def tensors_of(self, value: Any) -> list[Any]:
        found: list[Any] = []
        self._collect(value, found, 0)
        return found

    def _collect(self, value: Any, found: list[Any], depth: int) -> None:
        if isinstance(value, self.tensor_type):
            found.append(value)
        elif depth > _DEEPEST:
            return
        elif isinstance(value, (tuple, list)):
            for item in value:
                self._collect(item, found, depth + 1)
        elif isinstance(value, dict):
            for item in value.values():
                self._collect(item, found, depth + 1)

    # ---- the process

    def rank(self) -> int | None:
        communication = self._ms.communication
        return communication.get_rank() if communication.GlobalComm.INITED else None

    def world_size(self) -> int:
        return self._ms.communication.get_group_size() if self.rank() is not None else 1

    def why_not(self) -> str:
        if self._ms.get_context("mode") == self._ms.GRAPH_MODE:
            return (
                "MindSpore runs static graphs (GRAPH_MODE), whose calls are seen by its kernels on Ascend "
                "alone; set mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
            )
        return ""

    # ---- Cells

    def modules(self, model: Any) -> Iterator[Named]:
        cell, path = self._class_of_modules()
        kind = cell.__name__
        expected = f"start(model): levels L0 and mix expected a {path}, or a list or tuple of {kind}s"
        if isinstance(model, cell):
            models = [("", model)]
        elif isinstance(model, (list, tuple)) and model:
            models = [(f"{index}.", item) for index, item in enumerate(model)]
        else:
            raise InvalidArgument(f"{expected}, found {type(model).__name__}")
        for prefix, root in models:
            if not isinstance(root, cell):
                raise InvalidArgument(f"{expected}, found a {type(root).__name__} in the list")
            for name, inner in self._inside(root):
                self._tell_of_jit(inner)
                if name:
                    yield f"{kind}.{prefix}{name}.{type(inner).__name__}", inner

    def _class_of_modules(self) -> tuple[type, str]:
        """The class that all modules are of, and its path in the words of a user."""
        return self._ms.nn.Cell, "mindspore.nn.Cell"

    def _inside(self, module: Any) -> Iterator[Named]:
        """The module, and those inside with their paths."""
        found: Iterator[Named] = module.cells_and_names()
        return found

    def _tell_of_jit(self, cell: Any) -> None:
        name, construct = type(cell).__name__, getattr(cell, "construct", None)
        if getattr(construct, "__wrapped_by_jit__", False) and name not in self._told_of:
            self._told_of.add(name)
            log.warning(
                "construct of %s is compiled by ms.jit: the Cell itself is recorded, what it calls is not; "
                "take the decorator off, or set MS_JIT=0, to see inside",
                name,
            )

    def parameters(self, module: Any) -> dict[str, Any]:
        return {name: value for name, value in own_parameters(module).items() if value is not None}

    def wants_gradient(self, tensor: Any) -> bool:
        asked = getattr(tensor, "requires_grad", None)  # Parameters have it
        return bool(asked) if asked is not None else getattr(tensor, "_grad_node", None) is not None

    def on_gradient(self, tensor: Any, function: Callable[[Any], None]) -> Removable:
        handle: Removable = tensor.register_hook(function)
        return handle

    # ---- calls

    def functions(self, observer: Observer, model: Any) -> list[Exchange]:
        exchanges = list(function_exchanges(observer, self._listed()))
        roots = model if isinstance(model, (list, tuple)) else [model]
        cells = [cell for root in roots if root is not None for _, cell in self._inside(root)]
        if cells:
            exchanges.append(PrimitiveExchange(observer, cells, self._ms.ops.Primitive))
        return exchanges

    def _listed(self) -> Iterable[ListedApi]:
        return listed_functions()

    def custom_function(self, observer: Observer, module: Any, api: str, name: str) -> Exchange:
        return function_exchange(observer, module, api, name)

    def module_calls(self, observer: Observer) -> list[Exchange]:
        return [cell_exchange(observer, self._class_of_modules()[0])]

    def around_compiled(self, others: list[Exchange], observer: Observer) -> list[Exchange]:
        return [OffWhileCompiled(others, observer)]

    # ---- backward

    def before_backward(self, inputs: Sequence[Any], first_node: int) -> Backward | None:
        if not self._shows_nodes:
            return None
        return BackwardOfCall(inputs, first_node, self._sum, _edge_of, _key_of)

    def newest_node(self, tensors: Sequence[Any]) -> int:
        nodes = (tensor._grad_node for tensor in tensors)
        return max((number_of(node) for node in nodes if node is not None), default=-1)

    def _sum(self, a: Any, b: Any) -> Any:
        with without_graph():
            return self._add(a, b)

    # ---- optimizers

    def names_of_gradients(self, optimizer: Any) -> list[str]:
        # mindspore.nn, mindspore.mint.optim and mindspore.experimental.optim have classes of their own.
        parameters = getattr(optimizer, "parameters", None)
        if not isinstance(optimizer, self._ms.nn.Cell) or parameters is None:
            raise InvalidArgument(
                "PrecisionDebugger.monitor(optimizer): expected an optimizer of MindSpore, found "
                + type(optimizer).__name__
            )
        return [parameter.name for parameter in parameters]

    def optimizer_steps(self, optimizer: Any, before: Callable[[Sequence[Any]], None]) -> Exchange:
        return OptimizerSteps(optimizer, before)

    def every_optimizer_step(self, before: Callable[[Any], None]) -> Exchange:
        return OptimizerCalls(self._ms.nn.Cell, self._is_optimizer, before)

    def _is_optimizer(self, cell: Any) -> bool:
        of_groups = importlib.import_module("mindspore.experimental.optim").Optimizer
        return isinstance(cell, (self._ms.nn.Optimizer, of_groups))

    def settings(self, model: Any) -> dict[str, Any]:
        models = model if isinstance(model, (list, tuple)) else [model]
        several = len(models) > 1 or isinstance(model, (list, tuple))
        found = {}
        for index, root in enumerate(models):
            prefix = f"{index}." if several else ""
            named = settings_of(self._inside(root))
            found.update({f"{prefix}{path}".rstrip("."): one for path, one in named.items()})
        return found

    def hyper_parameters(self, optimizer: Any) -> dict[str, Any]:
        return hyper_parameters(optimizer, self.names_of_gradients(optimizer))

    # ---- trainings that are recorded unchanged

    def training(self, watcher: TrainingWatcher) -> list[Exchange]:
        return [
            TrainingCalls(self._ms.nn.Cell, self._is_optimizer, watcher),
            differentiated_calls(watcher),
        ]

    def keeps_graph(self, module: Any) -> bool:
        return bool(module.requires_grad)  # set_grad(), as TrainOneStepCell calls it

    def is_trained(self, module: Any) -> bool:
        return any(parameter.requires_grad for parameter in module.get_parameters())

    def described(self, module: Any) -> dict[str, Any]:
        sizes = [int(parameter.size) for parameter in module.get_parameters()]
        return {"class": type(module).__name__, "parameters": sum(sizes)}

    def number(self, value: Any) -> float | None:
        found: Any = value
        while isinstance(found, (tuple, list)) and found:
            found = found[0]
        if not isinstance(found, self._ms.Tensor) or found.size != 1:
            return None
        return float(array_of(found).reshape(-1)[0])


def _edge_of(tensor: Any) -> tuple[Any, int] | None:
    node = tensor._grad_node
    return None if node is None else (node, tensor._output_index)


def _key_of(node: Any) -> int:
    key: int = node._unique_id()
    return key
