# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the recording of a training asks of a framework. A port translates: it decides nothing about what is
kept, named or counted, and writes no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from msprobe.hooks.functions import Exchange, Removable

# Where the elements of a tensor lie: address (or why there is none), dtype, shape, strides in elements, and
# what has to stay alive while they are read.
View = tuple[Union[int, str], str, "Sequence[int]", "Sequence[int]", Any]
Named = tuple[str, Any]


class Observer(Protocol):
    """What is told of calls. Each function calls what it is given, and returns its result."""

    def function_call(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, *, distributed: bool = False
    ) -> Any: ...

    def primitive_call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any: ...

    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any: ...


class TrainingWatcher(Protocol):
    """What is told of a training that goes its own way."""

    def differentiated(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls the function, whose gradients are wanted, and returns its result."""

    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Makes each call of a module, and returns its result."""

    def optimizer_steps(self, optimizer: Any) -> None:
        """Before each step."""

    def optimizer_stepped(self, optimizer: Any) -> None: ...


class Backward(Protocol):
    """What the backward of one call needs of the time before it."""

    def watch(
        self, outputs: Sequence[Any], done: Callable[[Sequence[Any], Sequence[Any]], None]
    ) -> Callable[[], None] | None:
        """After the call: done(gradients of outputs, gradients of inputs) when all have arrived, None where
        there is none. Returns a function that says that no more will come; None: no gradient flows.
        """


class Port(Protocol):
    """A framework, as far as it is recorded."""

    name: str  # "framework" of dump.json
    package: str  # what the names of its types begin with
    qualifies_dtypes: bool  # whether dtypes are written with the package in front
    tensor_type: type

    def view(self, tensor: Any) -> View: ...

    def special(self, value: Any, key: str) -> tuple[str, str] | None:
        """Type and text of a value of its own that is no tensor, or None. `key`: that it stands under."""

    def tensors_of(self, value: Any) -> list[Any]:
        """The tensors in lists, tuples and dicts, in order."""

    def rank(self) -> int | None:
        """Of this process; None: the training is not distributed."""

    def world_size(self) -> int: ...

    def why_not(self) -> str:
        """Why calls cannot be seen as this process is set up, with what to do; empty: they can."""

    def modules(self, model: Any) -> Iterator[Named]:
        """Modules below the model with the first part of their records' names. Raises InvalidArgument."""

    def parameters(self, module: Any) -> dict[str, Any]:
        """Of the module itself, not of those inside."""

    def wants_gradient(self, tensor: Any) -> bool: ...

    def on_gradient(self, tensor: Any, function: Callable[[Any], None]) -> Removable: ...

    def functions(self, observer: Observer, model: Any) -> list[Exchange]:
        """Exchanges by which calls of functions go to the observer; `model`: for those that belong to it."""

    def custom_function(self, observer: Observer, module: Any, api: str, name: str) -> Exchange: ...

    def module_calls(self, observer: Observer) -> list[Exchange]: ...

    def around_compiled(self, others: list[Exchange], observer: Observer) -> list[Exchange]:
        """Takes `others` back while a compiled region runs."""

    def before_backward(self, inputs: Sequence[Any], first_node: int) -> Backward | None:
        """Before a call. None: its gradients cannot be seen."""

    def newest_node(self, tensors: Sequence[Any]) -> int:
        """The largest number of a node of the graph that made one of them; -1: none did."""

    def names_of_gradients(self, optimizer: Any) -> list[str]:
        """Of the parameters, in the order in which gradients are given to it. Raises InvalidArgument."""

    def optimizer_steps(self, optimizer: Any, before: Callable[[Sequence[Any]], None]) -> Exchange:
        """Calls before(gradients) at each step."""

    def every_optimizer_step(self, before: Callable[[Any], None]) -> Exchange:
        """Calls before(optimizer) at each step of any optimizer."""

    def settings(self, model: Any) -> dict[str, Any]:
        """Path of each module ("": the model) -> class, mode, settings (docs/formats/diagnosis.md)."""

    def hyper_parameters(self, optimizer: Any) -> dict[str, Any]:
        """Class and groups of an optimizer, with PyTorch's words for its hyper-parameters."""

    def training(self, watcher: TrainingWatcher) -> list[Exchange]: ...

    def keeps_graph(self, module: Any) -> bool:
        """Whether a call of the module is differentiated afterwards, wherever it is made."""

    def is_trained(self, module: Any) -> bool:
        """Whether a module has parameters that want gradients."""

    def described(self, module: Any) -> dict[str, Any]:
        """Its class and the number of elements of its parameters."""

    def number(self, value: Any) -> float | None:
        """The real number that a result is, or begins with; None: it is none."""
