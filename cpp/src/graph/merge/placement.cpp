// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/placement.h"

#include <algorithm>
#include <charconv>

namespace msprobe::graph {
namespace {

// "[2, 3]"
std::vector<std::size_t> numbers_of(std::string_view list) {
  std::vector<std::size_t> numbers;
  for (;;) {
    const std::size_t begin = list.find_first_of("0123456789");
    if (begin == std::string_view::npos) return numbers;
    list.remove_prefix(begin);
    std::size_t& number = numbers.emplace_back();
    const char* const end = std::from_chars(list.data(), list.data() + list.size(), number).ptr;
    list.remove_prefix(static_cast<std::size_t>(end - list.data()));
  }
}

// "['a', 'b']", as Python prints it: a text with an apostrophe stands in quotes.
std::vector<std::string> texts_of(std::string_view list) {
  std::vector<std::string> texts;
  for (;;) {
    const std::size_t begin = list.find_first_of("'\"");
    if (begin == std::string_view::npos) return texts;
    const std::size_t end = list.find(list[begin], begin + 1);
    if (end == std::string_view::npos) return texts;
    texts.emplace_back(list.substr(begin + 1, end - begin - 1));
    list.remove_prefix(end + 1);
  }
}

}  // namespace

std::string_view PlacedTensor::along(std::string_view axis) const {
  const auto found = std::find(axes.begin(), axes.end(), axis);
  if (found == axes.end()) return {};
  return placements[static_cast<std::size_t>(found - axes.begin())];
}

Spread spread_of(std::string_view placement) {
  const std::string_view kind = placement.substr(0, placement.find('('));
  if (kind.empty()) return Spread::kUnknown;
  if (kind == "Replicate") return Spread::kCopies;
  if (kind == "Shard" || kind == "StridedShard") return Spread::kParts;
  return kind.ends_with("Partial") ? Spread::kSummands : Spread::kStrange;
}

std::optional<PlacedTensor> parse_placement(const trace::Trace& trace,
                                            const trace::TensorPlacement& placement) {
  PlacedTensor placed;
  placed.mesh = trace.text(placement.mesh);
  const std::string_view shape = trace.text(placement.mesh_shape);
  placed.sizes = numbers_of(shape);
  placed.coordinate = numbers_of(trace.text(placement.coordinate));
  placed.axes = texts_of(trace.text(placement.mesh_dims));
  placed.placements = texts_of(trace.text(placement.placements));
  const std::size_t count = placed.sizes.size();
  if (placed.axes.empty()) {
    for (std::size_t i = 0; i < count; ++i)
      placed.axes.push_back(std::string(shape) + " " + std::to_string(i));
  }
  const bool fits = count > 0 && placed.axes.size() == count && placed.coordinate.size() == count &&
                    placed.placements.size() == count;
  return fits ? std::optional(std::move(placed)) : std::nullopt;
}

}  // namespace msprobe::graph
