// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/merge.h"

#include <algorithm>
#include <optional>

#include "base/shape_text.h"
#include "checkpoint/names.h"
#include "checkpoint/pieces.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {
namespace {

using How = MergeRule::How;

How how_of(const Rules& rules, const std::string& name) {
  for (const MergeRule& rule : rules.merges) {
    if (matches_any(rule.patterns, name)) return rule.how;
  }
  return How::kUnknown;
}

std::int64_t extent(const Parameter* parameter, std::size_t dimension) {
  return parameter == nullptr || dimension >= parameter->shape.size() ? 0 : parameter->shape[dimension];
}

// The first layer of a gated MLP has twice the rows that the second one has columns.
bool is_gated(const std::string& name, const Shards& rank, const MergeContext& context) {
  const std::size_t layer = name.rfind("linear_fc1");
  if (layer == std::string::npos) return context.gated;
  const std::string before = name.substr(0, layer);
  const std::int64_t rows = extent(rank.find(name), 0);
  const std::int64_t columns = extent(rank.find(before + "linear_fc2.weight"), 1);
  return columns == 0 ? context.gated : rows == 2 * columns;
}

// Each shard cut along dimension 0 into sections of these sizes; the result has all shards' first sections,
// then all second ones.
Parameter by_sections(const std::vector<Parameter>& shards, const std::vector<std::int64_t>& sizes) {
  std::vector<Parameter> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    for (const Parameter& shard : shards) parts.push_back(slice(shard, 0, begin, begin + size));
    begin += size;
  }
  return joined(parts, 0);
}

// Sections of what goes into a state-space mixer: z, x, B, C, dt for its projection, and x, B, C for its
// convolution. The other parameters of the layer tell their sizes. Empty where they do not fit.
std::vector<std::int64_t> mixer_sections(const std::string& name, const Shards& rank) {
  const std::size_t end = std::min(name.rfind("in_proj"), name.rfind("conv1d"));
  if (end == std::string::npos) return {};
  const std::string before = name.substr(0, end);
  const std::int64_t rows = extent(rank.find(name), 0);
  const std::int64_t heads = extent(rank.find(before + "dt_bias"), 0);
  const std::int64_t inner = extent(rank.find(before + "out_proj.weight"), 1);
  const bool is_projection = name.compare(end, 7, "in_proj") == 0;
  const std::int64_t states = rows - (is_projection ? 2 * inner + heads : inner);
  if (heads == 0 || inner == 0 || states < 2 || states % 2 != 0) return {};
  if (is_projection) return {inner, inner, states / 2, states / 2, heads};
  return {inner, states / 2, states / 2};
}

// Rows of query, key and value as Megatron has kept them since version 2: head by head. Before, they were
// (what, head, row) in version 0 and (head, row, what) in version 1.
Parameter in_new_order(const Parameter& shard, double version, std::int64_t heads) {
  constexpr std::int64_t kWhats = 3;
  const std::int64_t rows = extent(&shard, 0);
  if (shard.pieces.size() != 1 || heads < 1 || rows % (kWhats * heads) != 0) {
    throw InvalidArgument("shape " + shape_text(shard.shape) + " does not have the rows of " +
                          std::to_string(heads) + " heads, as version " + std::to_string(version) +
                          " of checkpoints has them");
  }
  const std::int64_t size = rows / kWhats / heads;
  const Piece& all = shard.pieces[0];
  const auto item = static_cast<std::int64_t>(element_size(shard.dtype));
  Parameter result{shard.name, shard.dtype, shard.shape, {}};
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t what = 0; what < kWhats; ++what) {
      const std::int64_t first = version < 1 ? (what * heads + head) * size : head * size * kWhats + what;
      Piece& piece = result.pieces.emplace_back(all);
      piece.offset[0] = (head * kWhats + what) * size;
      piece.shape[0] = size;
      piece.strides[0] = all.strides[0] * (version < 1 ? 1 : kWhats);
      piece.data = all.data + first * all.strides[0] * item;
    }
  }
  return result;
}

bool all_equal(const std::vector<Parameter>& shards) {
  return std::all_of(shards.begin() + 1, shards.end(),
                     [&](const Parameter& shard) { return equal_bits(shards[0], shard); });
}

Parameter one_of_copies(const std::string& name, const std::vector<Parameter>& shards,
                        const MergeContext& context) {
  for (std::size_t rank = 1; rank < shards.size(); ++rank) {
    if (shards[rank].shape != shards[0].shape) {
      throw InvalidArgument("its copies have the shapes " + shape_text(shards[0].shape) + " and " +
                            shape_text(shards[rank].shape));
    }
    if (!equal_bits(shards[0], shards[rank])) {
      context.warnings.push_back(name + ": the copies of tensor-parallel ranks 0 and " +
                                 std::to_string(rank) + " differ; that of rank 0 is compared");
      break;
    }
  }
  return shards[0];
}

Parameter put_together(const std::string& name, const std::vector<Parameter>& shards, const Shards& first,
                       const MergeContext& context) {
  switch (how_of(context.rules, name)) {
    case How::kSame: return one_of_copies(name, shards, context);
    case How::kRows: return joined(shards, 0);
    case How::kColumns: return joined(shards, 1);
    case How::kGated: {
      const std::int64_t rows = extent(&shards[0], 0);
      if (!is_gated(name, first, context) || rows % 2 != 0) return joined(shards, 0);
      return by_sections(shards, {rows / 2, rows / 2});
    }
    case How::kSections: {
      const std::vector<std::int64_t> sizes = mixer_sections(name, first);
      return sizes.empty() ? joined(shards, 0) : by_sections(shards, sizes);
    }
    case How::kUnknown: break;
  }
  if (all_equal(shards)) return shards[0];
  context.warnings.push_back(name +
                             ": no rule says how its shards become one; they are put below each other");
  return joined(shards, 0);
}

}  // namespace

Shards::Shards(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) places_[parameters_[i].name] = i;
}

const Parameter* Shards::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &parameters_[found->second];
}

Parameter merge(const std::string& name, const std::vector<const Shards*>& ranks, const MergeContext& context,
                const std::string& place) {
  try {
    std::vector<Parameter> shards;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Parameter* const shard = ranks[rank]->find(name);
      if (shard == nullptr) {
        throw InvalidArgument("tensor-parallel rank " + std::to_string(rank) +
                              " does not have it, rank 0 does");
      }
      const bool is_old_qkv = context.version < 2 && name.find("linear_qkv.") != std::string::npos;
      shards.push_back(is_old_qkv ? in_new_order(*shard, context.version,
                                                 context.heads / static_cast<std::int64_t>(ranks.size()))
                                  : *shard);
    }
    if (shards.size() == 1) return shards[0];
    return put_together(name, shards, *ranks[0], context);
  } catch (const InvalidArgument& error) {
    throw FormatError(place, io::in_quotes(name), error.what());
  }
}

}  // namespace msprobe::checkpoint
