// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>

#include "base/convert.h"
#include "base/float_environment.h"
#include "base/layout.h"
#include "msprobe/error.h"
#include "msprobe/stats.h"
#include "stats/kernels.h"

namespace msprobe::stats {
namespace {

constexpr std::size_t kPiece = 1024;  // elements that are read, converted and added up at a time

// Both sides can be read front to back when their elements lie in the same order.
bool same_order(const Pair& pair) {
  const auto contiguous = [](const TensorView& view) { return is_c_contiguous(view); };
  if (contiguous(pair.left) && contiguous(pair.right)) return true;
  return std::equal(pair.left.strides.begin(), pair.left.strides.end(), pair.right.strides.begin(),
                    pair.right.strides.end());
}

struct PairJob {
  Layout left;
  Layout right;
  DType left_dtype;
  DType right_dtype;
  bool in_float;

  explicit PairJob(const Pair& pair)
      : left(pair.left, same_order(pair)),
        right(pair.right, same_order(pair)),
        left_dtype(pair.left.dtype),
        right_dtype(pair.right.dtype),
        in_float(fits_float(left_dtype) && fits_float(right_dtype)) {
    if (!std::equal(pair.left.shape.begin(), pair.left.shape.end(), pair.right.shape.begin(),
                    pair.right.shape.end())) {
      throw InvalidArgument("pair_sums: expected two tensors of the same shape");
    }
    for (const DType dtype : {left_dtype, right_dtype}) {
      if (is_complex(dtype))
        throw InvalidArgument("pair_sums: not defined for " + std::string(dtype_name(dtype)));
    }
  }
};

// Memory for a piece of one side.
template <typename T>
struct PieceScratch {
  alignas(64) std::array<std::byte, kPiece * 8> gathered;
  alignas(64) std::array<T, kPiece> converted;
};

template <typename T>
const T* read(const Layout& layout, DType dtype, std::int64_t first, std::size_t count,
              PieceScratch<T>& scratch) {
  const void* data = scratch.gathered.data();
  if (layout.contiguous()) {
    data = layout.at(first);
  } else {
    layout.gather(first, count, scratch.gathered.data());
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    if (dtype == DType::kFloat32) return static_cast<const T*>(data);
    convert_to_float(data, dtype, count, scratch.converted.data());
  } else {
    if (dtype == DType::kFloat64) return static_cast<const T*>(data);
    convert_to_double(data, dtype, count, scratch.converted.data());
  }
  return scratch.converted.data();
}

template <typename T>
PairSums run(const PairJob& job, std::int64_t begin, std::int64_t end) {
  const FloatEnvironment standard;
  PieceScratch<T> left;  // not initialised: what is read is written before
  PieceScratch<T> right;
  PairSums sums;
  for (std::int64_t first = begin; first < end; first += static_cast<std::int64_t>(kPiece)) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kPiece, end - first));
    const T* const x = read(job.left, job.left_dtype, first, count, left);
    const T* const y = read(job.right, job.right_dtype, first, count, right);
    if constexpr (sizeof(T) == sizeof(float)) {
      merge(sums, kernels().pairs_f32(x, y, count));
    } else {
      merge(sums, kernels().pairs_f64(x, y, count));
    }
  }
  return sums;
}

}  // namespace

void merge(PairSums& whole, const PairSums& part) {
  const FloatEnvironment standard;
  whole.count += part.count;
  whole.left_squares += part.left_squares;
  whole.right_squares += part.right_squares;
  whole.dot += part.dot;
  whole.squared_distance += part.squared_distance;
  whole.sign_balance += part.sign_balance;
}

std::vector<PairSums> pair_sums(std::span<const Pair> pairs, ThreadPool* pool) {
  struct Segment {
    std::size_t job;
    std::int64_t begin;
    std::int64_t end;
    PairSums sums;
  };
  std::vector<PairJob> jobs;
  std::vector<Segment> segments;
  jobs.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    const std::int64_t count = jobs.emplace_back(pair).left.count();
    for (std::int64_t begin = 0; begin < count; begin += kSegment) {
      segments.push_back({jobs.size() - 1, begin, std::min(begin + kSegment, count), {}});
    }
  }
  const auto work = [&](std::size_t i) {
    Segment& segment = segments[i];
    const PairJob& job = jobs[segment.job];
    segment.sums = job.in_float ? run<float>(job, segment.begin, segment.end)
                                : run<double>(job, segment.begin, segment.end);
  };
  if (pool != nullptr) {
    pool->parallel_for(segments.size(), work);
  } else {
    for (std::size_t i = 0; i < segments.size(); ++i) work(i);
  }
  std::vector<PairSums> results(pairs.size());
  for (const Segment& segment : segments) merge(results[segment.job], segment.sums);
  return results;
}

}  // namespace msprobe::stats
