// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/tensor_view.h"

#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"

using namespace msprobe;

namespace {

struct Shaped {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  TensorView view() const { return {nullptr, DType::kFloat32, shape, strides}; }
};

}  // namespace

TEST_CASE("element_count: product of the shape") {
  CHECK(element_count(Shaped{{}, {}}.view()) == 1);
  CHECK(element_count(Shaped{{3, 4}, {}}.view()) == 12);
  CHECK(element_count(Shaped{{std::int64_t{1} << 62, 8, 0}, {}}.view()) == 0);
  CHECK_THROWS_AS(element_count(Shaped{{-1}, {}}.view()), InvalidArgument);
  CHECK_THROWS_AS(element_count(Shaped{{std::int64_t{1} << 62, 2}, {}}.view()), InvalidArgument);
}

TEST_CASE("contiguity: row-major, column-major, both, neither") {
  struct Case {
    Shaped tensor;
    bool c;
    bool fortran;
  };
  const std::vector<Case> cases{
      {{{}, {}}, true, true},
      {{{5}, {1}}, true, true},
      {{{5}, {2}}, false, false},
      {{{3, 4}, {4, 1}}, true, false},
      {{{3, 4}, {1, 3}}, false, true},
      {{{3, 4}, {8, 1}}, false, false},
      {{{1, 4}, {99, 1}}, true, true},
      {{{3, 0}, {7, 7}}, true, true},
      {{{3, 4}, {}}, true, false},
      {{{1, 4, 1}, {}}, true, true},
      {{{2, 3, 4}, {1, 2, 6}}, false, true},
      {{{2, 2}, {0, 0}}, false, false},
  };
  for (const Case& c : cases) {
    CHECK(is_c_contiguous(c.tensor.view()) == c.c);
    CHECK(is_fortran_contiguous(c.tensor.view()) == c.fortran);
  }
}

TEST_CASE("dtypes: sizes and names") {
  CHECK(element_size(DType::kComplex128) == 16);
  CHECK(element_size(DType::kFloat8E5M2FNUZ) == 1);
  CHECK(dtype_name(DType::kBFloat16) == "bfloat16");
  CHECK(is_floating(DType::kFloat8E8M0FNU));
  CHECK_FALSE(is_floating(DType::kBool));
  CHECK(is_complex(DType::kComplex32));
}
