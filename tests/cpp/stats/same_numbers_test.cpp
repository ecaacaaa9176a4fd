// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The same numbers whatever the processor, the caller's floating-point mode, and what is asked beside.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/float_environment.h"
#include "catch.h"
#include "checkpoint/difference.h"
#include "msprobe/metrics.h"
#include "msprobe/perturb.h"
#include "msprobe/result_error.h"
#include "msprobe/rl.h"
#include "msprobe/stats.h"

using namespace msprobe;
using stats::summarize;
using stats::Summary;
using stats::SummaryOptions;

namespace {

// As torch.set_flush_denormal(True) leaves a thread.
class FlushesDenormals {
 public:
  FlushesDenormals() : saved_(float_control()) { set_float_control(saved_ | kFlushBits); }
  ~FlushesDenormals() { set_float_control(saved_); }
  FlushesDenormals(const FlushesDenormals&) = delete;
  FlushesDenormals& operator=(const FlushesDenormals&) = delete;

 private:
  std::uint64_t saved_;
};

// Denormals of two sizes; as few as are handled by one thread, and in one piece.
constexpr std::int64_t kCount = 1000;
constexpr std::int64_t kShape[] = {kCount};

template <typename T, typename Bits>
std::vector<T> denormals(Bits first) {
  std::vector<T> result(kCount);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::bit_cast<T>(static_cast<Bits>(i + first));
  return result;
}

void keep(std::vector<double>& numbers, const Summary& s) {
  numbers.insert(numbers.end(), {*s.min, *s.max, *s.mean, s.norm, s.sum, static_cast<double>(s.zero_count)});
}

// What each public function says of denormals.
template <typename T>
std::vector<double> said_of(const std::vector<T>& a, const std::vector<T>& b, DType dtype) {
  const TensorView x{a.data(), dtype, kShape, {}};
  const TensorView y{b.data(), dtype, kShape, {}};
  std::vector<double> numbers;
  SummaryOptions all;
  all.powers = true;
  all.small = 1e-30;
  all.sketch = true;
  const Summary s = summarize(x, all);
  keep(numbers, s);
  numbers.push_back(*s.sum_abs);
  numbers.push_back(static_cast<double>(*s.small_count));
  const stats::Pair pair{x, y};
  const stats::PairSums sums = stats::pair_sums({&pair, 1}).at(0);
  numbers.insert(numbers.end(), {sums.dot, sums.squared_distance});
  const metrics::PairMetrics m = metrics::compare(x, y);
  numbers.insert(numbers.end(), {m.max_absolute, m.max_relative, m.squared_distance, m.dot});
  const metrics::ResultError e = metrics::measure_result(x, y, {});
  numbers.insert(numbers.end(), {e.max_absolute, static_cast<double>(e.unequal), e.max_relative});
  const checkpoint::Difference d = checkpoint::difference_of(x, y);
  numbers.insert(numbers.end(), {static_cast<double>(d.equal_bits), d.max_absolute, d.max_relative});
  std::vector<T> changed(a.size());
  numbers.push_back(perturb::add_random_ulps(dtype, a.data(), changed.data(), a.size(), 7, 0, 1));
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (const T value : changed) numbers.push_back(static_cast<double>(std::bit_cast<Bits>(value)));
  numbers.push_back(rl::compare(x, y).max_absolute);
  return numbers;
}

}  // namespace

TEST_CASE("same numbers: a caller that flushes denormals to zero gets those of one that does not") {
  const auto f32 = [] {
    return said_of(denormals<float>(std::uint32_t{1}), denormals<float>(std::uint32_t{500}), DType::kFloat32);
  };
  const auto f64 = [] {
    return said_of(denormals<double>(std::uint64_t{1}), denormals<double>(std::uint64_t{500}),
                   DType::kFloat64);
  };
  const std::vector<double> single = f32();
  const std::vector<double> twice = f64();
  std::vector<double> single_flushed, twice_flushed;
  {
    const FlushesDenormals mode;
    single_flushed = f32();
    twice_flushed = f64();
  }
  for (const auto& [with, without] : {std::pair(single_flushed, single), std::pair(twice_flushed, twice)}) {
    REQUIRE(with.size() == without.size());
    for (std::size_t i = 0; i < with.size(); ++i) {
      CAPTURE(i);
      CHECK(std::bit_cast<std::uint64_t>(with[i]) == std::bit_cast<std::uint64_t>(without[i]));
    }
  }
}

TEST_CASE("same numbers: flush-to-zero is put back for the caller") {
  const FlushesDenormals mode;
  const std::vector<float> values = denormals<float>(std::uint32_t{1});
  summarize({values.data(), DType::kFloat32, kShape, {}});
  CHECK((float_control() & kFlushBits) == kFlushBits);
}

// (1 + 2^-30)^2 is 1 + 2^-29 when it is rounded, and 2^-60 more where a multiplication and an addition are
// one instruction.
TEST_CASE("same numbers: what is multiplied and added is rounded twice on every processor") {
  const double near_one = 1 + 0x1p-30;
  for (std::size_t at = 1; at < 200; ++at) {
    std::vector<double> result(256, 0), reference(256, 0);
    result[0] = reference[0] = near_one;
    result[at] = 1;
    reference[at] = -(1 + 0x1p-29);
    const std::int64_t shape[] = {256};
    const metrics::ResultError e = metrics::measure_result(
        {result.data(), DType::kFloat64, shape, {}}, {reference.data(), DType::kFloat64, shape, {}}, {});
    CAPTURE(at);
    REQUIRE(e.dot == 0);
  }
  volatile double x = near_one;
  volatile double minus = -(1 + 0x1p-29);
  CHECK(x * x + minus == 0);  // of this file, which is compiled as the library is
}

TEST_CASE("same numbers: char is signed on every processor") { CHECK(static_cast<char>(0xC3) < 'z'); }

namespace {

// The optional statistics that a request has, by the bits of `set`.
struct Asked {
  SummaryOptions options;
  std::vector<std::uint8_t> signs = std::vector<std::uint8_t>(stats::sign_bytes(5000));
  static constexpr float kBounds[] = {-1, 0, 1};

  Asked(unsigned set, SummaryOptions::Checksum checksum) {
    if (set & 1) options.checksum = checksum;
    if (set & 2) options.powers = true;
    if (set & 4) options.small = 0.5;
    if (set & 8) options.bounds = kBounds;
    if (set & 16) options.signs = signs;
  }
};

}  // namespace

TEST_CASE("same numbers: a statistic is the same, whatever is asked beside it") {
  std::vector<float> floats(5000);
  std::vector<std::uint16_t> halves(5000);  // of bfloat16
  std::vector<double> doubles(5000);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    doubles[i] = floats[i] = static_cast<float>(i % 7) - 3;
    halves[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(floats[i]) >> 16);
  }
  const std::int64_t shape[] = {5000};
  const TensorView views[] = {{floats.data(), DType::kFloat32, shape, {}},
                              {halves.data(), DType::kBFloat16, shape, {}},
                              {doubles.data(), DType::kFloat64, shape, {}}};
  for (const TensorView& view : views) {
    for (const auto checksum : {SummaryOptions::Checksum::kNative, SummaryOptions::Checksum::kFloat32}) {
      Asked everything(31, checksum);
      const Summary all = summarize(view, everything.options);
      CHECK(*all.sum_abs == Approx(8573).epsilon(0.01));
      for (unsigned set = 0; set < 32; ++set) {
        Asked asked(set, checksum);
        const Summary one = summarize(view, asked.options);
        CAPTURE(set, dtype_name(view.dtype));
        CHECK(one.sum == all.sum);
        CHECK(one.norm == all.norm);
        if (set & 1) CHECK(one.crc32 == all.crc32);
        if (set & 2) CHECK(one.sum_abs == all.sum_abs);
        if (set & 2) CHECK(one.fourth_powers == all.fourth_powers);
        if (set & 4) CHECK(one.small_count == all.small_count);
        if (set & 8) CHECK(one.interval_counts == all.interval_counts);
        if (set & 16) CHECK(asked.signs == everything.signs);
      }
    }
  }
}
