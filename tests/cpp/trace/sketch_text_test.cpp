// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/sketch_text.h"

#include <limits>
#include <string>

#include "base/base64.h"
#include "catch.h"

using namespace msprobe;
using namespace msprobe::trace;

namespace {

stats::Sketch sample() {
  stats::Sketch sketch;
  for (std::size_t i = 0; i < stats::Sketch::kSums; ++i) sketch.sums[i] = static_cast<double>(i) / 3 - 1;
  sketch.digest = 0xFEDCBA9876543210;
  sketch.mean = 0.1;
  sketch.norm = 7.7;
  sketch.min = -1.1;
  sketch.max = 2.2;
  return sketch;
}

std::string base64(const std::string& bytes) {
  std::string text;
  append_base64(text, bytes);
  return text;
}

}  // namespace

TEST_CASE("sketch text: 57 bytes, 89 for 64-bit dtypes, 40 more where something is not finite") {
  CHECK(sketch_bytes(sample(), {}, false).size() == 57);
  CHECK(sketch_bytes(sample(), {}, true).size() == 89);
  CHECK(sketch_bytes(sample(), {1, 0, 0}, false).size() == 97);
  CHECK(sketch_bytes(sample(), {0, 0, 1}, true).size() == 129);
  CHECK(is_wide(DType::kFloat64));
  CHECK(is_wide(DType::kInt64));
  CHECK(is_wide(DType::kComplex128));
  CHECK_FALSE(is_wide(DType::kComplex64));
  CHECK_FALSE(is_wide(DType::kFloat32));
  CHECK_FALSE(is_wide(std::nullopt));
}

TEST_CASE("sketch text: what is written is read again") {
  for (const bool wide : {false, true}) {
    for (const stats::NonFinite& bad : {stats::NonFinite{}, stats::NonFinite{3, 1, 2}}) {
      const auto read = read_sketch(base64(sketch_bytes(sample(), bad, wide)));
      REQUIRE(read);
      CHECK(read->has_digest);
      CHECK(read->sketch.digest == 0xFEDCBA9876543210);
      CHECK(read->sketch.mean == 0.1);
      CHECK(read->sketch.norm == 7.7);
      for (std::size_t i = 0; i < stats::Sketch::kSums; ++i) {
        const double sum = sample().sums[i];
        CHECK(read->sketch.sums[i] == (wide ? sum : static_cast<double>(static_cast<float>(sum))));
      }
      CHECK(read->non_finite == bad);
      CHECK(read->has_extremes == bad.any());
      CHECK(read->sketch.min == (bad.any() ? -1.1 : 0));
      CHECK(read->sketch.max == (bad.any() ? 2.2 : 0));
    }
  }
}

TEST_CASE("sketch text: the first form, without a digest, is read as well") {
  for (const bool wide : {false, true}) {
    for (const stats::NonFinite& bad : {stats::NonFinite{}, stats::NonFinite{3, 1, 2}}) {
      const auto read = read_sketch(base64(sketch_bytes(sample(), bad, wide).substr(9)));
      REQUIRE(read);
      CHECK_FALSE(read->has_digest);
      CHECK(read->sketch.norm == 7.7);
      CHECK(read->sketch.sums[0] == -1);
      CHECK(read->non_finite == bad);
    }
  }
}

TEST_CASE("sketch text: anything else is no sketch") {
  const std::string good = sketch_bytes(sample(), {1, 0, 0}, false);
  for (std::size_t length = 0; length < good.size(); ++length) {
    const bool is_form = length == 48 || length == 80 || length == 88 || length == 57 || length == 89;
    if (!is_form) CHECK_FALSE(read_sketch(base64(good.substr(0, length))));
  }
  CHECK_FALSE(read_sketch(base64("\3" + good.substr(1))));  // a form that is not known
  CHECK_FALSE(read_sketch(""));
  CHECK_FALSE(read_sketch("no base64"));
  CHECK_FALSE(read_sketch(base64(good + good)));
  std::string negative = good;
  negative.replace(73, 8, std::string(8, '\xff'));
  CHECK(read_sketch(base64(negative))->non_finite.nan == 0);
}
