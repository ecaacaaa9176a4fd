// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/trace_reader.h"

namespace msprobe::graph {

/// Where a tensor lies along one dimension of a mesh.
enum class Spread {
  kUnknown,  // it says nothing of this dimension
  kCopies,
  kParts,
  kSummands,
  kStrange  // a placement that is none of these
};

/// trace::TensorPlacement, taken apart.
struct PlacedTensor {
  std::string_view mesh;
  std::vector<std::string> axes;  // names, MeshAxis::name
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> coordinate;
  std::vector<std::string> placements;  // as recorded: "Shard(0)"

  /// Empty: it says nothing of this dimension.
  std::string_view along(std::string_view axis) const;
};

/// Of PlacedTensor::along().
Spread spread_of(std::string_view placement);

/// Nothing when the lists are not as long as the mesh has dimensions, as in a file that no tool wrote.
std::optional<PlacedTensor> parse_placement(const trace::Trace& trace,
                                            const trace::TensorPlacement& placement);

}  // namespace msprobe::graph
