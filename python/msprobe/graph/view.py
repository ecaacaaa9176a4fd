# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs in memory, for notebooks and scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msprobe.graph.inputs import Paths
from msprobe.graph.run import GraphOptions, write_graph
from msprobe.native import core
from msprobe.result import Result

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from msprobe._core import GraphNode, OpenGraph
    from msprobe.result import Cell

    StrPath = str | os.PathLike[str]


def build(dump: StrPath) -> GraphView:
    """The graph of one rank and step. `dump`: a folder with dump.json, construct.json and stack.json.

    Raises FormatError and IoError that name file and key.
    """
    return GraphView(Path(dump), None, "default", core.open_graph(dump))


def compare(
    reference: StrPath,
    target: StrPath,
    *,
    rule: Literal["default", "fuzzy"] = "default",
    threads: int = 0,
) -> GraphView:
    """The graph of a rank of the target, `target`; its nodes know how they differ from the reference.

    `rule`: "default" pairs nodes of the same name, place, types and shapes; "fuzzy" modules by name, and
    calls in them by their order. `threads`: 0 = all cores. Raises InvalidArgument when the two were recorded
    with different tasks, FormatError and IoError.
    """
    graph = core.open_graph(target, reference, rule=rule, threads=threads)
    return GraphView(Path(target), Path(reference), rule, graph)


class GraphView(Result):
    """The nodes of a run, children before their parents. A node has a `name`, `kind`, `parent`, `children`,
    `parameters`, `stack`; and, of two runs, `match`, `how`, `reason`, `index` (the precision index of
    mindstudio-probe) and distances `input_ulps`, `output_ulps`, `weight_ulps`, `gradient_ulps`: relative to
    the size of the tensor, in units of the rounding error of its dtype.
    """

    def __init__(
        self, target: Path, reference: Path | None, rule: Literal["default", "fuzzy"], graph: OpenGraph
    ) -> None:
        self._target = target
        self._reference = reference
        self._rule: Literal["default", "fuzzy"] = rule
        self._graph = graph
        self._nodes: list[GraphNode] | None = None

    @property
    def nodes(self) -> list[GraphNode]:
        """All nodes, in the order of their ends."""
        if self._nodes is None:
            self._nodes = self._graph.nodes()
        return self._nodes

    @property
    def sentence(self) -> str:
        if self._reference is None:
            return f"{len(self)} nodes of {self._target}"
        worst = self.worst(1)
        differs = f"{worst[0].name} differs most, {measured(own_ulps(worst[0]))}" if worst else ""
        return f"{len(self)} nodes, {len(self.unmatched())} without a match; {differs or 'no node differs'}"

    def table(self) -> Sequence[dict[str, Cell]]:
        """The nodes; of two runs those that differ, the worst first."""
        nodes = self.nodes if self._reference is None else self.worst(len(self.nodes))
        return [
            {
                "name": node.name,
                "kind": node.kind,
                "match": node.match,
                "input_ulps": node.input_ulps,
                "output_ulps": node.output_ulps,
                "weight_ulps": node.weight_ulps,
                "gradient_ulps": node.gradient_ulps,
            }
            for node in nodes
        ]

    @property
    def root(self) -> GraphNode:
        return self._graph.root

    @property
    def mode(self) -> str | None:
        """What was compared: "statistics", "md5", "real_data", "structure"; None: a graph alone."""
        return self._graph.mode

    def find(self, name: str) -> GraphNode | None:
        """The node of this name."""
        return self._graph.find(name)

    def worst(self, count: int = 10) -> list[GraphNode]:
        """The nodes whose own data differ most, the worst first; of equals, the first to end."""
        differing = [(own_ulps(node), node) for node in self.nodes]
        ranked = sorted((one for one in differing if one[0] > 0), key=lambda one: -one[0])
        return [node for _, node in ranked[:count]]

    def unmatched(self) -> list[GraphNode]:
        """The nodes that the reference lacks, or has in another form: see `node.reason`."""
        return [node for node in self.nodes if node.reason is not None]

    def save(self, folder: StrPath) -> Path:
        """Writes the file for the viewer into `folder` and returns its path. Reads the dumps again."""
        paths = Paths(self._target, self._reference)
        options = GraphOptions(Path(folder), rule=self._rule, shows_progress=False)
        return write_graph(paths, options).file

    def __iter__(self) -> Iterator[GraphNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


def measured(ulps: float) -> str:
    """A distance in words."""
    return "without a measure" if ulps == float("inf") else f"by {ulps:.3g} rounding errors"


def own_ulps(node: GraphNode) -> float:
    """The largest distance of a node's own data; 0: nothing differs, or nothing was compared."""
    ulps = (node.input_ulps, node.output_ulps, node.weight_ulps, node.gradient_ulps)
    return max((one for one in ulps if one is not None), default=0.0)
