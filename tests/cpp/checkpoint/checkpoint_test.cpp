// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The library without Python; layouts are tested in tests/python/checkpoint.
#include "msprobe/checkpoint.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "catch.h"
#include "msprobe/content_hash.h"
#include "msprobe/error.h"
#include "msprobe/pt_file.h"
#include "temp_dir.h"

namespace msprobe::checkpoint {
namespace {

using test::TempDir;

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST_CASE("measure: all metrics of two files, and shares that are the whole") {
  const TempDir dir;
  const Shape shape{1500, 1000};  // several chunks
  std::vector<float> values = numbers(1'500'000);
  io::write_pt(dir / "a.pt", {values.data(), DType::kFloat32, shape, {}});
  values[700'000] += 100'000;
  io::write_pt(dir / "b.pt", {values.data(), DType::kFloat32, shape, {}});
  const Checkpoint reference = Checkpoint::open(dir / "a.pt", {});
  const Checkpoint target = Checkpoint::open(dir / "b.pt", {});
  Pairing pairing = pair(reference, target, {});
  REQUIRE(pairing.rows.size() == 1);
  std::uint64_t told = 0;
  const auto progress = [&](std::uint64_t done, std::uint64_t total) {
    told = done;
    return total == 12'000'000;
  };
  CHECK(measure(reference, target, pairing, {.threads = 2, .hash = true, .progress = progress}).size() == 1);
  CHECK(told == 12'000'000);
  const Row& row = pairing.rows[0];
  CHECK(row.difference.count == 1'500'000);
  CHECK(row.difference.equal_bits == 1'499'999);
  CHECK(std::sqrt(row.difference.squared_distance) == 100'000);
  CHECK(row.reference_hash == hash_part(numbers(1'500'000).data(), 6'000'000, 0).text());
  CHECK_FALSE(row.reference_hash == row.target_hash);
  CHECK(hash_parameters(reference, {}) == std::vector<std::string>{row.reference_hash});
  Pairing again = pair(reference, target, {});
  CHECK(measure(reference, target, again, {.share = 1, .shares = 2}).empty());
  CHECK_THROWS_AS(measure(reference, target, again, {.share = 2, .shares = 2}), InvalidArgument);
  CHECK_THROWS_AS(measure(reference, target, again, {.progress = [](auto, auto) { return false; }}),
                  InvalidArgument);
}

TEST_CASE("Checkpoint: what is not there") {
  const TempDir dir;
  CHECK_THROWS_AS(Checkpoint::open(dir / "nothing", {}), IoError);
  CHECK_THROWS_AS(Checkpoint::open(dir.path(), {}), FormatError);
}

TEST_CASE("apply_mapping: rows are put together, and what is missing is told") {
  const TempDir dir;
  const std::vector<float> values = numbers(6);
  const Shape shape{2, 3};
  io::write_pt(dir / "a.pt", {values.data(), DType::kFloat32, shape, {}});
  Checkpoint checkpoint = Checkpoint::open(dir / "a.pt", {});
  const std::vector<MappingRule> turned{{.to = "new", .from = {"tensor"}, .transpose = true}};
  CHECK(apply_mapping(checkpoint, turned) == 1);
  REQUIRE(checkpoint.parameters().size() == 1);
  CHECK(checkpoint.parameters()[0].name == "new");
  CHECK(checkpoint.parameters()[0].shape == Shape{3, 2});
  const std::vector<MappingRule> missing{{.to = "x", .from = {"new", "other"}}};
  CHECK_THROWS_AS(apply_mapping(checkpoint, missing), InvalidArgument);
  const std::vector<MappingRule> none{{.to = "x", .from = {"other"}}};
  CHECK(apply_mapping(checkpoint, none) == 0);
}

}  // namespace
}  // namespace msprobe::checkpoint
