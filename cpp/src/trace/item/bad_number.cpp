// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/item/bad_number.h"

#include <algorithm>
#include <cmath>

#include "msprobe/operators.h"
#include "msprobe/record_name.h"

namespace msprobe::trace {
namespace {

Badness of_word(std::string_view word) noexcept {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  const auto is = [word](std::string_view wanted) {
    return std::equal(word.begin(), word.end(), wanted.begin(), wanted.end(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
  };
  if (is("nan")) return Badness::kNan;
  return is("inf") || is("infinity") ? Badness::kInfinite : Badness::kGood;
}

}  // namespace

Badness badness(const Trace& trace, const Scalar& scalar) noexcept {
  if (scalar.kind == Scalar::Kind::kText) return of_word(trace.text(scalar));
  if (scalar.kind != Scalar::Kind::kFloat) return Badness::kGood;
  return badness(trace.number(scalar).value_or(0));
}

Badness badness(double number) noexcept {
  if (std::isnan(number)) return Badness::kNan;
  return std::isinf(number) ? Badness::kInfinite : Badness::kGood;
}

bool is_deliberate_fill(std::string_view record, Badness worst_in, Badness worst_out) {
  return worst_in == Badness::kInfinite && worst_out == Badness::kInfinite && is_fill(record);
}

bool is_fill(std::string_view record) { return operators::find(RecordName(record).function()).fills; }

}  // namespace msprobe::trace
