// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// One call in a sequence that is aligned with another.
struct Token {
  std::uint64_t what = 0;    // the operator: only equal ones are paired
  std::uint64_t detail = 0;  // shapes, dtypes, numbers: pairs in which they are equal count more
  std::uint64_t flags = 0;   // which tensors need gradients, of equal shapes; 0: not recorded
  double size = 0;           // norm of the result; 0: not recorded

  bool is_like(const Token& other) const noexcept {
    return what == other.what && detail == other.detail &&
           (flags == other.flags || flags == 0 || other.flags == 0);
  }
  /// In how many bits the sizes of their results agree; kMostBits where one is not recorded.
  int agreement(const Token& other) const noexcept {
    if (size == other.size || size == 0 || other.size == 0) return kMostBits;
    const double apart = std::abs(size - other.size) / std::max(size, other.size);
    return std::min(-std::ilogb(apart), kMostBits);
  }
  static constexpr int kMostBits = 24;  // of float32
};

/// Of a record of the operator `what`.
Token token_of(std::string_view what, const Trace& trace, const Record& record);

/// Pairs of indices (target, reference), rising on both sides: a longest common subsequence of the operators,
/// of all such the one with the most equal details, and of these the one whose results are closest in size.
/// Beyond 5000 x 5000 calls that differ the details are not looked at, and sequences that differ in more than
/// 4000 places are paired as far as their ends agree.
std::vector<std::pair<std::uint32_t, std::uint32_t>> align(std::span<const Token> target,
                                                           std::span<const Token> reference);

}  // namespace msprobe::trace
