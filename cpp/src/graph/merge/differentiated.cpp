// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/differentiated.h"

#include <algorithm>
#include <string>

#include "graph/merge/merged_data.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {

NodeId forward_node(const Graph& graph, std::string_view backward) {
  return graph.find(trace::RecordName(backward).with(trace::Direction::kForward));
}

// Gradients are numbered as values are, or as those that are tensors; of these a gradient mostly has the
// shape.
std::optional<std::size_t> find_differentiated(std::span<const Parameter> values, const Parameter& gradient) {
  const std::string_view path = gradient.trace->text(gradient.item->path);
  const std::string_view shape = gradient.trace->text(gradient.item->shape);
  std::optional<std::size_t> best;
  int best_score = 0;
  std::size_t number = 0;  // of a tensor among them
  for (std::size_t i = 0; i < values.size(); ++i) {
    const trace::Item& item = *values[i].item;
    if (item.part == trace::Item::Part::kParameters || !statistics_of(values[i])) continue;
    const bool has_path = values[i].trace->text(item.path) == path,
               has_number = std::to_string(number++) == path;
    const bool has_shape = values[i].trace->text(item.shape) == shape;
    const int score = has_shape ? (has_path ? 4 : has_number ? 3 : 1) : (has_path ? 2 : 0);
    if (score > best_score) best = i;
    best_score = std::max(best_score, score);
  }
  return best;
}

}  // namespace msprobe::graph
