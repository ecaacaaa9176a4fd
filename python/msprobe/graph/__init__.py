# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs of the hierarchy of a model, with what a run recorded in it; alone, or of two runs compared.

graph = msprobe.graph.compare("reference/step0/rank0", "target/step0/rank0")
for node in graph.worst(5): print(node.name, node.worst_ulps)
graph.save("result")
"""

from msprobe.graph.view import GraphView, build, compare

__all__ = ["GraphView", "build", "compare"]
