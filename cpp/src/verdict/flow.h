// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the tensors of a run come from: an argument that has the value of an earlier argument or result is
/// that tensor. Records do not say so, but two different tensors of training hardly ever have the same
/// extremes, norm and mean; where they are of one shape and have digests, these decide.

#include <cstdint>
#include <vector>

#include "msprobe/trace_reader.h"

namespace msprobe::verdict {

/// Index into Trace::all_items().
using ItemIndex = std::uint32_t;
inline constexpr ItemIndex kNoItem = 0xffffffff;

class Flow {
 public:
  explicit Flow(const trace::Trace& trace);

  /// The last item before this one, in the order of the file, with the same value; kNoItem: there is none, or
  /// the value has nothing of its own (all elements equal).
  ItemIndex source(ItemIndex item) const noexcept { return sources_[item]; }
  /// The first of all with this value: a later one may be a view of it, with another shape.
  ItemIndex first(ItemIndex item) const noexcept { return firsts_[item]; }
  /// The first item after this one with the same value; kNoItem: there is none.
  ItemIndex follower(ItemIndex item) const noexcept { return followers_[item]; }
  /// The record that an item belongs to.
  std::uint32_t record(ItemIndex item) const noexcept { return records_[item]; }

 private:
  std::vector<ItemIndex> sources_;
  std::vector<ItemIndex> followers_;
  std::vector<ItemIndex> firsts_;
  std::vector<std::uint32_t> records_;
};

/// Equal for items of equal value, 0 for those that cannot be told from others. Alike in all traces.
std::uint64_t value_key(const trace::Trace& trace, const trace::Item& item);

}  // namespace msprobe::verdict
