// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/graph.h"

namespace msprobe::graph {

/// What modules are called elsewhere: of names that begin with `from` that becomes `to`.
struct Renaming {
  std::string from;
  std::string to;

  std::string operator()(std::string_view name) const;
};

/// Copies parts of the graph of one rank into that of another. Calls get the rank they come from into their
/// names, and so do modules whose names are taken.
class Import {
 public:
  /// Both outlive the object.
  Import(Graph& into, const Graph& from);

  /// Copies a node and what is below it. The copy has no parent.
  NodeId tree(NodeId node, const Renaming& renaming = {});

 private:
  NodeId copy(NodeId node, const Renaming& renaming);

  Graph& into_;
  const Graph& from_;
  std::vector<std::uint16_t> sources_;  // of the dumps of from_, in into_
};

}  // namespace msprobe::graph
