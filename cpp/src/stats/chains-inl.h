// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// How the kernels of the basic statistics add up, for the instruction set that Highway compiles at the
// moment.

#if defined(MSPROBE_STATS_CHAINS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MSPROBE_STATS_CHAINS_INL_H
#undef MSPROBE_STATS_CHAINS_INL_H
#else
#define MSPROBE_STATS_CHAINS_INL_H
#endif

#include "stats/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::stats::HWY_NAMESPACE {
namespace {

// One element on its own: the tail of a tensor. Same operations as the vector code.
template <typename T>
HWY_INLINE void add_one(T value, std::size_t lane, Lanes<T>* lanes) {
  const double wide = static_cast<double>(value);
  lanes->sum[lane] += wide;
  lanes->squares[lane] += wide * wide;
  lanes->min[lane] = value < lanes->min[lane] ? value : lanes->min[lane];
  lanes->max[lane] = value > lanes->max[lane] ? value : lanes->max[lane];
  lanes->zeros += value == 0;
}

// Adds a set of float vectors to double lanes.
HWY_INLINE void flush(const hn::Vec<Floats>* vectors, double* HWY_RESTRICT lanes) {
  const Floats df;
  const Doubles dd;
  const FloatsOfDoubles dh;
  HWY_ALIGN float buffer[kLanes];
  for (std::size_t v = 0; v < kFloatVectors; ++v) hn::Store(vectors[v], df, buffer + v * kFloatWidth);
  for (std::size_t v = 0; v < kDoubleVectors; ++v) {
    double* lane = lanes + v * kDoubleWidth;
    const auto x = hn::PromoteTo(dd, hn::Load(dh, buffer + v * kDoubleWidth));
    hn::StoreU(hn::Add(x, hn::LoadU(dd, lane)), dd, lane);
  }
}

// Sums and sums of squares in float, in two sets of kLanes lanes.
struct FloatSums {
  hn::Vec<Floats> sum_a[kFloatVectors];
  hn::Vec<Floats> sum_b[kFloatVectors];
  hn::Vec<Floats> squares_a[kFloatVectors];
  hn::Vec<Floats> squares_b[kFloatVectors];

  HWY_INLINE FloatSums() {
    for (std::size_t v = 0; v < kFloatVectors; ++v) {
      sum_a[v] = sum_b[v] = squares_a[v] = squares_b[v] = hn::Zero(Floats());
    }
  }

  HWY_INLINE void add(std::size_t v, hn::Vec<Floats> a, hn::Vec<Floats> b) {
    sum_a[v] = hn::Add(sum_a[v], a);
    sum_b[v] = hn::Add(sum_b[v], b);
    squares_a[v] = hn::MulAdd(a, a, squares_a[v]);
    squares_b[v] = hn::MulAdd(b, b, squares_b[v]);
  }

  HWY_INLINE void flush_to(Lanes<float>* lanes) const {
    flush(sum_a, lanes->sum);
    flush(sum_b, lanes->sum);
    flush(squares_a, lanes->squares);
    flush(squares_b, lanes->squares);
  }
};

// Asks for memory that far ahead of what is being added: the processor's own prefetcher stops at the end of
// each page. Several chains, so that memory stays busy while a checksum is taken.
constexpr std::size_t kPrefetchBytes = 6144;

// Where a chain that starts at element i ends: the last start of a full step of 2 * kLanes elements in it,
// plus one.
HWY_INLINE std::size_t end_of_chain(std::size_t i, std::size_t count, std::size_t chain) {
  return count - i < chain ? count - (2 * kLanes - 1) : i + chain;
}

// Shows the visitor what lies between the elements `visited` and `now`, once that is a stretch.
HWY_INLINE void visit(const Visitor& visitor, std::size_t now, std::size_t stretch, std::size_t* visited) {
  if (visitor.call != nullptr && now - *visited >= stretch) {
    visitor.call(visitor.self, *visited, now - *visited);
    *visited = now;
  }
}

}  // namespace
}  // namespace msprobe::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
