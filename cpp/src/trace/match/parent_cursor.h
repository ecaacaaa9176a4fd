// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// Parents of records that are asked for in about the order of construct.json: the answer mostly stands
/// behind the one before, and no table is searched. Lives no longer than the Construct.
class ParentCursor {
 public:
  /// `construct`: null, where there is none.
  explicit ParentCursor(const Construct* construct) : construct_(construct) {}

  /// As Construct::parent().
  std::string_view parent(std::string_view name) {
    if (construct_ == nullptr) return {};
    const auto entries = construct_->entries();
    for (std::size_t i = last_; i < entries.size() && i < last_ + 2; ++i) {
      if (entries[i].name != name) continue;
      last_ = i;
      return entries[i].parent;
    }
    const Construct::Entry* const found = construct_->find(name);
    if (found == nullptr) return {};
    last_ = static_cast<std::size_t>(found - entries.data());
    return found->parent;
  }

 private:
  const Construct* construct_;
  std::size_t last_ = 0;  // place of the last answer
};

}  // namespace msprobe::trace
