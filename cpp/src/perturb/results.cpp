// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Two results next to each other.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/convert.h"
#include "base/float_environment.h"
#include "msprobe/error.h"
#include "msprobe/perturb.h"
#include "perturb/kernels.h"

namespace msprobe::perturb {
namespace {

static_assert(static_cast<int>(DType::kFloat64) == static_cast<int>(Element::kFloat64));
static_assert(static_cast<int>(DType::kFloat32) == static_cast<int>(Element::kFloat32));
static_assert(static_cast<int>(DType::kFloat16) == static_cast<int>(Element::kFloat16));
static_assert(static_cast<int>(DType::kBFloat16) == static_cast<int>(Element::kBFloat16));

constexpr std::size_t kBlock = 1024;

}  // namespace

double largest_number(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat64: return std::numeric_limits<double>::max();
    case DType::kFloat16: return 65504;
    case DType::kBFloat16: return 0x1.FEp127;
    default: return static_cast<double>(std::numeric_limits<float>::max());
  }
}

// Rounding keeps the order, so that the largest of rounded numbers is the largest number rounded.
double in_dtype(double value, DType dtype) noexcept {
  const double largest = largest_number(dtype);
  const double limited = std::clamp(value, -largest, largest);
  return dtype == DType::kFloat32 ? static_cast<double>(static_cast<float>(limited))
                                  : rounded_to_half(limited, dtype);
}

void Ratios::add(const Ratios& other) noexcept {
  largest = std::max(largest, other.largest);
  smallest = std::min(smallest, other.smallest);
  least_product = std::min(least_product, other.least_product);
  one_sided_nan += other.one_sided_nan;
}

double Ratios::either_way() const noexcept { return std::max(largest, 1 / smallest); }

Ratios ratios(DType original_dtype, const void* original, DType perturbed_dtype, const void* perturbed,
              std::size_t count, double floor) {
  if (!has_ratios(original_dtype, perturbed_dtype)) {
    throw InvalidArgument("perturb: expected two results of one floating-point dtype, found " +
                          std::string(dtype_name(original_dtype)) + " and " +
                          std::string(dtype_name(perturbed_dtype)));
  }
  const FloatEnvironment environment;
  RatioState state;
  kernels().add_ratios[static_cast<std::size_t>(original_dtype)][static_cast<std::size_t>(perturbed_dtype)](
      original, perturbed, count, in_dtype(floor, perturbed_dtype), &state);
  return {in_dtype(state.largest, perturbed_dtype), in_dtype(state.smallest, perturbed_dtype),
          in_dtype(state.least_product, perturbed_dtype), state.one_sided_nan};
}

void Distance::add(const Distance& other) noexcept {
  absolute = std::max(absolute, other.absolute);
  relative = std::max(relative, other.relative);
  has_nan = has_nan || other.has_nan;
  signed_sum += other.signed_sum;
  count += other.count;
  other_is_finite = other_is_finite && other.other_is_finite;
}

Distance distance(DType original_dtype, const void* original, DType cpu_dtype, const void* cpu,
                  std::size_t count) {
  if (is_complex(original_dtype) || is_complex(cpu_dtype)) {
    throw InvalidArgument("perturb: expected real results, found complex ones");
  }
  const FloatEnvironment environment;
  Distance result;
  double left[kBlock];
  double right[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    const auto at = [begin](const void* data, DType dtype) {
      return static_cast<const char*>(data) + begin * element_size(dtype);
    };
    convert_to_double(at(original, original_dtype), original_dtype, size, left);
    convert_to_double(at(cpu, cpu_dtype), cpu_dtype, size, right);
    DistanceState block;
    kernels().add_distance(left, right, size, &block);
    result.add({block.absolute, block.relative, block.signed_sum, block.has_nan,
                static_cast<std::int64_t>(size), block.other_is_finite});
  }
  return result;
}

double ratio_floor(DType perturbed_dtype, bool backward) noexcept {
  if (!is_supported(perturbed_dtype)) return 2e-5;
  return backward ? 1e-3 : std::sqrt(noise_of(perturbed_dtype));
}

}  // namespace msprobe::perturb
