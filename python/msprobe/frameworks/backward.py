# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The gradients of one call: what arrives at its results, and what it gives to each of its arguments, which
is a part of the gradient where the argument is used elsewhere, too.

They are read at the nodes of the framework's graph, which MindSpore shows to Python as PyTorch does. Nothing
is put into the graph: an identity around a call would change the order in which gradients are added up, and
so the numbers of the training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Edge = tuple[Any, int]  # a node, and which of its results
    Done = Callable[[Sequence[Any], Sequence[Any]], None]

# A leaf's number is the largest there is.
_LEAF = 2**63


def number_of(node: Any) -> int:
    """The number of a node, in the order in which nodes are made; -1: a leaf, which no call made."""
    number: int = node._sequence_nr()
    return -1 if number >= _LEAF else number


class BackwardOfCall:
    """inputs: the tensors that the call is given. first_node: nodes up to this number are older than it.
    add(a, b): the sum of two gradients. edge_of: where the gradient of a tensor goes; None: it has none.
    key_of: tells nodes apart. takes_returned: an argument that is returned as it is has what arrives at it as
    the gradient of both; else it has none.
    """

    def __init__(
        self,
        inputs: Sequence[Any],
        first_node: int,
        add: Callable[[Any, Any], Any],
        edge_of: Callable[[Any], Edge | None],
        key_of: Callable[[Any], int],
        *,
        takes_returned: bool = False,
    ) -> None:
        self._count = len(inputs)
        self._takes_returned = takes_returned
        self._add = add
        self._edge_of = edge_of
        self._key_of = key_of
        self._first = first_node
        self._edges: dict[tuple[int, int], list[int]] = {}  # node and number of a result -> its inputs
        self._nodes: list[Any] = []  # kept, so that a key is that of one node
        for position, tensor in enumerate(inputs):
            edge = edge_of(tensor)
            if edge is not None:
                node, number = edge
                self._nodes.append(node)
                self._edges.setdefault((key_of(node), number), []).append(position)
                self._first = max(self._first, number_of(node))

    def watch(self, outputs: Sequence[Any], done: Done) -> Callable[[], None] | None:
        arrivals = _Arrivals(len(outputs), self._count, done, self._add)
        nodes: dict[int, Any] = {}
        places: dict[int, list[tuple[int, int]]] = {}  # of a node: number of a result, position in outputs
        returned: dict[int, list[tuple[int, int]]] = {}
        kept: dict[int, Any] = {}
        for position, tensor in enumerate(outputs):
            edge = self._edge_of(tensor)
            if edge is None:
                continue
            node, number = edge
            key = self._key_of(node)
            if (key, number) in self._edges:
                kept[key] = node
                returned.setdefault(key, []).append((number, position))
                continue
            if number_of(node) < 0:
                continue
            nodes[key] = node
            places.setdefault(key, []).append((number, position))
        if not self._takes_returned:
            returned = {}
        if not nodes and not returned:
            return None
        for key, ends in returned.items():
            both = [(number, position, self._edges[key, number]) for number, position in ends]
            kept[key].register_prehook(arrivals.at_returned(both))
        for key, node in nodes.items():
            node.register_prehook(arrivals.at_outputs(places[key]))
        for node, edges in self._leaving(list(nodes.values())):
            node.register_hook(arrivals.at_inputs(edges))
        return arrivals.finish

    def _leaving(self, nodes: list[Any]) -> list[tuple[Any, list[tuple[int, list[int]]]]]:
        """Nodes of the call that give gradients to inputs: number of the gradient, positions in inputs."""
        found = []
        seen = {self._key_of(node): node for node in nodes}
        while nodes:
            node = nodes.pop()
            edges = []
            for number, (following, output) in enumerate(node.next_functions):
                if following is None:
                    continue
                key = self._key_of(following)
                positions = self._edges.get((key, output))
                if positions is not None:
                    edges.append((number, positions))
                elif key not in seen and number_of(following) > self._first:
                    seen[key] = following
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

    def at_returned(self, places: list[tuple[int, int, list[int]]]) -> Callable[[Any], None]:
        self._expect_one()

        def arrive(gradients: Any) -> None:
            for number, position, inputs in places:
                if number < len(gradients):
                    self._of_outputs[position] = gradients[number]
                    for one in inputs:
                        self._of_inputs[one] = gradients[number]
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
