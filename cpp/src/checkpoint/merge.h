// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Shards of one pipeline stage become parameters.

#include <string>
#include <unordered_map>
#include <vector>

#include "msprobe/checkpoint.h"

namespace msprobe::checkpoint {

/// The parameters of one rank by name, in the order of its file.
class Shards {
 public:
  Shards() = default;
  explicit Shards(std::vector<Parameter> parameters);

  const std::vector<Parameter>& all() const noexcept { return parameters_; }
  /// Null where there is none.
  const Parameter* find(const std::string& name) const;

 private:
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, std::size_t> places_;
};

/// What a merge needs to know beyond the shards.
struct MergeContext {
  const Rules& rules;
  bool gated = false;                  // the settings say so; otherwise the shapes tell
  double version = 3;                  // of the checkpoint: below 2, query, key and value have another order
  std::int64_t heads = 0;              // of attention in the whole model
  std::vector<std::string>& warnings;  // are added to
};

/// The parameter `name` of which the rank in each of `ranks` has a shard, in the order of ranks. Throws
/// FormatError naming `place` when they do not fit together.
Parameter merge(const std::string& name, const std::vector<const Shards*>& ranks, const MergeContext& context,
                const std::string& place);

/// What equal_bits() looks at.
enum class Extent : std::uint8_t {
  kAll,
  kSample,  // the first MiB and one from the middle of each piece: copies that part do so everywhere
};

/// Whether two parameters have the same shape, dtype and bits. Files stay in memory only while they are
/// looked at.
bool equal_bits(const Parameter& reference, const Parameter& target, Extent extent = Extent::kAll);

}  // namespace msprobe::checkpoint
