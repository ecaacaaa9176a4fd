// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/pieces.h"

#include <numeric>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {
namespace {

// 0, 1, 2, ... in a shape.
class Numbers {
 public:
  explicit Numbers(Shape shape)
      : shape_(std::move(shape)), values_(static_cast<std::size_t>(count_of(shape_))) {
    std::iota(values_.begin(), values_.end(), 0);
  }
  Parameter parameter() const { return whole("x", {values_.data(), DType::kInt32, shape_, {}}); }

 private:
  Shape shape_;
  std::vector<std::int32_t> values_;
};

// The elements in C order.
std::vector<std::int32_t> elements(const Parameter& parameter) {
  std::vector<std::int32_t> found(static_cast<std::size_t>(count_of(parameter.shape)), -1);
  for (const Piece& piece : parameter.pieces) {
    Shape index(piece.shape.size(), 0);
    for (std::int64_t n = count_of(piece.shape); n-- > 0;) {
      std::int64_t to = 0;
      std::int64_t from = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        to = to * parameter.shape[d] + piece.offset[d] + index[d];
        from += index[d] * piece.strides[d];
      }
      found[static_cast<std::size_t>(to)] = reinterpret_cast<const std::int32_t*>(piece.data)[from];
      for (std::size_t d = index.size(); d-- > 0;) {
        if (++index[d] < piece.shape[d]) break;
        index[d] = 0;
      }
    }
  }
  return found;
}

using Values = std::vector<std::int32_t>;

TEST_CASE("pieces: slices, joins and transposes are views of the same elements") {
  const Numbers numbers({3, 4});
  const Parameter all = numbers.parameter();
  CHECK(elements(slice(all, 0, 1, 3)) == Values{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(elements(slice(all, 1, 1, 3)) == Values{1, 2, 5, 6, 9, 10});
  CHECK(elements(slice(all, 0, 1, 1)).empty());
  CHECK(elements(transposed(all)) == Values{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(elements(select(all, 2)) == Values{8, 9, 10, 11});
  CHECK(elements(reshaped(all, {2, 6})) == elements(all));
  const std::vector<Parameter> columns{slice(all, 1, 2, 4), slice(all, 1, 0, 2)};
  const Parameter swapped = joined(columns, 1);
  CHECK(swapped.shape == Shape{3, 4});
  CHECK(elements(swapped) == Values{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9});
  CHECK(tiling_problem(swapped).empty());
  CHECK(elements(slice(swapped, 1, 1, 3)) == Values{3, 0, 7, 4, 11, 8});
  CHECK_THROWS_AS(reshaped(swapped, {12}), InvalidArgument);
  CHECK_THROWS_AS(reshaped(all, {13}), InvalidArgument);
  CHECK_THROWS_AS(slice(all, 0, 2, 4), InvalidArgument);
  CHECK_THROWS_AS(slice(all, 2, 0, 1), InvalidArgument);
  CHECK_THROWS_AS(joined(std::vector<Parameter>{all, transposed(all)}, 0), InvalidArgument);
  CHECK_THROWS_AS(joined(std::vector<Parameter>{}, 0), InvalidArgument);
}

TEST_CASE("pieces: gaps and overlaps are found") {
  const Numbers numbers({4, 4});
  Parameter parameter = joined(
      std::vector<Parameter>{slice(numbers.parameter(), 0, 0, 2), slice(numbers.parameter(), 0, 2, 4)}, 0);
  CHECK(tiling_problem(parameter).empty());
  Parameter gap = parameter;
  gap.pieces.pop_back();
  CHECK(tiling_problem(gap) == "its parts hold 8 of 16 elements");
  Parameter overlap = parameter;
  overlap.pieces[1].offset[0] = 1;
  CHECK(tiling_problem(overlap) == "two parts hold the elements at [1, 0]");
  Parameter outside = parameter;
  outside.pieces[1].offset[0] = 3;
  CHECK_THAT(tiling_problem(outside), Catch::Matchers::Contains("lies outside of the shape [4, 4]"));
}

TEST_CASE("pieces: overlaps of two layouts are the whole, each element once") {
  const Numbers numbers({6, 8});
  const Parameter all = numbers.parameter();
  const auto part = [&](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
    return slice(slice(all, 0, r0, r1), 1, c0, c1);
  };
  const Parameter reference = joined(std::vector<Parameter>{part(0, 2, 0, 8), part(2, 6, 0, 8)}, 0);
  const Parameter target =
      joined(std::vector<Parameter>{part(0, 6, 0, 3), part(0, 6, 3, 4), part(0, 6, 4, 8)}, 1);
  std::int64_t count = 0;
  for_overlaps(reference, target, [&](const Overlap& overlap) {
    REQUIRE(overlap.reference.shape == overlap.target.shape);
    CHECK(overlap.reference.data == overlap.target.data);  // both are views of one tensor
    count += count_of(overlap.reference.shape);
  });
  CHECK(count == 48);
}

TEST_CASE("pieces: a tensor without dimensions") {
  const std::int32_t value = 7;
  const Parameter scalar = whole("s", {&value, DType::kInt32, {}, {}});
  CHECK(elements(scalar) == Values{7});
  CHECK(tiling_problem(scalar).empty());
  std::int64_t count = 0;
  for_overlaps(scalar, scalar, [&](const Overlap&) { ++count; });
  CHECK(count == 1);
}

}  // namespace
}  // namespace msprobe::checkpoint
