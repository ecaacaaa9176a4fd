// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "base/convert.h"
#include "base/float_environment.h"
#include "base/layout.h"
#include "msprobe/error.h"
#include "msprobe/stats.h"
#include "stats/block_statistics.h"
#include "stats/kernels.h"
#include "stats/partial.h"

namespace msprobe::stats {
namespace {

// A segment fits into the second-level cache: one with NaN or Inf is read again to count them.
static_assert(kSegment % kBlock == 0 && kBlock == kHalfChain && kHalfChain % kFloatChain == 0);

// The fast kernels square in float. When the largest magnitude of a segment lies in this range, none of its
// squares overflows (16 to 32 of them are added), and those that underflow are too small to count beside the
// largest.
constexpr double kSmallestForFloat = 0x1p-50;
constexpr double kLargestForFloat = 0x1p60;

// A request, checked and ready.
struct Job {
  Layout layout;
  const TensorView* view;
  DType dtype;
  const SummaryOptions* options;
  bool by_block = false;             // an optional statistic is taken together with the basic ones
  bool only_checksum = false;        // that one is the checksum, and nothing is asked beside it
  bool only_sketch = true;           // no other one than the sketch is
  bool has_late_statistics = false;  // an optional statistic is taken after them

  explicit Job(const Request& request);
};

void check_shard(const TensorView& view, const SummaryOptions::Shard& shard) {
  if (shard.shape.empty()) return;
  bool fits = shard.shape.size() == view.shape.size() && shard.offsets.size() == view.shape.size();
  for (std::size_t d = 0; fits && d < view.shape.size(); ++d) {
    fits = shard.offsets[d] >= 0 && view.shape[d] <= shard.shape[d] &&
           shard.offsets[d] <= shard.shape[d] - view.shape[d];
  }
  if (!fits) throw InvalidArgument("summarize: expected a shard that lies inside of its tensor");
}

void check_options(const Request& request, std::int64_t count) {
  check_shard(request.view, request.options.shard);
  const SummaryOptions& options = request.options;
  const auto ascending = [](float a, float b) { return !(a < b); };
  if (std::adjacent_find(options.bounds.begin(), options.bounds.end(), ascending) != options.bounds.end() ||
      (!options.bounds.empty() && std::isnan(options.bounds.front()))) {
    throw InvalidArgument("summarize: bounds must be strictly ascending and not NaN");
  }
  if (!options.signs.empty() && options.signs.size() < sign_bytes(count)) {
    throw InvalidArgument("summarize: signs need " + std::to_string(sign_bytes(count)) + " bytes, found " +
                          std::to_string(options.signs.size()));
  }
  if (is_complex(request.view.dtype) && (!options.bounds.empty() || !options.signs.empty())) {
    throw InvalidArgument("summarize: bounds and signs are not defined for " +
                          std::string(dtype_name(request.view.dtype)));
  }
}

bool any_order(const SummaryOptions& options) {
  return options.checksum == SummaryOptions::Checksum::kNone && options.signs.empty() && !options.sketch;
}

Job::Job(const Request& request)
    : layout(request.view, any_order(request.options)),
      view(&request.view),
      dtype(request.view.dtype),
      options(&request.options) {
  check_options(request, layout.count());
  int blocks = 0;
#pragma GCC unroll 8
  for (const BlockStatistic& statistic : kBlockStatistics) {
    if (!statistic.wanted(*options, dtype)) continue;
    blocks += statistic.start == nullptr;
    has_late_statistics |= statistic.start != nullptr;
    if (statistic.start == nullptr && statistic.add != add_sketch) only_sketch = false;
  }
  by_block = blocks > 0;
  only_checksum =
      blocks == 1 && options->checksum != SummaryOptions::Checksum::kNone && options->signs.empty();
}

// Memory of one thread for one segment.
struct Scratch {
  alignas(64) std::array<std::byte, kBlock * 16> gathered;
  BlockScratch blocks;
};

// Calls `visit(data, first, count)` for the elements [begin, end) in pieces that are contiguous in memory.
template <typename Visit>
void for_each_piece(const Job& job, std::int64_t begin, std::int64_t end, bool in_blocks, Scratch& scratch,
                    Visit visit) {
  const bool direct = job.layout.contiguous();
  const std::int64_t step = direct && !in_blocks ? end - begin : static_cast<std::int64_t>(kBlock);
  for (std::int64_t first = begin; first < end; first += step) {
    const auto count = static_cast<std::size_t>(std::min(step, end - first));
    if (direct) {
      visit(job.layout.at(first), first, count);
    } else {
      job.layout.gather(first, count, scratch.gathered.data());
      visit(scratch.gathered.data(), first, count);
    }
  }
}

template <typename T>
void count_special(const T* values, std::size_t count, Partial& partial) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  std::int64_t nan = 0;
  std::int64_t pos = 0;
  std::int64_t neg = 0;
  for (std::size_t i = 0; i < count; ++i) {
    nan += values[i] != values[i];
    pos += values[i] == infinity;
    neg += values[i] == -infinity;
  }
  partial.nan += nan;
  partial.pos_inf += pos;
  partial.neg_inf += neg;
}

// The lanes combined as a balanced tree: always the same order, and no loop of unknown length.
template <std::size_t width = kLanes, typename T, typename Combine>
T fold(const T* lanes, Combine combine) {
  if constexpr (width == 1) {
    return lanes[0];
  } else {
    std::array<T, width / 2> half;
    for (std::size_t i = 0; i < width / 2; ++i) half[i] = combine(lanes[i], lanes[i + width / 2]);
    return fold<width / 2>(half.data(), combine);
  }
}

template <typename T>
void fold(const Lanes<T>& lanes, Partial& partial) {
  partial.min = fold(lanes.min, [](T a, T b) { return a < b ? a : b; });
  partial.max = fold(lanes.max, [](T a, T b) { return a > b ? a : b; });
  partial.sum = fold(lanes.sum, std::plus<>());
  partial.squares = fold(lanes.squares, std::plus<>());
  partial.zeros = lanes.zeros;
}

// How the elements of a dtype reach the kernels.
enum class Path : std::uint8_t { kFast, kFloat, kDouble, kComplex };

Path path_of(DType dtype) {
  if (has_fast_kernel(dtype)) return Path::kFast;
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kInt32:
    case DType::kUInt64:
    case DType::kUInt32: return Path::kDouble;
    case DType::kComplex32:
    case DType::kComplex64:
    case DType::kComplex128: return Path::kComplex;
    default: return Path::kFloat;
  }
}

template <typename T>
constexpr DType dtype_of = sizeof(T) == sizeof(float) ? DType::kFloat32 : DType::kFloat64;

// The elements as T, which is float or double; those that are T already are not copied.
template <typename T>
const T* as(const void* data, DType dtype, std::size_t count, Scratch& scratch) {
  if (dtype == dtype_of<T>) return static_cast<const T*>(data);
  if constexpr (std::is_same_v<T, float>) {
    convert_to_float(data, dtype, count, scratch.blocks.floats.data());
    return scratch.blocks.floats.data();
  } else {
    convert_to_double(data, dtype, count, scratch.blocks.doubles.data());
    return scratch.blocks.doubles.data();
  }
}

void add_moments(const float* data, std::size_t count, Lanes<float>* lanes) {
  kernels().moments_f32(data, count, lanes);
}

void add_moments(const double* data, std::size_t count, Lanes<double>* lanes) {
  kernels().moments_f64(data, count, lanes);
}

// Puts 0 in the place of NaN and infinities, and takes the extremes of what is finite.
template <typename T>
void keep_finite(const T* values, std::size_t count, T* kept, FiniteSums& sums) {
  T min = std::numeric_limits<T>::infinity();
  T max = -min;
  for (std::size_t i = 0; i < count; ++i) {
    const T value = values[i];
    const bool is_finite = std::abs(value) <= std::numeric_limits<T>::max();
    kept[i] = is_finite ? value : 0;
    min = is_finite && value < min ? value : min;
    max = is_finite && value > max ? value : max;
  }
  sums.min = std::min(sums.min, static_cast<double>(min));
  sums.max = std::max(sums.max, static_cast<double>(max));
}

class Segment {
 public:
  // The results go to `partial`, which is new: copying it would cost a small tensor a tenth of its time.
  Segment(const Job& job, std::int64_t begin, std::int64_t end, Scratch& scratch, Partial& partial)
      : job_(job), begin_(begin), end_(end), scratch_(scratch), partial_(partial) {
    partial_.count = end - begin;
  }

  void run() {
    switch (path_of(job_.dtype)) {
      case Path::kFast: run_fast(); break;
      case Path::kFloat: run_exact<float>(job_.by_block); break;
      case Path::kDouble: run_exact<double>(job_.by_block); break;
      case Path::kComplex: run_complex(); break;
    }
    run_late_statistics();
    end_statistics();
  }

 private:
  template <typename Moments>
  void visit_pieces(bool in_blocks, bool with_extras, Moments moments) {
    for_each_piece(job_, begin_, end_, in_blocks, scratch_,
                   [&](const void* data, std::int64_t first, std::size_t count) {
                     moments(data, first, count);
                     if (with_extras) add_extras(data, first, count);
                   });
  }

  void add_extras(const void* data, std::int64_t first, std::size_t count) {
    Block block(data, *job_.view, first, count, scratch_.blocks);
    for (const BlockStatistic& statistic : kBlockStatistics) {
      if (statistic.start == nullptr && statistic.wanted(*job_.options, job_.dtype)) {
        statistic.add(block, *job_.options, partial_);
      }
    }
  }

  void end_statistics() {
    if (!job_.by_block) return;
    for (const BlockStatistic& statistic : kBlockStatistics) {
      if (statistic.end != nullptr && statistic.wanted(*job_.options, job_.dtype)) {
        statistic.end(scratch_.blocks, partial_);
      }
    }
  }

  // Reads the segment once more, from the second-level cache.
  void run_late_statistics() {
    if (!job_.has_late_statistics) return;
    const KnownSegment known{job_.dtype, begin_, *job_.options};
    for (const BlockStatistic& statistic : kBlockStatistics) {
      if (statistic.start == nullptr || !statistic.wanted(*job_.options, job_.dtype)) continue;
      if (!statistic.start(known, partial_)) continue;
      for_each_piece(job_, begin_, end_, true, scratch_,
                     [&](const void* data, std::int64_t first, std::size_t count) {
                       Block block(data, *job_.view, first, count, scratch_.blocks);
                       statistic.add(block, *job_.options, partial_);
                     });
    }
  }

  // Every sum in double. T: float, or double for what float cannot hold.
  template <typename T>
  void run_exact(bool with_extras) {
    Lanes<T> lanes;
    visit_pieces(with_extras || job_.dtype != dtype_of<T>, with_extras,
                 [&](const void* data, std::int64_t, std::size_t count) {
                   add_moments(as<T>(data, job_.dtype, count, scratch_), count, &lanes);
                 });
    fold(lanes, partial_);
    if (std::isfinite(partial_.sum) && std::isfinite(partial_.squares)) return;
    visit_pieces(true, false, [&](const void* data, std::int64_t, std::size_t count) {
      count_special(as<T>(data, job_.dtype, count, scratch_), count, partial_);
    });
    if (job_.options->sketch && partial_.nan + partial_.pos_inf + partial_.neg_inf > 0) sum_finite<T>();
  }

  template <typename T>
  void sum_finite() {
    auto sums = std::make_unique<FiniteSums>();
    Lanes<T> lanes;
    visit_pieces(true, false, [&](const void* data, std::int64_t, std::size_t count) {
      std::array<T, kBlock> kept;
      keep_finite(as<T>(data, job_.dtype, count, scratch_), count, kept.data(), *sums);
      add_moments(kept.data(), count, &lanes);
    });
    Partial finite;
    fold(lanes, finite);
    sums->sum = finite.sum;
    sums->squares = finite.squares;
    partial_.finite = std::move(sums);
  }

  // What the fast kernels call back with.
  struct Extras {
    Segment* segment;
    const std::byte* data;
    std::int64_t first;  // element of the tensor at `data`

    static void add(void* self, std::size_t from, std::size_t count) {
      const Extras& extras = *static_cast<const Extras*>(self);
      extras.segment->add_extras(extras.data + from * element_size(extras.segment->job_.dtype),
                                 extras.first + static_cast<std::int64_t>(from), count);
    }
  };

  // Where one kernel takes the checksum along: true when it has done so.
  bool add_with_checksum(const void* data, std::size_t count, Lanes<float>& lanes) {
    using Checksum = SummaryOptions::Checksum;
    const Checksum wanted = job_.options->checksum;
    if (!job_.only_checksum) return false;
    const Kernels& k = kernels();
    Crc32& checksum = scratch_.blocks.checksum;
    if (job_.dtype == DType::kFloat32 && k.fast_f32_with_checksum != nullptr) {
      k.fast_f32_with_checksum(static_cast<const float*>(data), count, &lanes, checksum);
      return true;
    }
    if (job_.dtype == DType::kBFloat16 && wanted == Checksum::kFloat32 &&
        k.fast_bfloat16_with_checksum != nullptr) {
      k.fast_bfloat16_with_checksum(static_cast<const std::uint16_t*>(data), count, &lanes, checksum);
      return true;
    }
    return false;
  }

  void run_fast() {
    Lanes<float> lanes;
    const SummaryOptions& options = *job_.options;
    const bool sketches_along =
        options.sketch && job_.only_sketch && options.shard.shape.empty() && options.signs.empty();
    visit_pieces(
        options.sketch && !sketches_along, false,
        [&](const void* data, std::int64_t first, std::size_t count) {
          if (add_with_checksum(data, count, lanes)) return;
          if (sketches_along) {
            Block block(data, *job_.view, first, count, scratch_.blocks);
            add_sketch_and_moments(block, partial_, lanes);
            return;
          }
          Extras extras{this, static_cast<const std::byte*>(data), first};
          const Visitor visitor{job_.by_block ? &Extras::add : nullptr, &extras};
          // Pieces start at multiples of 8, so each writes bytes of its own.
          std::uint8_t* const signs = options.signs.empty() ? nullptr : options.signs.data() + first / 8;
          if (job_.dtype == DType::kFloat32) {
            kernels().fast_f32(static_cast<const float*>(data), count, &lanes, signs, visitor);
          } else {
            const Half kind = job_.dtype == DType::kFloat16 ? Half::kFloat16 : Half::kBFloat16;
            kernels().fast_half(static_cast<const std::uint16_t*>(data), count, kind, &lanes, signs, visitor);
          }
        });
    fold(lanes, partial_);
    const double largest = std::max(-partial_.min, partial_.max);
    const bool all_zero = partial_.zeros == partial_.count;
    const bool in_range = largest >= kSmallestForFloat && largest <= kLargestForFloat;
    if (!all_zero && !(in_range && std::isfinite(partial_.sum))) run_exact<float>(false);
  }

  void run_complex() {
    Lanes<double> lanes;
    FiniteSums finite;
    visit_pieces(true, job_.by_block, [&](const void* data, std::int64_t, std::size_t count) {
      const double* parts = as<double>(data, job_.dtype, count, scratch_);
      if (job_.options->sketch) {
        std::array<double, 2 * kBlock> kept;
        keep_finite(parts, 2 * count, kept.data(), finite);
        add_moments(kept.data(), 2 * count, &lanes);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const double re = parts[2 * i];
        const double im = parts[2 * i + 1];
        partial_.sum += re;
        partial_.sum_imag += im;
        partial_.squares += re * re + im * im;
        partial_.zeros += re == 0 && im == 0;
        if (std::isnan(re) || std::isnan(im)) {
          ++partial_.nan;
        } else if (re == HUGE_VAL || im == HUGE_VAL) {
          ++partial_.pos_inf;
        } else if (re == -HUGE_VAL || im == -HUGE_VAL) {
          ++partial_.neg_inf;
        }
      }
    });
    if (!job_.options->sketch) return;
    Partial parts;
    fold(lanes, parts);
    partial_.finite = std::make_unique<FiniteSums>(FiniteSums{0, 0, parts.sum, parts.squares});
  }

  const Job& job_;
  std::int64_t begin_;
  std::int64_t end_;
  Scratch& scratch_;
  Partial& partial_;
};

void run_segment(const Job& job, std::int64_t segment, Partial& partial) {
  const FloatEnvironment standard;
  Scratch scratch;  // its arrays are not initialised: each piece writes what it reads
  const std::int64_t begin = segment * kSegment;
  Segment(job, begin, std::min(begin + kSegment, job.layout.count()), scratch, partial).run();
}

FiniteSums finite_of(const Partial& partial) {
  return partial.finite ? *partial.finite
                        : FiniteSums{partial.min, partial.max, partial.sum, partial.squares};
}

void merge_finite(Partial& left, const Partial& right) {
  if (!left.finite && !right.finite) return;
  const FiniteSums ours = finite_of(left), theirs = finite_of(right);
  left.finite =
      std::make_unique<FiniteSums>(FiniteSums{std::min(ours.min, theirs.min), std::max(ours.max, theirs.max),
                                              ours.sum + theirs.sum, ours.squares + theirs.squares});
}

// Of the finite elements, beside the sums of the sketch.
void add_moments(const Partial& whole, const Job& job, Sketch& sketch) {
  const FiniteSums sums = finite_of(whole);
  const std::int64_t parts = is_complex(job.dtype) ? 2 : 1;
  const std::int64_t finite = parts * (whole.count - whole.nan - whole.pos_inf - whole.neg_inf);
  if (finite == 0) return;
  sketch.min = sums.min;
  sketch.max = sums.max;
  sketch.mean = sums.sum / static_cast<double>(finite);
  sketch.norm = std::sqrt(sums.squares);
}

void merge(Partial& left, const Partial& right, const Job& job) {
  if (job.options->sketch) merge_finite(left, right);
  left.count += right.count;
  left.min = std::min(left.min, right.min);
  left.max = std::max(left.max, right.max);
  left.sum += right.sum;
  left.sum_imag += right.sum_imag;
  left.squares += right.squares;
  left.nan += right.nan;
  left.pos_inf += right.pos_inf;
  left.neg_inf += right.neg_inf;
  left.zeros += right.zeros;
  for (const BlockStatistic& statistic : kBlockStatistics) {
    if (statistic.wanted(*job.options, job.dtype)) statistic.merge(left, right);
  }
}

Summary finish(const Partial& whole, const Job& job) {
  Summary summary;
  summary.count = whole.count;
  summary.nan_count = whole.nan;
  summary.pos_inf_count = whole.pos_inf;
  summary.neg_inf_count = whole.neg_inf;
  summary.zero_count = whole.zeros;
  summary.sum = whole.sum;
  summary.squares = whole.squares;
  if (whole.count > 0) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    summary.norm = whole.nan > 0 ? nan : std::sqrt(whole.squares);
    summary.mean = whole.sum / static_cast<double>(whole.count);
    if (is_complex(job.dtype)) {
      summary.mean_imag = whole.sum_imag / static_cast<double>(whole.count);
    } else {
      summary.min = whole.nan > 0 ? nan : whole.min;
      summary.max = whole.nan > 0 ? nan : whole.max;
    }
  }
  if (job.by_block || job.has_late_statistics) {
    for (const BlockStatistic& statistic : kBlockStatistics) {
      if (statistic.wanted(*job.options, job.dtype)) statistic.finish(whole, *job.options, summary);
    }
  }
  if (summary.sketch) add_moments(whole, job, *summary.sketch);
  return summary;
}

std::int64_t segments_of(const Job& job) { return (job.layout.count() + kSegment - 1) / kSegment; }

}  // namespace

Summary summarize(const TensorView& view, const SummaryOptions& options, ThreadPool* pool) {
  const FloatEnvironment standard;
  const Request request{view, options};
  const Job job(request);
  const std::int64_t segments = segments_of(job);
  if (segments > 1 && pool != nullptr && pool->size() > 1) return summarize_all({&request, 1}, pool).front();
  Partial whole;
  if (segments > 0) run_segment(job, 0, whole);
  for (std::int64_t s = 1; s < segments; ++s) {
    Partial next;
    run_segment(job, s, next);
    merge(whole, next, job);
  }
  return finish(whole, job);
}

std::vector<Summary> summarize_all(std::span<const Request> requests, ThreadPool* pool) {
  const FloatEnvironment standard;
  std::vector<Job> jobs;
  std::vector<std::size_t> first;  // index of each job's first segment among all
  jobs.reserve(requests.size());
  first.reserve(requests.size());
  std::size_t total = 0;
  for (const Request& request : requests) {
    first.push_back(total);
    total += static_cast<std::size_t>(segments_of(jobs.emplace_back(request)));
  }

  std::vector<Partial> partials(total);
  const auto run = [&](std::size_t index) {
    const auto job =
        static_cast<std::size_t>(std::upper_bound(first.begin(), first.end(), index) - first.begin()) - 1;
    run_segment(jobs[job], static_cast<std::int64_t>(index - first[job]), partials[index]);
  };
  if (pool != nullptr) {
    pool->parallel_for(total, run);
  } else {
    for (std::size_t i = 0; i < total; ++i) run(i);
  }

  std::vector<Summary> summaries;
  summaries.reserve(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto segments = static_cast<std::size_t>(segments_of(jobs[j]));
    Partial none;  // of an empty tensor
    Partial& whole = segments == 0 ? none : partials[first[j]];
    for (std::size_t s = 1; s < segments; ++s) merge(whole, partials[first[j] + s], jobs[j]);
    summaries.push_back(finish(whole, jobs[j]));
  }
  return summaries;
}

std::string_view instruction_set() { return kernels().instruction_set; }

}  // namespace msprobe::stats
