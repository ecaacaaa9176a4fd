// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <libdeflate.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/stats.h"

using namespace msprobe;
using stats::summarize;
using stats::Summary;
using stats::SummaryOptions;

namespace {

// The tests that compare with torch and NumPy are in tests/python/stats; here is what needs no second
// opinion.

TensorView view_of(const std::vector<float>& values, const std::vector<std::int64_t>& shape) {
  return {values.data(), DType::kFloat32, shape, {}};
}

}  // namespace

TEST_CASE("summarize: hand-computed values") {
  const std::vector<float> values{3, -4, 0, -0.0F, 12};
  const std::vector<std::int64_t> shape{5};
  const Summary s = summarize(view_of(values, shape));
  CHECK(s.count == 5);
  CHECK(s.min == -4.0);
  CHECK(s.max == 12.0);
  CHECK(*s.mean == Approx(2.2));
  CHECK(s.norm == 13.0);
  CHECK(s.zero_count == 2);
  CHECK(s.nan_count + s.pos_inf_count + s.neg_inf_count == 0);
  CHECK_FALSE(s.crc32);
  CHECK(s.interval_counts.empty());
}

TEST_CASE("summarize: one NaN makes min, max, mean and norm NaN") {
  std::vector<float> values(1000, 1.0F);
  values[999] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::int64_t> shape{1000};
  const Summary s = summarize(view_of(values, shape));
  CHECK(std::isnan(*s.min));
  CHECK(std::isnan(*s.max));
  CHECK(std::isnan(*s.mean));
  CHECK(std::isnan(s.norm));
  CHECK(s.nan_count == 1);
}

TEST_CASE("summarize: an empty tensor has no min, max and mean") {
  const std::vector<std::int64_t> shape{3, 0};
  const Summary s = summarize({nullptr, DType::kBFloat16, shape, {}});
  CHECK(s.count == 0);
  CHECK_FALSE(s.min);
  CHECK_FALSE(s.max);
  CHECK_FALSE(s.mean);
  CHECK(s.norm == 0);
}

TEST_CASE("summarize: a 0-d tensor has one element") {
  const double value = -2.5;
  const Summary s = summarize({&value, DType::kFloat64, {}, {}});
  CHECK(s.count == 1);
  CHECK(s.min == -2.5);
  CHECK(s.norm == 2.5);
}

TEST_CASE("summarize: overlapping and reversed strides read the elements they name") {
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<std::int64_t> shape{3, 2};
  SECTION("overlapping windows") {
    const std::vector<std::int64_t> strides{1, 1};  // 1 2 | 2 3 | 3 4
    CHECK(*summarize({values.data(), DType::kFloat32, shape, strides}).mean == Approx(2.5));
  }
  SECTION("reversed") {
    const std::vector<std::int64_t> one{4};
    const std::vector<std::int64_t> strides{-1};
    std::vector<std::uint8_t> signs(1);
    SummaryOptions options;
    options.bounds = {};
    options.checksum = SummaryOptions::Checksum::kNative;
    const std::vector<float> turned{4, 3, 2, 1};
    const Summary s = summarize({values.data() + 3, DType::kFloat32, one, strides}, options);
    CHECK(s.crc32 == summarize({turned.data(), DType::kFloat32, one, {}}, options).crc32);
  }
  SECTION("broadcast") {
    const std::vector<std::int64_t> strides{0, 0};
    CHECK(summarize({values.data(), DType::kFloat32, shape, strides}).norm == Approx(std::sqrt(6.0)));
  }
}

TEST_CASE("summarize: bit-equal for every number of threads, alone and among others") {
  std::vector<float> values(300'001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) / 3;
  const std::vector<std::int64_t> shape{300'001};
  const std::vector<float> bounds{-0.1F, 0.2F};
  std::vector<std::uint8_t> signs(stats::sign_bytes(300'001));
  SummaryOptions options;
  options.bounds = bounds;
  options.signs = signs;
  options.checksum = SummaryOptions::Checksum::kFloat32;
  const Summary alone = summarize(view_of(values, shape), options);
  const std::vector<std::uint8_t> expected_signs = signs;
  for (const unsigned threads : {1U, 2U, 5U}) {
    ThreadPool pool(threads);
    const std::vector<stats::Request> requests{{view_of(values, shape), {}},
                                               {view_of(values, shape), options}};
    std::fill(signs.begin(), signs.end(), std::uint8_t{0});
    const std::vector<Summary> all = stats::summarize_all(requests, &pool);
    for (const Summary& s : all) {
      CHECK(s.norm == alone.norm);
      CHECK(s.mean == alone.mean);
      CHECK(s.min == alone.min);
    }
    CHECK(all[1].crc32 == alone.crc32);
    CHECK(all[1].interval_counts == alone.interval_counts);
    CHECK(signs == expected_signs);
  }
}

TEST_CASE("summarize: options of 16-bit and 32-bit floats change nothing but what they ask for") {
  using Checksum = SummaryOptions::Checksum;
  // Lengths around the steps and chains of the kernels and around segments.
  for (const std::int64_t count : {1, 31, 32, 33, 511, 512, 1023, 1024, 1025, 2080, 65536, 65537, 66600}) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::vector<std::uint16_t> halves(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto k = static_cast<int>(i * 7919 % 1021) - 510;
      halves[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(k)) >> 16);
      values[i] = std::bit_cast<float>(std::uint32_t{halves[i]} << 16);
    }
    const std::vector<std::int64_t> shape{count};
    const TensorView views[] = {{values.data(), DType::kFloat32, shape, {}},
                                {halves.data(), DType::kBFloat16, shape, {}},
                                {halves.data(), DType::kFloat16, shape, {}}};
    for (const TensorView& view : views) {
      INFO(dtype_name(view.dtype) << ", " << count << " elements");
      const Summary plain = summarize(view);
      for (const bool with_signs : {false, true}) {
        for (const Checksum checksum : {Checksum::kNone, Checksum::kNative, Checksum::kFloat32}) {
          std::vector<std::uint8_t> signs(with_signs ? stats::sign_bytes(count) : 0, 0xFF);
          SummaryOptions options;
          options.signs = signs;
          options.checksum = checksum;
          const Summary s = summarize(view, options);
          CHECK(s.min == plain.min);
          CHECK(s.max == plain.max);
          CHECK(s.mean == plain.mean);
          CHECK(s.norm == plain.norm);
          CHECK(s.zero_count == plain.zero_count);
          CHECK(s.crc32.has_value() == (checksum != Checksum::kNone));
          if (with_signs && view.dtype != DType::kFloat16) {
            std::vector<std::uint8_t> expected(signs.size());
            for (std::size_t i = 0; i < values.size(); ++i) {
              expected[i / 8] |= static_cast<std::uint8_t>(static_cast<unsigned>(values[i] > 0) << (i % 8));
            }
            CHECK(signs == expected);
          }
          if (checksum == Checksum::kFloat32 && view.dtype != DType::kFloat16) {
            CHECK(s.crc32 == libdeflate_crc32(0, values.data(), values.size() * sizeof(float)));
          }
        }
      }
    }
  }
}

TEST_CASE("summarize: bad shapes and options are refused") {
  const std::vector<float> values(8);
  const std::vector<std::int64_t> negative{2, -1};
  const std::vector<std::int64_t> huge{std::int64_t{1} << 62, 4};
  const std::vector<std::int64_t> two{2, 4};
  const std::vector<std::int64_t> one{1};
  CHECK_THROWS_AS(summarize(view_of(values, negative)), InvalidArgument);
  CHECK_THROWS_AS(summarize(view_of(values, huge)), InvalidArgument);
  CHECK_THROWS_AS(summarize({values.data(), DType::kFloat32, two, one}), InvalidArgument);
  CHECK_THROWS_AS(summarize({values.data(), DType::kFloat32, std::vector<std::int64_t>(65, 1), {}}),
                  InvalidArgument);
  std::vector<std::uint8_t> too_small(0);
  SummaryOptions options;
  too_small.resize(1);
  options.signs = too_small;
  const std::vector<std::int64_t> nine{9};
  const std::vector<float> nine_values(9);
  CHECK_THROWS_AS(summarize(view_of(nine_values, nine), options), InvalidArgument);
}

TEST_CASE("fields: one row per statistic, each with a name and a meaning") {
  const std::vector<float> values{1, 2};
  const std::vector<std::int64_t> shape{2};
  const Summary s = summarize(view_of(values, shape));
  bool has_norm = false;
  for (const stats::Field& field : stats::fields()) {
    CHECK_FALSE(field.name.empty());
    CHECK_FALSE(field.meaning.empty());
    if (field.name == "norm") has_norm = *field.value(s) == s.norm;
  }
  CHECK(has_norm);
}
