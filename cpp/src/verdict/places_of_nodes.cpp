// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a graph: files that say no more than how far off is what goes in and comes out.

#include <algorithm>
#include <map>

#include "msprobe/step_walk.h"
#include "verdict/model.h"

namespace msprobe::compare {
namespace {

constexpr std::size_t kMost = 50;

// Files count in machine epsilons of each dtype. The model is asked about so many of float32: of a coarser
// dtype a kernel rounds no more often.
constexpr double kEpsilon = 0x1p-23;

verdict::Place place_of(double entered) {
  return verdict::place_through(entered * kEpsilon, {.unit = kEpsilon / 2});
}

bool is_suspect(double found, double entered) {
  metrics::Distance distance;
  distance.low = found * kEpsilon;
  distance.equal = found == 0;
  return verdict::Model().excess(distance, verdict::Model().tolerance(place_of(entered))) >= 1;
}

}  // namespace

double opaque_limit(double entered) {
  return verdict::Model().suspect * verdict::Model().tolerance(place_of(entered)).magnitude / kEpsilon;
}

std::vector<SuspectNode> suspects_of_nodes(const std::vector<NodeDistances>& nodes) {
  std::map<std::int64_t, const NodeDistances*> by_place;
  for (const NodeDistances& one : nodes) by_place.emplace(one.place, &one);
  std::vector<SuspectNode> found;
  const auto at = [&](std::int64_t place) { return std::ranges::find(found, place, &SuspectNode::place); };
  const auto add = [&](const NodeDistances& node, std::string_view kind, double value, double before) {
    const auto known = at(node.place);
    (known == found.end() ? found.emplace_back() : *known) = {node.place, kind, value, before};
  };
  bool any_before = false;  // what goes in is of no origin any more
  for (const NodeDistances& node : nodes) {
    const double entered = std::max(node.inputs, node.weights);
    const bool is_explained = std::ranges::any_of(found, [&](const SuspectNode& inner) {
      return node.first_inside <= inner.place && inner.place <= node.place;
    });
    if (is_suspect(node.outputs, entered) && !is_explained) {
      add(node, "output", node.outputs, entered);
    } else if (!any_before && is_suspect(node.inputs, 0)) {
      // The weight that goes into a function is one of the module around.
      const auto around = by_place.find(node.parent);
      const bool is_weight = around != by_place.end() && is_suspect(around->second->weights, 0) &&
                             !is_suspect(around->second->inputs, 0);
      if (is_weight) {
        add(*around->second, "weight", around->second->weights, around->second->inputs);
      } else {
        add(node, "input", node.inputs, 0);
      }
    } else if (is_suspect(node.weights, node.inputs) && !is_explained && at(node.place) == found.end()) {
      add(node, "weight", node.weights, node.inputs);
    } else if (!any_before && is_suspect(node.gradients, 0)) {
      add(node, "gradient", node.gradients, 0);
    }
    any_before = any_before || is_suspect(std::max({entered, node.gradients, node.outputs}), 0);
    if (found.size() >= kMost) break;
  }
  return found;
}

}  // namespace msprobe::compare
