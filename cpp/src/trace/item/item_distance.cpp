// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "base/non_finite.h"
#include "msprobe/sketch_text.h"
#include "msprobe/trace_compare.h"

namespace msprobe::trace {
namespace {

bool same_text(const Trace& a, Text x, const Trace& b, Text y) { return a.text(x) == b.text(y); }

// Most are, and need not be read as numbers.
bool same_as_written(const Trace& a, const Item& x, const Trace& b, const Item& y) {
  const auto same = [&](const Scalar& s, const Scalar& t) {
    return s.kind == t.kind && same_text(a, s.text(), b, t.text());
  };
  return same(x.max, y.max) && same(x.min, y.min) && same(x.mean, y.mean) && same(x.norm, y.norm) &&
         same_text(a, x.sketch, b, y.sketch) && same_text(a, x.md5, b, y.md5) &&
         same_text(a, x.dtype, b, y.dtype);
}

// Equal records say all that they can: with checksum or sketch that the tensors are equal.
bool says_all(const Item& item) { return item.md5.length > 0 || item.sketch.length > 0; }

// true and false of a bool tensor, any and all.
std::optional<double> number_of(const Trace& trace, const Scalar& scalar) {
  if (scalar.kind == Scalar::Kind::kBool) return trace.text(scalar) == "True" ? 1 : 0;
  return trace.number(scalar);
}

Distance value_distance(const Trace& a, const Item& x, const Trace& b, const Item& y) {
  if (same_text(a, x.value.text(), b, y.value.text())) return {};
  const auto ours = a.number(x.value), theirs = b.number(y.value);
  const bool are_floats = x.value.kind == Scalar::Kind::kFloat || y.value.kind == Scalar::Kind::kFloat;
  return ours && theirs && are_floats ? metrics::distance_of_numbers(*ours, *theirs)
                                      : Distance::unmeasurable();
}

bool has_nan(const metrics::TensorFacts& facts) {
  if (facts.non_finite) return facts.non_finite->any();
  return facts.norm && !std::isfinite(*facts.norm);
}

}  // namespace

std::optional<DType> dtype_of(std::string_view text) { return dtype_in_text(text); }

double element_count(std::string_view shape) {
  double count = 1, extent = 0;
  bool in_number = false;
  for (const char c : shape) {
    if (c >= '0' && c <= '9') {
      extent = extent * 10 + (c - '0');
      in_number = true;
    } else if (in_number) {
      count *= extent;
      extent = 0;
      in_number = false;
    }
  }
  return count;
}

double in_roundings(double relative, std::optional<DType> dtype) noexcept {
  if (relative == 0) return 0;
  const double epsilon = 2 * metrics::unit_roundoff(dtype);
  return epsilon > 0 ? relative / epsilon : kInfinity;
}

metrics::TensorFacts facts_of(const Trace& trace, const Item& item) {
  metrics::TensorFacts facts;
  facts.dtype = item.element_type();
  facts.count = element_count(trace.text(item.shape));
  facts.max = number_of(trace, item.max);
  facts.min = number_of(trace, item.min);
  facts.mean = number_of(trace, item.mean);
  facts.norm = number_of(trace, item.norm);
  facts.checksum = trace.text(item.md5);
  if (item.sketch.length > 0) {
    if (const auto sketch = read_sketch(trace.text(item.sketch))) {
      facts.is_exact = true;
      facts.sketch = sketch->sketch;
      if (sketch->has_digest) facts.digest = sketch->sketch.digest;
      facts.non_finite = sketch->non_finite;
    }
  } else if (trace.text(item.shape) == "[]") {
    facts.is_exact = true;  // one element, written as it is
  }
  return facts;
}

Distance distance(const Trace& target_trace, const Item& target, const Trace& reference_trace,
                  const Item* reference, const RealMetrics* metrics, double floor) {
  if (reference == nullptr || target.kind != reference->kind) return Distance::unmeasurable();
  if (target.kind == Item::Kind::kNull) return {};
  if (target.kind == Item::Kind::kValue)
    return value_distance(target_trace, target, reference_trace, *reference);
  if (metrics == nullptr && says_all(target) &&
      same_as_written(target_trace, target, reference_trace, *reference)) {
    return {};
  }
  const metrics::TensorFacts ours = facts_of(target_trace, target),
                             theirs = facts_of(reference_trace, *reference);
  const Distance recorded = metrics::distance(ours, theirs, floor);
  if (metrics == nullptr || !metrics->max_absolute.number()) return recorded;
  const bool is_equal = metrics->max_absolute.value == 0;
  // Where there is NaN the elements say less than the sketches, which leave it out.
  if (!metrics->euclidean.number() || has_nan(theirs)) {
    return is_equal && !has_nan(theirs) ? Distance{} : recorded;
  }
  return metrics::distance_of_elements(ours, theirs, metrics->euclidean.value, is_equal, floor);
}

}  // namespace msprobe::trace
