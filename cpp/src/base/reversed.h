// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msprobe {

/// A range from its last to its first element, for a loop. `range` must outlive it. In place of
/// std::views::reverse, of which Clang 14 does not compile what libstdc++ 12 has.
template <typename Range>
class Reversed {
 public:
  explicit Reversed(const Range& range) : range_(range) {}
  auto begin() const { return range_.rbegin(); }
  auto end() const { return range_.rend(); }

 private:
  const Range& range_;
};

}  // namespace msprobe
