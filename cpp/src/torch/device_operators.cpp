// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/device_operators.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "msprobe/torch.h"

namespace msprobe::torch_adapter {
namespace {

using namespace device;

// Elements that are made in another form at a time.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;

// What the numbers of one tensor are, in their order. A complex tensor has one more at the end: its sum of
// imaginary parts.
enum Number : std::size_t { kLeastNumber, kMostNumber, kTotal, kNorm2, kPlainNumbers };

bool has_powers(Word wanted) { return (wanted & kPowers) != 0; }
bool has_counts(Word wanted) { return (wanted & kCounts) != 0; }

// With kPowers: the norms of first and fourth degree.
constexpr std::size_t kNorm1 = kPlainNumbers, kNorm4 = kNorm1 + 1;

// With kCounts: elements that are finite, those that are not 0, those that are not small (without a limit:
// not 0), and those above each bound.
std::size_t counts_at(Word wanted) { return has_powers(wanted) ? kNorm4 + 1 : std::size_t{kPlainNumbers}; }

at::ScalarType real_of(const at::Tensor& tensor) {
  return tensor.is_cpu() || tensor.is_cuda() ? at::kDouble : at::kFloat;
}

at::Tensor norm_of(const at::Tensor& x, double power) {
  return at::linalg_vector_norm(x, power, at::OptionalIntArrayRef(), false, real_of(x));
}

bool reduces_as_it_is(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

// As reductions take it: the magnitudes of complex numbers, others as float32 where that holds them.
at::Tensor converted(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  if (type == at::kComplexHalf) return at::abs(x.to(at::kComplexFloat));
  if (x.is_complex()) return at::abs(x);
  const bool is_small = at::isFloatingType(type) || c10::elementSize(type) <= 2;
  return x.to(is_small ? at::kFloat : real_of(x));
}

// Views of at most kPiece elements, where that many are one.
std::vector<at::Tensor> pieces_of(const at::Tensor& x) {
  if (x.numel() <= kPiece) return {x};
  std::int64_t dimension = 0;
  while (x.size(dimension) == 1) ++dimension;
  const std::int64_t of_one = x.numel() / x.size(dimension);
  std::vector<at::Tensor> found;
  for (const at::Tensor& part : x.split(std::max<std::int64_t>(1, kPiece / of_one), dimension)) {
    const std::vector<at::Tensor> smaller = pieces_of(part);
    found.insert(found.end(), smaller.begin(), smaller.end());
  }
  return found;
}

enum class Joining { kLeastOf, kMostOf, kSumOf, kNorm2Of, kNorm4Of };

at::Tensor joined_parts(const std::vector<at::Tensor>& parts, Joining how) {
  if (parts.size() == 1) return parts.front();
  const at::Tensor all = at::stack(parts);
  switch (how) {
    case Joining::kLeastOf: return all.min();
    case Joining::kMostOf: return all.max();
    case Joining::kNorm2Of: return norm_of(all, 2);
    case Joining::kNorm4Of: return norm_of(all, 4);
    default: return all.sum();
  }
}

// A number of the pieces of a tensor.
template <typename Of>
at::Tensor of_pieces(const std::vector<at::Tensor>& pieces, Joining how, Of of) {
  std::vector<at::Tensor> parts;
  parts.reserve(pieces.size());
  for (const at::Tensor& piece : pieces) parts.push_back(of(piece));
  return joined_parts(parts, how);
}

// The norms of all tensors, in few launches where all are floats of torch's own reductions.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors, double power) {
  if (tensors.size() > 1 && std::all_of(tensors.begin(), tensors.end(), reduces_as_it_is)) {
    return at::_foreach_norm(tensors, power, real_of(tensors.front()));
  }
  const Joining how = power == 2 ? Joining::kNorm2Of : Joining::kSumOf;
  std::vector<at::Tensor> norms;
  norms.reserve(tensors.size());
  for (const at::Tensor& x : tensors) {
    if (reduces_as_it_is(x)) {
      norms.push_back(norm_of(x, power));
    } else {
      norms.push_back(of_pieces(pieces_of(x), how,
                                [&](const at::Tensor& piece) { return norm_of(converted(piece), power); }));
    }
  }
  return norms;
}

void add_extremes(const at::Tensor& x, std::vector<at::Tensor>& numbers) {
  if (!x.is_complex() && x.scalar_type() != at::kFloat8_e8m0fnu && !c10::isFloat8Type(x.scalar_type())) {
    const auto [least, most] = at::aminmax(x);
    numbers.push_back(least);
    numbers.push_back(most);
    return;
  }
  std::vector<at::Tensor> least, most;
  for (const at::Tensor& piece : pieces_of(x)) {
    const auto [low, high] = at::aminmax(converted(piece));
    least.push_back(low);
    most.push_back(high);
  }
  numbers.push_back(joined_parts(least, Joining::kLeastOf));
  numbers.push_back(joined_parts(most, Joining::kMostOf));
}

at::Tensor sum_of(const at::Tensor& x) {
  if (!c10::isFloat8Type(x.scalar_type())) return at::sum(x, real_of(x));
  return of_pieces(pieces_of(x), Joining::kSumOf,
                   [](const at::Tensor& piece) { return at::sum(converted(piece), real_of(piece)); });
}

// The sum of one part of each complex number.
at::Tensor sum_of_part(const at::Tensor& x, std::int64_t which) {
  return of_pieces(pieces_of(x), Joining::kSumOf, [=](const at::Tensor& piece) {
    const at::Tensor wide = piece.scalar_type() == at::kComplexHalf ? piece.to(at::kComplexFloat) : piece;
    return at::sum(at::view_as_real(wide).select(-1, which), real_of(piece));
  });
}

at::Tensor total_of(const at::Tensor& x, Word wanted) {
  if (!x.is_complex()) return sum_of(x);
  if ((wanted & kAbsolutes) == 0) return sum_of_part(x, 0);
  return of_pieces(pieces_of(x), Joining::kSumOf,
                   [](const at::Tensor& piece) { return at::sum(converted(piece), real_of(piece)); });
}

at::Tensor norm4_of(const at::Tensor& x) {
  if (reduces_as_it_is(x)) return norm_of(x, 4);
  return of_pieces(pieces_of(x), Joining::kNorm4Of,
                   [](const at::Tensor& piece) { return norm_of(converted(piece), 4); });
}

// The largest number of the dtype of `y` below a positive `bound`: hardshrink() leaves what is larger than
// its own, which it rounds to that dtype, and small is what is less than `bound`.
template <typename Half>
double just_below_in(double bound) {
  Half found(static_cast<float>(bound));
  while (static_cast<double>(found) >= bound) --found.x;
  return found;
}
double just_below(double bound, const at::Tensor& y) {
  switch (y.scalar_type()) {
    case at::kDouble: return std::nextafter(bound, 0.0);
    case at::kHalf: return just_below_in<c10::Half>(bound);
    case at::kBFloat16: return just_below_in<c10::BFloat16>(bound);
    default: return std::nextafter(static_cast<float>(bound), 0.0F);
  }
}

void add_counts(const at::Tensor& x, const Measured& question, std::vector<at::Tensor>& numbers) {
  const std::vector<at::Tensor> pieces = pieces_of(x);
  const auto of = [&](auto count) {
    return of_pieces(pieces, Joining::kSumOf, [&](const at::Tensor& piece) {
      return count(reduces_as_it_is(piece) ? piece : converted(piece));
    });
  };
  // isfinite() would be four launches. What is not finite is NaN when it is taken from itself.
  numbers.push_back(of([](const at::Tensor& y) { return at::sub(y, y).eq(0).sum(); }));
  const at::Tensor not_zero = of([](const at::Tensor& y) { return norm_of(y, 0); });
  const double limit = limit_of(question);
  numbers.push_back(not_zero);
  numbers.push_back(
      limit > 0 ? of([&](const at::Tensor& y) { return norm_of(at::hardshrink(y, just_below(limit, y)), 0); })
                : not_zero);
  for (const float bound : question.bounds) {
    numbers.push_back(of([&](const at::Tensor& y) { return y.gt(static_cast<double>(bound)).sum(); }));
  }
}

}  // namespace

std::vector<at::Tensor> launch_operators(std::span<const Measured> tensors) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> found(tensors.size());
  std::vector<at::Tensor> all, with_powers;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor x = tensors[i].tensor.detach();
    if ((tensors[i].wanted & kRaw) != 0) {
      found[i] = x.clone().reshape({1}).view(at::kByte).to(real_of(x));
      continue;
    }
    all.push_back(x);
    if (has_powers(tensors[i].wanted)) with_powers.push_back(x);
  }
  const std::vector<at::Tensor> norms = norms_of(all, 2), norms1 = norms_of(with_powers, 1);
  std::size_t next = 0, next1 = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (found[i].defined()) continue;
    const Measured& measured = tensors[i];
    const at::Tensor x = measured.tensor.detach();
    std::vector<at::Tensor> numbers;
    add_extremes(x, numbers);
    numbers.push_back(total_of(x, measured.wanted));
    numbers.push_back(norms[next++]);
    if (has_powers(measured.wanted)) {
      numbers.push_back(norms1[next1++]);
      numbers.push_back(norm4_of(x));
    }
    if (has_counts(measured.wanted)) add_counts(x, measured, numbers);
    if (x.is_complex()) numbers.push_back(sum_of_part(x, 1));
    for (at::Tensor& number : numbers) number = number.reshape({1});
    found[i] = at::cat(numbers).to(real_of(x));
  }
  return found;
}

std::array<Long, kFields> words_of_operators(std::span<const double> numbers, DType dtype, std::int64_t count,
                                             Word wanted) {
  std::array<Long, kFields> words{};
  const double least = numbers[kLeastNumber], most = numbers[kMostNumber];
  const double norm = numbers[kNorm2];
  const auto put = [&](Word field, double value) {
    words[field] = as_long(std::isfinite(value) ? value : 0);
  };
  put(kSum, numbers[kTotal]);
  put(kSquares, norm * norm);
  words[kMin] = as_long(least);
  words[kMax] = as_long(most);
  if (is_complex(dtype)) {
    const double imaginary = numbers.back();
    put(kImaginary, (wanted & kAbsolutes) != 0 ? numbers[kTotal] + imaginary : imaginary);
  }
  // How many are not finite is known where it was asked for; of which kind, by the extremes.
  const std::size_t counts = counts_at(wanted);
  const auto not_finite =
      static_cast<Long>(has_counts(wanted) ? count - std::llround(numbers[counts]) : std::int64_t{1});
  if (std::isnan(norm) || std::isnan(least)) {
    words[kNaN] = not_finite;
  } else if (std::isinf(most) && most > 0) {
    words[kPosInf] = not_finite;
    if (std::isinf(least) && least < 0) words[kNegInf] = 1;
  } else if (std::isinf(least)) {
    words[kNegInf] = not_finite;
  }
  if (words[kPosInf] > 1 && words[kNegInf] > 0) --words[kPosInf];
  if (has_powers(wanted)) {
    put(kAbsolute, numbers[kNorm1]);
    put(kFourth, std::pow(numbers[kNorm4], 4));
  }
  if (has_counts(wanted)) {
    words[kZeros] = static_cast<Long>(count - std::llround(numbers[counts + 1]));
    words[kSmall] = static_cast<Long>(count - std::llround(numbers[counts + 2]));
  }
  return words;
}

std::vector<std::int64_t> above_of_operators(std::span<const double> numbers, Word wanted,
                                             std::size_t bounds) {
  const std::size_t first = counts_at(wanted) + 3;
  std::vector<std::int64_t> above(bounds);
  for (std::size_t b = 0; b < bounds; ++b) above[b] = std::llround(numbers[first + b]);
  return above;
}

at::Tensor launch_pair_operators(const at::Tensor& left, const at::Tensor& right, double floor) {
  const c10::NoGradGuard no_grad;
  const at::ScalarType real = real_of(left);
  const std::vector<at::Tensor> ours = pieces_of(left.detach()), theirs = pieces_of(right.detach());
  std::array<std::vector<at::Tensor>, kPairFields> parts;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const at::Tensor given_x = ours[i].to(real), given_y = theirs[i].to(real);
    const at::Tensor finite_x = given_x.isfinite(), finite_y = given_y.isfinite();
    const at::Tensor zero = at::zeros({}, given_x.options());
    const at::Tensor x = at::where(finite_x, given_x, zero), y = at::where(finite_y, given_y, zero);
    const at::Tensor size = x.abs(), both = finite_x.logical_and(finite_y);
    const auto put = [&](PairField field, const at::Tensor& value) {
      parts[field].push_back(value.to(real));
    };
    put(kLeftSquares, x.square().sum());
    put(kRightSquares, y.square().sum());
    put(kLeastSize,
        at::where(finite_x, size, at::full_like(size, std::numeric_limits<float>::infinity())).min());
    put(kLargestSize,
        at::where(finite_x, size, at::full_like(size, -std::numeric_limits<float>::infinity())).max());
    put(kDot, (x * y * both).sum());
    put(kDistance, ((x - y) * both).square().sum());
    const at::Tensor ratio = given_x.abs().clamp_min(floor) / given_y.abs().clamp_min(floor);
    const at::Tensor known = at::where(ratio.isnan(), at::ones_like(ratio), ratio);
    put(kLeastRatio, known.min().clamp_max(1));
    put(kLargestRatio, known.max().clamp_min(1));
    put(kLeastProduct, (x * y * both).min().clamp_max(0));
    const at::Tensor agreement = given_x.sign() * given_y.sign();
    put(kAgree, agreement.eq(1).sum());
    put(kDisagree, agreement.eq(-1).sum());
    put(kLeftNotFinite, finite_x.logical_not().sum());
    put(kRightNotFinite, finite_y.logical_not().sum());
    put(kOneSidedNaN, given_x.isnan().logical_xor(given_y.isnan()).sum());
  }
  std::vector<at::Tensor> joined;
  for (Word field = 0; field < kPairFields; ++field) {
    const Join join = join_of(kPairs, field);
    joined.push_back(joined_parts(parts[field], join == Join::kLeast  ? Joining::kLeastOf
                                                : join == Join::kMost ? Joining::kMostOf
                                                                      : Joining::kSumOf));
  }
  return at::stack(joined);
}

}  // namespace msprobe::torch_adapter
