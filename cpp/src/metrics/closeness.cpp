// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/non_finite.h"
#include "msprobe/metrics.h"

namespace msprobe::metrics {
namespace {

// The sum of the squares of 8 sketched differences is about the squared distance times a chi-squared variable
// of 8 degrees of freedom over 8. Its 0.5 % and 99.5 % quantiles are 1.34 and 21.95 (NIST/SEMATECH
// e-Handbook, 1.3.6.7.4): the distance is the estimate over 1.66 to over 0.41.
constexpr double kSketchedLow = 1 / 1.66;
constexpr double kSketchedHigh = 1 / 0.41;

// A sketch that finds less than this part of the norm of its own tensor is blind to it: the signs of equal
// neighbours, as an expanded tensor has them, cancel out. Of a chi-squared variable of 8 degrees of freedom
// over 8 one in a million is below the square. What differs may be as structured as the tensor; below
// `kAllBlind` nothing is believed.
constexpr double kBlind = 0.15, kAllBlind = 0.02;

// Where few elements differ, by one rounding each, two of them may cancel out in a sum: 16 such elements, and
// those four times the size of a typical one, are the most that may go unseen.
constexpr double kUnseenElements = 16, kLargeElement = 4;

// Sums are added up in another order on another device: at most 32 elements in float, then in double; of
// dtypes of 64 bits all in double. With u the unit roundoff, such a chain is off by 31 u of the sum of its
// magnitudes at the most (N. Higham: Accuracy and Stability of Numerical Algorithms, 2002, 4.2), so a norm,
// the root of a sum, by half of that, and two norms by 31 u, two means by 62 u of the root mean square; and a
// chain of random signs, as those of a sketch, by about 32 u / sqrt(6) of its typical element, 2.3 u of its
// norm: two sketches, rounded to float32 in files, by 3.4 u, and in one of 1000 by twice as much. Less cannot
// be told from nothing.
constexpr double kChain = 31, kSketchChain = 8;

// Without a sketch, largest and smallest element are two samples of what the elements are off by; norm and
// mean, which errors of single elements move by a root of their number less, are two more. Of random errors
// both extremes are below a quarter of the standard deviation in 4 % of all cases.
constexpr double kFromExtremes = 4;

// Of float32. A sum in it over a tree of additions, as devices have them, is off by log2(n) roundings of the
// sum of the magnitudes at most (N. Higham: Accuracy and Stability of Numerical Algorithms, 2002, 4.2). A
// norm is the root of one, so it is off by half of that; a mean, whose magnitudes are at most the root mean
// square, by all of it.
constexpr double kRoundoff = 0x1p-24;

// Two tensors whose elements have nothing to do with each other are about sqrt(2) apart.
constexpr double kUnrelated = 2;

bool is_same(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return *a == *b || (std::isnan(*a) && std::isnan(*b));
}

double finite_or_0(double value) { return std::isfinite(value) ? value : 0; }

// Of the finite elements; 0 where their sum ran over. `in_double`: from the sketch where there is one; else
// as the four statistics say it, rounded.
double norm_of(const TensorFacts& facts, bool in_double) {
  return std::abs(finite_or_0(in_double && facts.sketch ? facts.sketch->norm : facts.norm.value_or(0)));
}

// What one addition may be off by, relatively.
double unit_of_sums(const TensorFacts& facts) {
  const bool is_wide = facts.dtype && element_size(*facts.dtype) >= 8 && *facts.dtype != DType::kComplex64;
  // In double all elements are one chain: errors of random signs grow with its root.
  return is_wide ? 0x1p-53 * std::sqrt(std::max(facts.count, 1.0)) : kRoundoff;
}

double mean_of(const TensorFacts& facts, bool in_double) {
  return finite_or_0(in_double && facts.sketch ? facts.sketch->mean : facts.mean.value_or(0));
}

struct KnownExtremes {
  double min = 0;
  double max = 0;
};

KnownExtremes extremes_of(const TensorFacts& facts) {
  if (facts.sketch && facts.non_finite && facts.non_finite->any()) {
    return {finite_or_0(facts.sketch->min), finite_or_0(facts.sketch->max)};
  }
  return {finite_or_0(facts.min.value_or(0)), finite_or_0(facts.max.value_or(0))};
}

bool is_float(std::optional<DType> dtype) { return dtype && (is_floating(*dtype) || is_complex(*dtype)); }

// NaN or an infinity among the statistics; of those that are known as numbers.
bool shows_non_finite(const TensorFacts& facts) {
  if (facts.non_finite) return facts.non_finite->any();
  const auto is_bad = [](const std::optional<double>& value) { return value && !std::isfinite(*value); };
  return is_bad(facts.max) || is_bad(facts.min) || is_bad(facts.mean) || is_bad(facts.norm);
}

bool same_non_finite(const TensorFacts& a, const TensorFacts& b) {
  if (a.non_finite && b.non_finite) return *a.non_finite == *b.non_finite;
  const auto same_kind = [](const std::optional<double>& x, const std::optional<double>& y) {
    if (!x || !y || (std::isfinite(*x) && std::isfinite(*y))) return true;
    return is_same(x, y);
  };
  return same_kind(a.max, b.max) && same_kind(a.min, b.min) && same_kind(a.mean, b.mean) &&
         same_kind(a.norm, b.norm);
}

// Which part of its tensor's norm a sketch finds.
double seen_by_sketch(const TensorFacts& facts) {
  if (!facts.sketch) return 1;
  double squares = 0;
  for (const double sum : facts.sketch->sums) squares += sum * sum;
  const double norm = std::abs(facts.sketch->norm);
  return norm > 0 ? std::sqrt(squares) / norm : 1;
}

bool same_sketch(const TensorFacts& a, const TensorFacts& b) {
  if (!a.sketch || !b.sketch) return true;
  return a.sketch->sums == b.sketch->sums && a.sketch->mean == b.sketch->mean &&
         a.sketch->norm == b.sketch->norm;
}

bool same_statistics(const TensorFacts& a, const TensorFacts& b) {
  return is_same(a.max, b.max) && is_same(a.min, b.min) && is_same(a.mean, b.mean) &&
         is_same(a.norm, b.norm) && same_sketch(a, b) &&
         (!a.non_finite || !b.non_finite || *a.non_finite == *b.non_finite);
}

// Two tensors of the same shape, of which something may be known.
class PairOfFacts {
 public:
  PairOfFacts(const TensorFacts& target, const TensorFacts& reference, double floor)
      : a_(target),
        b_(reference),
        in_double_(target.is_exact && reference.is_exact),
        count_(std::max(reference.count, 1.0)),
        root_(std::sqrt(count_)) {
    size_ = std::max({norm_of(a_, in_double_), norm_of(b_, in_double_), floor * root_});
    if (size_ == 0) {  // no norm is recorded, or all is zero
      const KnownExtremes x = extremes_of(a_), y = extremes_of(b_);
      size_ = std::max({std::abs(x.min), std::abs(x.max), std::abs(y.min), std::abs(y.max)});
    }
    size_ = std::max(size_, std::numeric_limits<double>::min());
  }

  double size() const noexcept { return size_; }

  bool knows_bias() const { return in_double_; }
  double bias() const {
    if (!in_double_) return 0;
    return std::max({of_norms() - rounding_of_norms(), of_means() - rounding_of_means(), 0.0});
  }

  // Sums of masks of the smallest float32 run over in files.
  bool has_sketches() const { return std::isfinite(sketched()); }

  // Which part of a distance the sketches may be expected to see: 1 unless they are blind to the tensors.
  double seen() const {
    const double part = std::min(seen_by_sketch(a_), seen_by_sketch(b_));
    return part < kBlind ? part : 1;
  }

  // What two sketches of equal tensors may be apart by.
  double noise() const { return kSketchChain * unit(); }

  // Infinite: there are none that can be compared.
  double sketched() const {
    if (!a_.sketch || !b_.sketch || a_.digest.has_value() != b_.digest.has_value()) return kInfinity;
    if (!a_.digest && a_.dtype != b_.dtype) return kInfinity;
    return stats::distance(*a_.sketch, *b_.sketch) / size_;
  }

  double cancelled() const {
    const double unit = std::max(unit_roundoff(a_.dtype), unit_roundoff(b_.dtype));
    return kLargeElement * unit * std::sqrt(std::min(kUnseenElements / count_, 1.0));
  }

  double peak() const {
    double all = 0, most = 0;
    if (!a_.sketch || !b_.sketch) return 0;
    for (std::size_t i = 0; i < stats::Sketch::kSums; ++i) {
      const double apart = a_.sketch->sums[i] - b_.sketch->sums[i];
      all += apart * apart;
      most = std::max(most, apart * apart);
    }
    return all > 0 ? most / all : 0;
  }

  // What the L2 distance is at least: norms, means and single elements cannot differ by more (triangle
  // inequality, Cauchy-Schwarz). Less what rounding the statistics may have made.
  double at_least() const {
    return std::max({of_extremes() - rounding_of_extremes(), of_norms() - rounding_of_norms(),
                     of_means() - rounding_of_means(), 0.0});
  }

  // Whether statistics and sketches differ by no more than the rounding of sums. Extremes that differ when
  // they are rounded did differ before.
  bool may_be_equal() const {
    return at_least() == 0 && of_extremes() == 0 && (!has_sketches() || sketched() <= noise());
  }

  // A guess at what it is at most, where there is no sketch.
  double guess() const {
    const double samples =
        std::max({of_extremes(), of_norms() - 2 * written(), of_means() - 2 * written() * part_of_mean()});
    return std::min(kFromExtremes * samples * root_, kUnrelated);
  }

  // What equal statistics may hide: the rounding of single elements.
  double unseen() const {
    const bool hides = count_ > 1 && !in_double_ && is_float(b_.dtype);
    return hides ? std::max(unit_roundoff(a_.dtype), unit_roundoff(b_.dtype)) : 0;
  }

 private:
  double of_norms() const { return std::abs(norm_of(a_, in_double_) - norm_of(b_, in_double_)) / size_; }
  double of_means() const {
    return std::abs(mean_of(a_, in_double_) - mean_of(b_, in_double_)) * root_ / size_;
  }
  // What those of equal tensors may differ by: sums, and what is left of them in a file.
  double rounding_of_norms() const {
    return in_double_ ? kChain * unit() : 2 * written() + kRoundoff * depth();
  }
  double rounding_of_means() const {
    if (in_double_) return 2 * kChain * unit();
    return 2 * written() * part_of_mean() + 2 * kRoundoff * depth();
  }
  // Files have extremes in float32: finer elements were rounded to it, unless there is but one.
  double rounding_of_extremes() const {
    if (count_ <= 1 || !is_float(b_.dtype) || unit_roundoff(b_.dtype) >= kRoundoff) return 0;
    return kRoundoff * (a_.largest() + b_.largest()) / size_;
  }
  // The rounding of a number in a file.
  double written() const {
    return in_double_ ? 0 : std::max({unit_roundoff(a_.dtype), unit_roundoff(b_.dtype), kRoundoff});
  }
  double part_of_mean() const { return std::abs(mean_of(b_, in_double_)) * root_ / size_; }
  double depth() const { return std::log2(count_); }
  double of_extremes() const {
    const KnownExtremes x = extremes_of(a_), y = extremes_of(b_);
    return std::max(std::abs(x.min - y.min), std::abs(x.max - y.max)) / size_;
  }
  // What one addition to the sums of a sketch may be off by.
  double unit() const { return std::max(unit_of_sums(a_), unit_of_sums(b_)); }

  const TensorFacts& a_;
  const TensorFacts& b_;
  bool in_double_;  // the sums of both; otherwise those of both are taken as rounded
  double count_;
  double root_;
  double size_;
};

bool has_size(const TensorFacts& facts) {
  return facts.max || facts.min || facts.mean || facts.norm || facts.sketch;
}

// A record may have a tensor without a number of it, as of memory that says nothing.
bool is_measured(const TensorFacts& facts) {
  return has_size(facts) || facts.digest || !facts.checksum.empty();
}

// How far they are apart is not known, from 0 on.
Distance open() {
  Distance result;
  result.high = result.expected = kInfinity;
  return result;
}

}  // namespace

double TensorFacts::typical() const noexcept {
  return norm_of(*this, true) / std::sqrt(std::max(count, 1.0));
}

double TensorFacts::largest() const noexcept {
  const KnownExtremes extremes = extremes_of(*this);
  return std::max(std::abs(extremes.min), std::abs(extremes.max));
}

double unit_roundoff(std::optional<DType> dtype) noexcept {
  if (!dtype) return 0;
  switch (*dtype) {
    case DType::kFloat64:
    case DType::kComplex128: return 0x1p-53;
    case DType::kFloat32:
    case DType::kComplex64: return 0x1p-24;
    case DType::kFloat16:
    case DType::kComplex32: return 0x1p-11;
    case DType::kBFloat16: return 0x1p-8;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ: return 0x1p-4;
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ: return 0x1p-3;
    case DType::kFloat8E8M0FNU: return 0x1p-1;
    default: return 0;
  }
}

Distance distance(const TensorFacts& target, const TensorFacts& reference, double floor) {
  if (is_measured(target) != is_measured(reference)) return open();
  const bool same_dtype = target.dtype == reference.dtype && target.count == reference.count;
  const bool has_digests = same_dtype && target.digest && reference.digest;
  const bool has_checksums = same_dtype && !target.checksum.empty() && !reference.checksum.empty();
  const bool same_checksums = !has_checksums || target.checksum == reference.checksum;
  const PairOfFacts pair(target, reference, floor);
  Distance result;
  result.norm = pair.size();
  if (has_digests ? target.digest == reference.digest && same_checksums : has_checksums && same_checksums) {
    return result;
  }
  if ((has_digests || has_checksums) && !has_size(target) && !has_size(reference)) {
    result = open();
    result.equal = false;
    return result;
  }
  const bool same = same_statistics(target, reference);
  result.equal = same && !has_digests && !has_checksums;
  if (!same_non_finite(target, reference)) return Distance::unmeasurable();
  const bool hides = shows_non_finite(reference) && !(target.non_finite && reference.non_finite);
  result.may_be_equal = !same && !has_digests && !has_checksums && pair.may_be_equal();
  if (!same && !pair.has_sketches() && !is_float(reference.dtype) && !result.may_be_equal) {
    return Distance::unmeasurable();
  }
  bool is_estimated = false;
  result.bias = pair.bias();
  result.knows_bias = pair.knows_bias();
  result.low = pair.at_least();
  if (same) {
    result.high = pair.unseen();
  } else if (pair.has_sketches() && pair.seen() >= kAllBlind) {
    const double seen = pair.seen();
    result.value = pair.sketched();
    if (seen == 1) result.peak = pair.peak();
    result.low = std::max(result.low, result.value * kSketchedLow - pair.noise());
    result.high = (result.value * kSketchedHigh + pair.noise()) / seen + pair.cancelled();
    is_estimated = !hides && seen == 1;
  } else {
    result.high = std::max(pair.guess(), pair.unseen());
  }
  if (hides) result.high = kInfinity;
  result.high = std::max(result.high, result.low);
  result.value = std::clamp(result.value, result.low, result.high);
  if (!result.equal && !result.may_be_equal && result.value == 0) {  // digests or checksums that differ
    result.high = std::max(result.high, pair.noise());
    result.value = std::min(result.high, unit_roundoff(reference.dtype) / 2);
  }
  result.expected = is_estimated ? result.value + pair.cancelled() : result.high;
  return result;
}

Distance distance_of_elements(const TensorFacts& target, const TensorFacts& reference, double difference_norm,
                              bool is_equal, double floor) {
  if (!std::isfinite(difference_norm)) return Distance::unmeasurable();
  const PairOfFacts pair(target, reference, floor);
  Distance result;
  result.norm = pair.size();
  result.bias = pair.bias();
  result.value = result.low = result.high = result.expected = difference_norm / pair.size();
  result.peak = pair.peak();
  result.equal = is_equal;
  return result;
}

Distance distance_of_numbers(double target, double reference) {
  if (target == reference || (std::isnan(target) && std::isnan(reference))) return {};
  if (!std::isfinite(target) || !std::isfinite(reference)) return Distance::unmeasurable();
  const double size = std::max(std::abs(target), std::abs(reference));
  const double apart = std::abs(target - reference) / size;
  return {.value = apart,
          .low = apart,
          .high = apart,
          .expected = apart,
          .bias = 0,
          .norm = size,
          .equal = false};
}

}  // namespace msprobe::metrics
