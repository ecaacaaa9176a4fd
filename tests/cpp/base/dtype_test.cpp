// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "catch.h"
#include "msprobe/tensor_view.h"

using namespace msprobe;

TEST_CASE("dtypes: each is known by both of its names, alone and behind a package") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const std::string_view name : {dtype_name(dtype), capitalised_dtype_name(dtype)}) {
      CAPTURE(name);
      CHECK(dtype_in_text(name) == dtype);
      CHECK(dtype_in_text("torch." + std::string(name)) == dtype);
    }
    CHECK(dtype_named(dtype_name(dtype)) == dtype);
  }
  CHECK(dtype_in_text("torch.half") == DType::kFloat16);
  CHECK(dtype_in_text("float") == DType::kFloat32);
  CHECK(dtype_in_text("double") == DType::kFloat64);
}

TEST_CASE("dtypes: other texts name none") {
  for (const std::string_view text :
       {"", ".", "_", "torch.", "torch", "float3", "float322", "32", "<class 'int'>", "torch.quint8",
        "torch.float32.x", "float 32", "torch_npu.HiFloat8Tensor"}) {
    CAPTURE(text);
    CHECK(dtype_in_text(text) == std::nullopt);
  }
}
