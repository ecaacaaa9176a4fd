# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A MindSpore of two hundred lines, of numpy: as much of its interface as its port uses. The real one has 800
MB and is asked by `./dev test-mindspore`.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_NUMBERS = itertools.count()
_LEAF = 2**64 - 1
_IDS = itertools.count(1)


class Handle:
    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self) -> None:
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


class Node:
    """Of the graph. backward(gradients of results) gives those of the arguments."""

    def __init__(self, inputs: list[Any], backward: Callable[[list[Any]], list[Any]] | None) -> None:
        self.id, self.backward = next(_IDS), backward
        self.number = next(_NUMBERS) if backward else _LEAF
        self.next_functions = [(None, 0) if t is None else (t._grad_node, t._output_index) for t in inputs]
        self.before: list[Any] = []
        self.after: list[Any] = []

    def _sequence_nr(self) -> int:
        return self.number

    def _unique_id(self) -> int:
        return self.id

    def register_prehook(self, hook: Any) -> Handle:
        return Handle(self.before, hook)

    def register_hook(self, hook: Any) -> Handle:
        return Handle(self.after, hook)


class Type:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class Tensor:
    _grad_node: Node | None = None

    def __init__(
        self, values: Any, dtype: Any = np.float32, node: Node | None = None, index: int = 0
    ) -> None:
        self.values = np.asarray(values, dtype)
        self._grad_node, self._output_index = node, index

    dtype = property(lambda self: Type(self.values.dtype.name.capitalize()))
    shape = property(lambda self: self.values.shape)
    size = property(lambda self: self.values.size)

    def data_ptr(self) -> int:
        return int(self.values.ctypes.data)

    def stride(self) -> list[int]:
        return [step // self.values.itemsize for step in self.values.strides]

    def asnumpy(self) -> Any:
        return self.values

    def register_hook(self, hook: Any) -> Handle:
        assert self._grad_node is not None
        index = self._output_index
        return Handle(self._grad_node.before, lambda gradients: hook(gradients[index]))

    def sum(self) -> Tensor:
        return apply([self], self.values.sum(), lambda g: [np.broadcast_to(g[0], self.shape).copy()])

    def __mul__(self, other: Tensor) -> Tensor:
        return apply(
            [self, other], self.values * other.values, lambda g: [g[0] * other.values, g[0] * self.values]
        )


class Parameter(Tensor):
    def __init__(self, values: Any, requires_grad: bool = True) -> None:
        super().__init__(values, node=Node([], None))
        self.requires_grad = requires_grad
        self.name = ""


def apply(inputs: list[Tensor], values: Any, backward: Callable[[list[Any]], list[Any]]) -> Tensor:
    if all(tensor._grad_node is None for tensor in inputs):
        return Tensor(values)
    return Tensor(values, node=Node([t if t._grad_node else None for t in inputs], backward))


class Primitive:
    def __call__(self, *args: Any) -> Any:
        return self.run(*args)


class MatMul(Primitive):
    """x by the transposed w."""

    def run(self, x: Tensor, w: Tensor) -> Tensor:
        return apply([x, w], x.values @ w.values.T, lambda g: [g[0] @ w.values, g[0].T @ x.values])


class Shape(Primitive):
    def run(self, x: Tensor) -> tuple[int, ...]:
        return x.shape


class Cell:
    training = requires_grad = False

    def __init__(self) -> None:
        self._params: dict[str, Parameter] = {}
        self._cells: dict[str, Cell] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._params[name] = value
        elif isinstance(value, Cell):
            self._cells[name] = value
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_params", "_cells"):
            if name in self.__dict__.get(table, {}):
                return self.__dict__[table][name]
        raise AttributeError(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in self.__dict__.get("before", []):
            hook(self, args)
        return self.construct(*args, **kwargs)

    def register_forward_pre_hook(self, hook: Any) -> Handle:
        return Handle(self.__dict__.setdefault("before", []), hook)

    def construct(self, *args: Any) -> Any:
        raise NotImplementedError

    def cells_and_names(self, prefix: str = "") -> Iterator[tuple[str, Cell]]:
        yield prefix, self
        for name, cell in self._cells.items():
            yield from cell.cells_and_names(f"{prefix}.{name}" if prefix else name)

    def get_parameters(self) -> Iterator[Parameter]:
        for _, cell in self.cells_and_names():
            yield from cell._params.values()

    def trainable_params(self) -> list[Parameter]:
        found = []
        for path, cell in self.cells_and_names():
            for name, parameter in cell._params.items():
                parameter.name = f"{path}.{name}" if path else name
                found.append(parameter)
        return found


class Dense(Cell):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.shape_op, self.matmul = Shape(), MatMul()
        self.weight = Parameter(np.linspace(-1, 1, inputs * outputs).reshape(outputs, inputs))

    def construct(self, x: Tensor) -> Tensor:
        self.shape_op(x)
        return self.matmul(x, self.weight)


class Optimizer(Cell):
    """Plain gradient descent."""

    def __init__(self, parameters: list[Parameter], rate: float = 0.1) -> None:
        super().__init__()
        self.__dict__["parameters"], self.rate = parameters, rate

    def get_lr(self) -> float:
        return self.rate

    def get_weight_decay(self) -> float:
        return 0.0

    def construct(self, gradients: Any) -> None:
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.values -= np.float32(self.rate) * gradient.values


def relu(x: Tensor) -> Tensor:
    return apply([x], np.maximum(x.values, 0), lambda g: [np.where(x.values > 0, g[0], 0).astype(np.float32)])


def add(a: Tensor, b: Tensor) -> Tensor:
    return apply([a, b], a.values + b.values, lambda g: [g[0], g[0]])


def twice(x: Tensor) -> Tensor:
    """Uses its argument two times."""
    return add(x * x, x)


def gradients_of(loss: Tensor, parameters: list[Parameter]) -> list[Any]:
    """Runs the backward, newest node first."""
    root = loss._grad_node
    assert root is not None
    waiting: dict[int, tuple[Node, dict[int, Any]]] = {root.id: (root, {0: np.ones((), np.float32)})}
    leaves: dict[int, Any] = {}
    while waiting:
        key = max(waiting, key=lambda one: -1 if waiting[one][0].backward is None else waiting[one][0].number)
        node, arrived = waiting.pop(key)
        gradients = tuple(Tensor(arrived[i]) if i in arrived else None for i in range(max(arrived) + 1))
        for hook in list(node.before):
            hook(gradients)
        if node.backward is None:
            leaves[node.id] = arrived[0]
            continue
        given = node.backward([arrived.get(i) for i in range(max(arrived) + 1)])
        for hook in list(node.after):
            hook(tuple(None if g is None else Tensor(g) for g in given), gradients)
        for gradient, (following, index) in zip(given, node.next_functions):
            if following is not None:
                sums = waiting.setdefault(following.id, (following, {}))[1]
                sums[index] = sums[index] + gradient if index in sums else gradient
    return [Tensor(leaves[p._grad_node.id]) for p in parameters if p._grad_node]


def _pynative_func_grad_forward(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


class _JitExecutor:
    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


def modules() -> dict[str, types.ModuleType]:
    """Of sys.modules, to be put there by a test."""

    def module(name: str, **values: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        for key, value in values.items():
            setattr(made, key, value)
        return made

    context = {"mode": 1, "device_target": "CPU"}
    ops = module("mindspore.ops", relu=relu, add=add, square=twice, Primitive=Primitive)
    communication = module(
        "mindspore.communication",
        GlobalComm=types.SimpleNamespace(INITED=False),
        get_rank=lambda: 0,
        get_group_size=lambda: 1,
    )
    no_grad = type("no_grad", (), {"__enter__": lambda self: self, "__exit__": lambda self, *_: None})
    api = module("mindspore.common.api", _no_grad=no_grad, _JitExecutor=_JitExecutor)
    nn = module("mindspore.nn", Cell=Cell, Dense=Dense, Optimizer=Optimizer)
    base = module("mindspore.ops.composite.base", _pynative_func_grad_forward=_pynative_func_grad_forward)
    root = module(
        "mindspore",
        Tensor=Tensor,
        Parameter=Parameter,
        nn=nn,
        ops=ops,
        communication=communication,
        context=context,
        get_context=context.__getitem__,
        set_context=lambda **values: context.update(values),
        GRAPH_MODE=0,
        PYNATIVE_MODE=1,
        _c_expression=types.SimpleNamespace(typing=types.SimpleNamespace(Type=Type)),
        __version__="0.0-stand-in",
    )
    return {
        "mindspore": root,
        "mindspore.ops": ops,
        "mindspore.ops.composite": module("mindspore.ops.composite", base=base),
        "mindspore.ops.composite.base": base,
        "mindspore.experimental.optim": module("mindspore.experimental.optim", Optimizer=Optimizer),
        "mindspore.nn": nn,
        "mindspore.communication": communication,
        "mindspore.common": module("mindspore.common", api=api),
        "mindspore.common.api": api,
    }


def install(monkeypatch: Any) -> types.ModuleType:
    for name, made in modules().items():
        monkeypatch.setitem(sys.modules, name, made)
    return sys.modules["mindspore"]
