// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "catch.h"
#include "grad_probe/sample.h"
#include "msprobe/grad_probe.h"

namespace msprobe::grad_probe {
namespace {

Options options_of(Level level, std::vector<Bound> bounds = {}) {
  Options options;
  options.level = level;
  options.bounds = std::move(bounds);
  return options;
}

TEST_CASE("measure: each level asks for what its files hold") {
  OwnedGradients gradients;
  gradients.add("w", {-2, 0, 3}, {3});
  const auto views = gradients.views();

  const auto l0 = measure(views, options_of(Level::kL0));
  REQUIRE(l0.size() == 1);
  CHECK(l0[0].summary.crc32.has_value());
  CHECK(l0[0].signs.empty());

  const auto l1 = measure(views, options_of(Level::kL1, {{0, "0"}}));
  CHECK_FALSE(l1[0].summary.crc32.has_value());
  CHECK(l1[0].signs == std::vector<std::uint8_t>{0b100});
  CHECK(l1[0].name == "w");
  CHECK(l1[0].shape == std::vector<std::int64_t>{3});
  CHECK(l1[0].summary.max == 3.0);
  CHECK(l1[0].summary.min == -2.0);

  const auto l2 = measure(views, options_of(Level::kL2, {{0, "0"}, {1, "1"}}));
  CHECK(l2[0].signs == std::vector<std::uint8_t>{0b100});
  CHECK(l2[0].summary.interval_counts == std::vector<std::int64_t>{2, 0, 1});
}

TEST_CASE("measure: without bounds everything is in one interval") {
  OwnedGradients gradients;
  gradients.add("w", {-2, std::numeric_limits<float>::quiet_NaN(), 3}, {3});
  gradients.add("empty", {}, {0, 3});
  const auto result = measure(gradients.views(), options_of(Level::kL2));
  CHECK(result[0].summary.interval_counts == std::vector<std::int64_t>{3});
  CHECK(result[1].summary.interval_counts == std::vector<std::int64_t>{0});
}

TEST_CASE("measure: bounds that are the same float32 leave an empty interval between them") {
  OwnedGradients gradients;
  gradients.add("w", {0.5, 1, 2, 5}, {4});
  const auto result =
      measure(gradients.views(),
              options_of(Level::kL2, {{1.0, "1.0"}, {1.0 + 1e-12, "x"}, {1.0 + 2e-12, "y"}, {3, "3"}}));
  CHECK(result[0].summary.interval_counts == std::vector<std::int64_t>{2, 0, 0, 1, 1});
}

TEST_CASE("measure: a column-major gradient keeps its order of signs at L1, its checksum is of C order") {
  // Memory 1 -2 3 -4 5 -6, seen as the transpose [[1, 3, 5], [-2, -4, -6]].
  OwnedGradients gradients;
  gradients.add("t", {1, -2, 3, -4, 5, -6}, {2, 3}, {1, 2});
  gradients.add("c", {1, 3, 5, -2, -4, -6}, {2, 3});
  const auto l1 = measure(gradients.views(), options_of(Level::kL1));
  CHECK(l1[0].fortran_order);
  CHECK(l1[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK(l1[0].signs == std::vector<std::uint8_t>{0b010101});
  CHECK_FALSE(l1[1].fortran_order);
  CHECK(l1[1].signs == std::vector<std::uint8_t>{0b000111});

  const auto l0 = measure(gradients.views(), options_of(Level::kL0));
  CHECK(l0[0].summary.crc32 == l0[1].summary.crc32);
}

TEST_CASE("measure: other strides give C order; a vector, a scalar and an empty tensor are C order") {
  OwnedGradients gradients;
  gradients.add("every second", {1, 9, -2, 9, 3, 9}, {3}, {2});
  gradients.add("expanded", {5}, {2, 2}, {0, 0});
  gradients.add("scalar", {-1}, {});
  gradients.add("empty", {}, {0, 4}, {1, 1});
  gradients.add("column", {1, 2, 3}, {3, 1}, {1, 3});
  const auto result = measure(gradients.views(), options_of(Level::kL1));
  for (const Measurement& m : result) CHECK_FALSE(m.fortran_order);
  CHECK(result[0].signs == std::vector<std::uint8_t>{0b101});
  CHECK(result[1].signs == std::vector<std::uint8_t>{0b1111});
  CHECK(result[2].signs == std::vector<std::uint8_t>{0});
  CHECK(result[3].signs.empty());
  CHECK_FALSE(result[3].summary.max.has_value());
}

TEST_CASE("measure: complex gradients are left out with one warning that names them") {
  OwnedGradients gradients;
  gradients.add("a", {1}, {1});
  gradients.add_bytes("spectrum", std::vector<std::uint8_t>(16), DType::kComplex64, {2});
  gradients.add("b", {2}, {1});
  for (const Level level : {Level::kL0, Level::kL1, Level::kL2}) {
    const test::LogCapture log;
    const auto result = measure(gradients.views(), options_of(level, {{0, "0"}}));
    REQUIRE(result.size() == 2);
    CHECK(result[0].name == "a");
    CHECK(result[1].name == "b");
    CHECK(result[1].summary.max == 2.0);
    REQUIRE(log.messages().size() == 1);
    CHECK(log.levels()[0] == LogLevel::kWarning);
    CHECK(log.messages()[0].find("\"spectrum\" is complex64") != std::string::npos);
  }
}

TEST_CASE("measure: integers have signs and intervals") {
  OwnedGradients gradients;
  gradients.add_bytes("i", {0x01, 0x00, 0xFF, 0xFF, 0x00, 0x00}, DType::kInt16, {3});
  const auto result = measure(gradients.views(), options_of(Level::kL2, {{0, "0"}}));
  CHECK(result[0].signs == std::vector<std::uint8_t>{0b001});
  CHECK(result[0].summary.interval_counts == std::vector<std::int64_t>{2, 1});
}

TEST_CASE("measure: the same result with and without threads") {
  const OwnedGradients gradients = some_gradients(7, 200001, 5);
  ThreadPool pool(3);
  const Options options = options_of(Level::kL2, {{-1, "-1"}, {0, "0"}, {1, "1"}});
  const auto alone = measure(gradients.views(), options);
  const auto shared = measure(gradients.views(), options, &pool);
  REQUIRE(alone.size() == shared.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK((alone[i].signs == shared[i].signs));
    CHECK(alone[i].summary.norm == shared[i].summary.norm);
    CHECK(alone[i].summary.interval_counts == shared[i].summary.interval_counts);
  }
}

TEST_CASE("measure: nothing of the rows whose memory is used again is left") {
  OwnedGradients gradients = some_gradients(4, 3001, 5);
  gradients.add("columns", {1, 2, 3, 4, 5, -6}, {2, 3}, {1, 2});
  gradients.add("empty", {}, {0});
  for (const Level level : {Level::kL0, Level::kL1, Level::kL2}) {
    const Options options = options_of(level, {{-1, "-1"}, {1, "1"}});
    const auto wanted = measure(gradients.views(), options);
    // Fewer, as many and more than needed; of another level, with other sizes, everything set.
    for (const std::size_t rows : {2U, 6U, 9U}) {
      std::vector<Measurement> used(rows);
      for (std::size_t i = 0; i < rows; ++i) {
        used[i].name = "old";
        used[i].shape = {7, 7, 7};
        used[i].fortran_order = true;
        used[i].signs.assign(i * 300, 0xFF);
        used[i].summary.crc32 = 1;
        used[i].summary.interval_counts = {1, 2, 3, 4, 5, 6};
      }
      const auto found = measure(gradients.views(), options, nullptr, std::move(used));
      REQUIRE(found.size() == wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        INFO(wanted[i].name);
        CHECK(found[i].name == wanted[i].name);
        CHECK(found[i].shape == wanted[i].shape);
        CHECK(found[i].fortran_order == wanted[i].fortran_order);
        CHECK((found[i].signs == wanted[i].signs));
        CHECK(found[i].summary.crc32 == wanted[i].summary.crc32);
        CHECK(found[i].summary.interval_counts == wanted[i].summary.interval_counts);
      }
    }
  }
}

}  // namespace
}  // namespace msprobe::grad_probe
