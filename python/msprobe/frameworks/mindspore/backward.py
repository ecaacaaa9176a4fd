# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The gradients of one call: what arrives at its results, and what it gives to each of its arguments, which
is a part of the gradient where the argument is used elsewhere, too.

They are read at the nodes of MindSpore's graph. Nothing is put into the graph: an identity around a call
would change the order in which gradients are added up, and so the numbers of the training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Done = Callable[[Sequence[Any], Sequence[Any]], None]

# A leaf's number is the largest there is.
_LEAF = 2**63


def number_of(node: Any) -> int:
    """The number of a node, in the order in which nodes are made; -1: a leaf, which no call made."""
    number: int = node._sequence_nr()
    return -1 if number >= _LEAF else number


class BackwardOfCall:
    """inputs: the tensors that the call is given. first_node: nodes up to this number are older than it.
    add(a, b): the sum of two gradients.
    """

    def __init__(self, inputs: Sequence[Any], first_node: int, add: Callable[[Any, Any], Any]) -> None:
        self._count = len(inputs)
        self._add = add
        self._first = first_node
        self._edges: dict[tuple[int, int], list[int]] = {}  # node and number of a result -> its inputs
        for position, tensor in enumerate(inputs):
            node = tensor._grad_node
            if node is not None:
                self._edges.setdefault((node._unique_id(), tensor._output_index), []).append(position)
                self._first = max(self._first, number_of(node))

    def watch(self, outputs: Sequence[Any], done: Done) -> Callable[[], None] | None:
        arrivals = _Arrivals(len(outputs), self._count, done, self._add)
        nodes: dict[int, Any] = {}
        places: dict[int, list[tuple[int, int]]] = {}  # of a node: number of a result, position in outputs
        for position, tensor in enumerate(outputs):
            node = tensor._grad_node
            if node is None:
                continue
            key = node._unique_id()
            if (key, tensor._output_index) in self._edges or number_of(node) < 0:
                continue  # an argument that is returned as it is
            nodes[key] = node
            places.setdefault(key, []).append((tensor._output_index, position))
        if not nodes:
            return None
        for key, node in nodes.items():
            node.register_prehook(arrivals.at_outputs(places[key]))
        for node, edges in self._leaving(list(nodes.values())):
            node.register_hook(arrivals.at_inputs(edges))
        return arrivals.finish

    def _leaving(self, nodes: list[Any]) -> list[tuple[Any, list[tuple[int, list[int]]]]]:
        """Nodes of the call that give gradients to inputs: number of the gradient, positions in inputs."""
        found = []
        seen = {node._unique_id() for node in nodes}
        while nodes:
            node = nodes.pop()
            edges = []
            for number, (following, output) in enumerate(node.next_functions):
                if following is None:
                    continue
                key = following._unique_id()
                positions = self._edges.get((key, output))
                if positions is not None:
                    edges.append((number, positions))
                elif key not in seen and number_of(following) > self._first:
                    seen.add(key)
                    nodes.append(following)
            if edges:
                found.append((node, edges))
        return found


class _Arrivals:
    """Collects gradients until each of those expected has come."""

    def __init__(self, outputs: int, inputs: int, done: Done, add: Callable[[Any, Any], Any]) -> None:
        self._outputs = outputs
        self._inputs = inputs
        self._done = done
        self._add = add
        self._expected = 0
        self._begin()

    def _begin(self) -> None:
        self._of_outputs: list[Any] = [None] * self._outputs
        self._of_inputs: list[Any] = [None] * self._inputs
        self._missing = self._expected
        self._has_begun = False

    def at_outputs(self, places: list[tuple[int, int]]) -> Callable[[Any], None]:
        self._expect_one()

        def arrive(gradients: Any) -> None:
            for number, position in places:
                if number < len(gradients):
                    self._of_outputs[position] = gradients[number]
            self._arrived()

        return arrive

    def at_inputs(self, edges: list[tuple[int, list[int]]]) -> Callable[[Any, Any], None]:
        self._expect_one()

        def arrive(gradients: Any, _: Any) -> None:
            for number, positions in edges:
                gradient = gradients[number] if number < len(gradients) else None
                if gradient is None:
                    continue
                for position in positions:
                    known = self._of_inputs[position]
                    self._of_inputs[position] = gradient if known is None else self._add(known, gradient)
            self._arrived()

        return arrive

    def _expect_one(self) -> None:
        self._expected += 1
        self._missing += 1

    def _arrived(self) -> None:
        self._has_begun = True
        self._missing -= 1
        if self._missing == 0:
            self.finish()

    def finish(self) -> None:
        """What has not come does not come any more."""
        if not self._has_begun:
            return
        outputs, inputs = self._of_outputs, self._of_inputs
        self._begin()  # a graph that is kept may run again
        self._done(outputs, inputs)
