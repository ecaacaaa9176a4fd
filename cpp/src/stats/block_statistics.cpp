// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "stats/block_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "base/convert.h"
#include "stats/kernels.h"

namespace msprobe::stats {

using Checksum = SummaryOptions::Checksum;

// ------------------------------------------------------------------------------------------------ checksum

void add_checksum(Block& block, const SummaryOptions& options, Partial&) {
  Crc32& checksum = block.checksum();
  if (options.checksum == Checksum::kNative) {
    checksum.add(block.data(), block.count() * element_size(block.dtype()));
  } else if (block.dtype() == DType::kBFloat16) {
    checksum.add_widened(static_cast<const std::uint16_t*>(block.data()), block.count());
  } else {
    const std::size_t parts = is_complex(block.dtype()) ? 2 : 1;
    checksum.add(block.floats(), block.count() * parts * sizeof(float));
  }
}

void end_checksum(const BlockScratch& scratch, Partial& partial) {
  partial.crc32 = scratch.checksum.value();
  partial.crc32_bytes = scratch.checksum.bytes();
}

void merge_checksum(Partial& left, const Partial& right) {
  left.crc32 = crc32_combine(left.crc32, right.crc32, right.crc32_bytes);
  left.crc32_bytes += right.crc32_bytes;
}

void finish_checksum(const Partial& whole, const SummaryOptions&, Summary& summary) {
  summary.crc32 = whole.crc32;
}

// ------------------------------------------------------------------------------------------------ sign bits

void add_signs(Block& block, const SummaryOptions& options, Partial&) {
  // Blocks start at multiples of 8, so each writes bytes of its own.
  std::uint8_t* bits = options.signs.data() + block.first() / 8;
  if (block.dtype() == DType::kFloat64) {
    kernels().signs_f64(static_cast<const double*>(block.data()), block.count(), bits);
  } else {
    kernels().signs_f32(block.floats(), block.count(), bits);
  }
}

// --------------------------------------------------------------------------- absolute values, their powers

namespace {

// Calls `use(doubles)` with the elements, of a complex tensor with their absolute values.
template <typename Use>
void as_doubles(Block& block, Use use) {
  const double* const values = block.doubles();
  if (!is_complex(block.dtype())) return use(values);
  alignas(64) std::array<double, kBlock> absolute;
  for (std::size_t i = 0; i < block.count(); ++i) absolute[i] = std::hypot(values[2 * i], values[2 * i + 1]);
  use(absolute.data());
}

}  // namespace

// Small elements are counted with the powers where these are taken in float.
void add_powers(Block& block, const SummaryOptions& options, Partial& partial) {
  const auto add = [&](const Powers& powers) {
    partial.sum_abs += powers.absolute;
    partial.fourth_powers += powers.fourth;
    partial.small += powers.below;
  };
  if (fits_float(block.dtype()) && !is_complex(block.dtype())) {
    add(kernels().powers_f32(block.floats(), block.count(), static_cast<float>(options.small)));
  } else {
    as_doubles(block, [&](const double* values) { add(kernels().powers_f64(values, block.count())); });
  }
}

void merge_powers(Partial& left, const Partial& right) {
  left.sum_abs += right.sum_abs;
  left.fourth_powers += right.fourth_powers;
}

void finish_powers(const Partial& whole, const SummaryOptions&, Summary& summary) {
  summary.sum_abs = whole.sum_abs;
  summary.fourth_powers = whole.fourth_powers;
}

void add_small(Block& block, const SummaryOptions& options, Partial& partial) {
  if (fits_float(block.dtype()) && !is_complex(block.dtype())) {
    if (options.powers) return;
    partial.small += kernels().below_f32(block.floats(), block.count(), static_cast<float>(options.small));
  } else {
    as_doubles(block, [&](const double* values) {
      partial.small += kernels().below_f64(values, block.count(), options.small);
    });
  }
}

void merge_small(Partial& left, const Partial& right) { left.small += right.small; }

void finish_small(const Partial& whole, const SummaryOptions&, Summary& summary) {
  summary.small_count = whole.small;
}

// ------------------------------------------------------------------------------------------------ intervals

namespace {

// An integer is above a bound exactly when it is above the bound rounded down; as floats, large ones could be
// rounded onto it.
template <typename T>
std::int64_t integers_above(const void* data, std::size_t count, float bound) {
  const double floor = std::floor(static_cast<double>(bound));
  if (floor < static_cast<double>(std::numeric_limits<T>::min())) return static_cast<std::int64_t>(count);
  // The largest value plus one is a power of two, hence exact.
  if (floor >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return 0;
  const auto limit = static_cast<T>(floor);
  const auto* values = static_cast<const T*>(data);
  return std::count_if(values, values + count, [limit](T value) { return value > limit; });
}

template <typename T>
void add_integers(const Block& block, OpenBounds& open) {
  for (std::size_t k = 0; k < open.value.size(); ++k) {
    open.above[k] += integers_above<T>(block.data(), block.count(), open.value[k]);
  }
}

}  // namespace

// Most bounds of most segments need no counting: they lie outside the values, or are 0 where the signs are at
// hand.
bool start_intervals(const KnownSegment& segment, Partial& partial) {
  const SummaryOptions& options = segment.options;
  // Of 64-bit integers min and max are rounded, and could be rounded onto a bound.
  const bool known_extremes =
      partial.nan == 0 && segment.dtype != DType::kInt64 && segment.dtype != DType::kUInt64;
  auto open = std::make_unique<OpenBounds>();
  partial.above.assign(options.bounds.size(), 0);
  for (std::size_t k = 0; k < options.bounds.size(); ++k) {
    const double bound = options.bounds[k];
    if (known_extremes && bound >= partial.max) continue;
    if (known_extremes && bound < partial.min) {
      partial.above[k] = partial.count;
    } else if (bound == 0 && !options.signs.empty()) {
      const auto first = static_cast<std::size_t>(segment.first / 8);
      partial.above[k] = kernels().count_bits(options.signs.data() + first, sign_bytes(partial.count));
    } else {
      open->index.push_back(k);
      open->value.push_back(options.bounds[k]);
    }
  }
  if (open->index.empty()) return false;
  open->above.resize(open->index.size());
  if (segment.dtype == DType::kFloat16 || segment.dtype == DType::kBFloat16) {
    const Half kind = segment.dtype == DType::kFloat16 ? Half::kFloat16 : Half::kBFloat16;
    open->half_limits.resize(open->value.size() + 1);
    kernels().half_limits(open->value.data(), open->value.size(), kind, open->half_limits.data());
  }
  partial.open_bounds = std::move(open);
  return true;
}

void add_intervals(Block& block, const SummaryOptions&, Partial& partial) {
  OpenBounds& open = *partial.open_bounds;
  std::fill(open.above.begin(), open.above.end(), 0);
  const std::size_t bounds = open.value.size();
  switch (block.dtype()) {
    case DType::kFloat64:  // as double: rounding to float first could carry an element over the bound
      kernels().above_f64(static_cast<const double*>(block.data()), block.count(), open.value.data(), bounds,
                          open.above.data());
      break;
    case DType::kFloat16:
    case DType::kBFloat16:
      kernels().above_half(static_cast<const std::uint16_t*>(block.data()), block.count(),
                           open.half_limits.data(), bounds, open.above.data());
      break;
    case DType::kInt64: add_integers<std::int64_t>(block, open); break;
    case DType::kInt32: add_integers<std::int32_t>(block, open); break;
    case DType::kUInt64: add_integers<std::uint64_t>(block, open); break;
    case DType::kUInt32: add_integers<std::uint32_t>(block, open); break;
    default: kernels().above_f32(block.floats(), block.count(), open.value.data(), bounds, open.above.data());
  }
  for (std::size_t i = 0; i < bounds; ++i) partial.above[open.index[i]] += open.above[i];
}

void merge_intervals(Partial& left, const Partial& right) {
  left.above.resize(right.above.size());
  std::transform(left.above.begin(), left.above.end(), right.above.begin(), left.above.begin(),
                 std::plus<>());
}

void finish_intervals(const Partial& whole, const SummaryOptions& options, Summary& summary) {
  const std::size_t bounds = options.bounds.size();
  summary.interval_counts.resize(bounds + 1);
  std::int64_t left = whole.count - whole.nan;  // elements above the bound before
  for (std::size_t k = 0; k < bounds; ++k) {
    const std::int64_t above = whole.above.empty() ? 0 : whole.above[k];
    summary.interval_counts[k] = left - above;
    left = above;
  }
  summary.interval_counts[bounds] = left + whole.nan;
}

const double* Block::doubles() {
  if (dtype_ == DType::kFloat64 || dtype_ == DType::kComplex128) return static_cast<const double*>(data_);
  if (!widened_) {
    convert_to_double(data_, dtype_, count_, scratch_.doubles.data());
    widened_ = true;
  }
  return scratch_.doubles.data();
}

const float* Block::floats() {
  if (dtype_ == DType::kFloat32 || dtype_ == DType::kComplex64) return static_cast<const float*>(data_);
  if (!converted_) {
    convert_to_float(data_, dtype_, count_, scratch_.floats.data());
    converted_ = true;
  }
  return scratch_.floats.data();
}

}  // namespace msprobe::stats
