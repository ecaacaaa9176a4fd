// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/thread_pool.h"
#include "msprobe/torch_perturb.h"
#include "torch/device_meters.h"
#include "torch/device_summary.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

using perturb::Mode;
using perturb::Ratios;

// For operators of ours: not seen by modes, profilers and autograd.
struct Aside {
  OutOfSight out_of_sight;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
};

constexpr std::int64_t kPiece = std::int64_t{1} << 15;

// Calls task(piece, first, count) for pieces of `count` elements, on the threads that torch uses.
template <typename Task>
void for_pieces(std::int64_t count, Task task) {
  static std::mutex mutex;  // one tensor at a time may use the threads; others do with their own
  static std::optional<ThreadPool> pool;
  static int pool_threads = 0;
  const int threads = count < kElementsForThreads ? 1 : at::get_num_threads();
  std::unique_lock lock(mutex, std::defer_lock);
  if (threads <= 1 || !lock.try_lock()) {
    task(0, std::int64_t{0}, count);
    return;
  }
  if (pool_threads != threads) {
    pool.emplace(static_cast<unsigned>(threads));
    pool_threads = threads;
  }
  const auto pieces = static_cast<std::size_t>((count + kPiece - 1) / kPiece);
  pool->parallel_for(pieces, [&](std::size_t i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * kPiece;
    task(i, first, std::min(kPiece, count - first));
  });
}

std::size_t piece_count(std::int64_t count) {
  return count < kElementsForThreads ? 1 : static_cast<std::size_t>(count / kPiece) + 1;
}

std::size_t byte_of(std::int64_t element, DType dtype) {
  return static_cast<std::size_t>(element) * element_size(dtype);
}

const char* at_element(const void* data, std::int64_t element, DType dtype) {
  return static_cast<const char*>(data) + byte_of(element, dtype);
}

// A copy made by copy(dtype, from, to, count, first), which gives the largest magnitude of its piece, and the
// largest of all.
template <typename Copy>
std::pair<at::Tensor, double> copied_on_host(const at::Tensor& tensor, Copy copy) {
  const DType dtype = *dtype_of(tensor.scalar_type());
  at::Tensor result;
  const void* from = nullptr;
  if (tensor.is_non_overlapping_and_dense()) {
    result = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
    from = tensor.const_data_ptr();
  } else {
    result = at::empty(tensor.sizes(), tensor.options()).copy_(tensor);
    from = result.const_data_ptr();
  }
  auto* const to = static_cast<char*>(result.mutable_data_ptr());
  c10::SmallVector<double, 16> largest(piece_count(tensor.numel()), 0.0);
  for_pieces(tensor.numel(), [&](std::size_t piece, std::int64_t first, std::int64_t count) {
    largest[piece] = copy(dtype, at_element(from, first, dtype), to + byte_of(first, dtype),
                          static_cast<std::size_t>(count), static_cast<std::uint64_t>(first));
  });
  return {result, *std::max_element(largest.begin(), largest.end())};
}

at::ScalarType integer_of(const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 2: return at::kShort;
    case 4: return at::kInt;
    default: return at::kLong;
  }
}

double smallest_normal(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return 0x1p-1022;
    case at::kHalf: return 0x1p-14;
    default: return 0x1p-126;
  }
}

at::Tensor changed_on_device(const at::Tensor& tensor, Mode mode, double noise) {
  const at::Tensor magnitude = tensor.abs();
  if (!(magnitude.nan_to_num(0).max().to(at::kDouble).item<double>() >= noise)) return {};
  if (mode == Mode::kAddNoise) {
    return at::where(magnitude.gt(std::sqrt(noise)), tensor.add(noise), tensor);
  }
  at::Tensor result = tensor.clone();
  const at::Tensor flips = magnitude.gt(smallest_normal(tensor.scalar_type())).logical_and(tensor.isfinite());
  const at::ScalarType integer = integer_of(tensor);
  at::Tensor bits = result.view(integer);
  bits.bitwise_xor_(flips.to(integer));
  return result;
}

// The first and the last element, or the two first-level parts of them, change places.
at::Tensor exchanged(const at::Tensor& tensor) {
  const auto dimensions = tensor.dim();
  if (dimensions == 0 || tensor.numel() == 0) return {};
  if (dimensions == 1) {
    if (tensor.size(0) < 2) return {};
  } else if (tensor.size(1) == 0 || (tensor.size(0) < 2 && tensor.size(1) < 2)) {
    return {};
  }
  at::Tensor result = tensor.clone();
  if (!is_elsewhere(result) && result.is_contiguous()) {  // the parts lie at both ends
    auto* const data = static_cast<char*>(result.mutable_data_ptr());
    const std::int64_t leading = dimensions == 1 ? result.size(0) : result.size(0) * result.size(1);
    const auto part = static_cast<std::ptrdiff_t>(result.nbytes()) / leading;
    std::swap_ranges(data, data + part, data + (leading - 1) * part);
    return result;
  }
  at::Tensor first = result.select(0, 0);
  at::Tensor last = result.select(0, -1);
  if (dimensions > 1) {
    first = first.select(0, 0);
    last = last.select(0, -1);
  }
  const at::Tensor kept = first.clone();
  first.copy_(last);
  last.copy_(kept);
  return result;
}

Ratios ratios_on_host(const at::Tensor& original, const at::Tensor& perturbed, double floor) {
  const bool same_layout =
      original.strides() == perturbed.strides() && original.is_non_overlapping_and_dense();
  const at::Tensor left = same_layout ? original : original.contiguous();
  const at::Tensor right = same_layout ? perturbed : perturbed.contiguous();
  const DType left_type = *dtype_of(left.scalar_type());
  const DType right_type = *dtype_of(right.scalar_type());
  const void* const a = left.const_data_ptr();
  const void* const b = right.const_data_ptr();
  c10::SmallVector<Ratios, 8> pieces(piece_count(left.numel()));
  for_pieces(left.numel(), [&](std::size_t piece, std::int64_t first, std::int64_t count) {
    pieces[piece] = perturb::ratios(left_type, at_element(a, first, left_type), right_type,
                                    at_element(b, first, right_type), static_cast<std::size_t>(count), floor);
  });
  Ratios all;
  for (const Ratios& piece : pieces) all.add(piece);
  return all;
}

// In the arithmetic of the dtype, as on the host: devices compute in a wider one.
Ratios ratios_on_device(const at::Tensor& original, const at::Tensor& perturbed, double floor) {
  const DType type = *dtype_of(perturbed.scalar_type());
  const FetchedPair pair = measured_pair(original, perturbed, perturb::in_dtype(floor, type));
  const auto found = [&](device::PairField field) { return perturb::in_dtype(pair.fields[field], type); };
  return {.largest = std::max(1.0, found(device::kLargestRatio)),
          .smallest = std::min(1.0, found(device::kLeastRatio)),
          .least_product = std::min(0.0, found(device::kLeastProduct)),
          .one_sided_nan = static_cast<std::int64_t>(pair.fields[device::kOneSidedNaN])};
}

}  // namespace

std::string why_unperturbable(const at::Tensor& tensor) {
  std::string reason = why_unreadable(tensor);
  if (!reason.empty()) return reason;
  if (!perturb::is_supported(*dtype_of(tensor.scalar_type()))) {
    return std::string("has the dtype ") + c10::toString(tensor.scalar_type());
  }
  return {};
}

at::Tensor perturbed(const at::Tensor& given, Mode mode) {
  if (const std::string reason = why_unperturbable(given); !reason.empty()) {
    throw UnsupportedError("perturb: the tensor " + reason);
  }
  const Aside aside;
  const at::Tensor tensor = resolved(given);
  if (mode == Mode::kChangeValue) return exchanged(tensor);
  if (mode != Mode::kAddNoise && mode != Mode::kBitNoise) {
    throw InvalidArgument("perturb: mode " + std::string(perturb::mode_name(mode)) + " changes no tensor");
  }
  if (tensor.numel() == 0) return {};
  const double noise = perturb::noise_of(*dtype_of(tensor.scalar_type()));
  if (is_elsewhere(tensor)) return changed_on_device(tensor, mode, noise);
  const auto copy = [mode](DType dtype, const void* from, void* to, std::size_t count, std::uint64_t) {
    return mode == Mode::kAddNoise ? perturb::add_noise(dtype, from, to, count)
                                   : perturb::flip_last_bits(dtype, from, to, count);
  };
  auto [result, largest] = copied_on_host(tensor, copy);
  return largest >= noise ? result : at::Tensor();
}

at::Tensor with_random_ulps(const at::Tensor& given, std::uint64_t seed, int power) {
  if (const std::string reason = why_unperturbable(given); !reason.empty()) {
    throw UnsupportedError("perturb: the tensor " + reason);
  }
  const Aside aside;
  const at::Tensor tensor = resolved(given);
  if (!is_elsewhere(tensor)) {
    const auto copy = [seed, power](DType dtype, const void* from, void* to, std::size_t count,
                                    std::uint64_t first) {
      return perturb::add_random_ulps(dtype, from, to, count, seed, first, power);
    };
    return copied_on_host(tensor, copy).first;
  }
  // Signs by a hash of the positions, as torch's generators are the training's.
  const auto count = tensor.numel();
  at::Tensor hash = at::arange(count, tensor.options().dtype(at::kLong));
  for (const std::int64_t factor : {0x5851F42D4C957F2D, 0x2545F4914F6CDD1D}) {
    hash = hash.add(static_cast<std::int64_t>(seed)).mul(factor);
    hash = hash.bitwise_xor(hash.bitwise_right_shift(29));
  }
  const at::ScalarType integer = integer_of(tensor);
  const std::int64_t size = std::int64_t{1} << power;
  at::Tensor result = tensor.clone(at::MemoryFormat::Contiguous);
  const at::Tensor magnitude = result.abs();
  const at::Tensor up = hash.ge(0).view(tensor.sizes()).logical_or(magnitude.view(integer).le(size));
  const at::Tensor step = up.to(integer).mul(2).sub(1).mul(size);
  const at::Tensor next = result.view(integer).add(step).view(tensor.scalar_type());
  const at::Tensor moves = magnitude.gt(0).logical_and(next.isfinite()).logical_and(result.isfinite());
  return at::where(moves, next, result);
}

Ratios ratios(const at::Tensor& original, const at::Tensor& perturbed, bool backward) {
  if (original.sizes() != perturbed.sizes()) {
    throw InvalidArgument("perturb: expected two results of one shape");
  }
  const Aside aside;
  at::Tensor left = resolved(original);
  at::Tensor right = resolved(perturbed);
  if (right.device() != left.device()) right = right.to(left.device());
  const auto type = dtype_of(right.scalar_type());
  const double floor = perturb::ratio_floor(type.value_or(DType::kInt64), backward);
  if (left.numel() == 0) return {};
  if (at::isIntegralType(right.scalar_type(), false)) {
    left = left.to(at::kFloat);
    right = right.to(at::kFloat);
  }
  const auto left_type = dtype_of(left.scalar_type());
  const auto right_type = dtype_of(right.scalar_type());
  if (!right_type || !perturb::is_supported(*right_type)) {
    throw InvalidArgument(std::string("perturb: no ratios of dtype ") + c10::toString(right.scalar_type()));
  }
  const bool on_host = !is_elsewhere(left);
  if (!left_type || !perturb::has_ratios(*left_type, *right_type) || !on_host) {
    left = left.to(right.scalar_type());
  }
  return on_host ? ratios_on_host(left, right, floor) : ratios_on_device(left, right, floor);
}

perturb::Change change(const at::Tensor& before, const at::Tensor& after) {
  if (before.sizes() != after.sizes()) throw InvalidArgument("perturb: expected two tensors of one shape");
  const Aside aside;
  at::Tensor left = resolved(before);
  at::Tensor right = resolved(after);
  if (left.numel() == 0) return {};
  if (right.scalar_type() != left.scalar_type()) right = right.to(left.scalar_type());
  const auto type = dtype_of(left.scalar_type());
  if (!type) throw UnsupportedError("perturb: a tensor of an unknown dtype");
  perturb::Change all;
  if (is_elsewhere(left)) {
    const at::Tensor other = right.to(left.device());
    const FetchedPair pair = measured_pair(left, other, 0);
    const auto& fields = pair.fields;
    all = {fields[device::kDistance],
           fields[device::kLeftSquares],
           std::max(fields[device::kLargestSize], 0.0),
           std::min(fields[device::kLeastSize], all.least),
           left.numel(),
           static_cast<std::int64_t>(fields[device::kLeftNotFinite])};
    return all;
  }
  if (right.device() != left.device()) right = right.to(left.device());
  if (left.strides() != right.strides() || !left.is_non_overlapping_and_dense()) {
    left = left.contiguous();
    right = right.contiguous();
  }
  const void* const a = left.const_data_ptr();
  const void* const b = right.const_data_ptr();
  c10::SmallVector<perturb::Change, 8> pieces(piece_count(left.numel()));
  for_pieces(left.numel(), [&](std::size_t piece, std::int64_t first, std::int64_t count) {
    pieces[piece] = perturb::change(*type, at_element(a, first, *type), at_element(b, first, *type),
                                    static_cast<std::size_t>(count));
  });
  for (const perturb::Change& piece : pieces) all.add(piece);
  return all;
}

SoftmaxState softmax_state(const at::Tensor& given, std::int64_t dim) {
  constexpr double kMask = -9e3;      // -1e4 as float16 has it, and all below
  constexpr double kNextToZero = 30;  // exp(-30) is beyond the digits of float32
  constexpr double kZero = 88;        // exp(-88) is 0 in float32
  const Aside aside;
  const at::Tensor tensor = resolved(given);
  if (tensor.dim() == 0 || tensor.numel() == 0 || tensor.size(dim) < 2) return {};
  at::Tensor values = tensor.to(tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor is_masked = values.le(kMask).logical_or(values.isnan()).logical_or(values.isinf());
  values = values.masked_fill(is_masked, -std::numeric_limits<double>::infinity());
  const at::Tensor two = std::get<0>(values.topk(2, dim));
  const at::Tensor first = two.select(dim, 0);
  const at::Tensor second = two.select(dim, 1);
  const at::Tensor counts = values.gt(first.unsqueeze(dim).sub(kNextToZero));
  const at::Tensor largest = at::where(counts, values.abs(), at::zeros_like(values)).max();
  const at::Tensor has_two = second.isfinite();
  const at::Tensor alone = first.sub(second).gt(kZero).logical_and(has_two);
  const at::Tensor found =
      at::stack({largest.to(at::kDouble), alone.sum().to(at::kDouble), has_two.sum().to(at::kDouble)}).cpu();
  const auto* const numbers = found.const_data_ptr<double>();
  return {numbers[0], numbers[2] > 0 ? numbers[1] / numbers[2] : 0};
}

perturb::Distance distance(const at::Tensor& original, const at::Tensor& cpu) {
  if (original.sizes() != cpu.sizes()) throw InvalidArgument("perturb: expected two results of one shape");
  const Aside aside;
  const at::Tensor left = resolved(original).cpu().contiguous();
  const at::Tensor right = resolved(cpu).cpu().contiguous();
  const auto left_type = dtype_of(left.scalar_type());
  const auto right_type = dtype_of(right.scalar_type());
  if (!left_type || !right_type) throw UnsupportedError("perturb: a result of an unknown dtype");
  const void* const a = left.const_data_ptr();
  const void* const b = right.const_data_ptr();
  c10::SmallVector<perturb::Distance, 8> pieces(piece_count(left.numel()));
  for_pieces(left.numel(), [&](std::size_t piece, std::int64_t first, std::int64_t count) {
    pieces[piece] = perturb::distance(*left_type, at_element(a, first, *left_type), *right_type,
                                      at_element(b, first, *right_type), static_cast<std::size_t>(count));
  });
  perturb::Distance all;
  for (const perturb::Distance& piece : pieces) all.add(piece);
  return all;
}

}  // namespace msprobe::torch_adapter
