// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/dtype.h"

#include <array>

namespace msprobe {
namespace {

struct Properties {
  std::string_view name;
  std::uint8_t size;
  bool floating;
  bool complex;
};

// In the order of the enumeration.
constexpr std::array<Properties, kDTypeCount> kProperties{{
    {"float64", 8, true, false},     {"float32", 4, true, false},         {"float16", 2, true, false},
    {"bfloat16", 2, true, false},    {"float8_e4m3fn", 1, true, false},   {"float8_e4m3fnuz", 1, true, false},
    {"float8_e5m2", 1, true, false}, {"float8_e5m2fnuz", 1, true, false}, {"float8_e8m0fnu", 1, true, false},
    {"int64", 8, false, false},      {"int32", 4, false, false},          {"int16", 2, false, false},
    {"int8", 1, false, false},       {"uint64", 8, false, false},         {"uint32", 4, false, false},
    {"uint16", 2, false, false},     {"uint8", 1, false, false},          {"bool", 1, false, false},
    {"complex32", 4, false, true},   {"complex64", 8, false, true},       {"complex128", 16, false, true},
}};

const Properties& properties(DType dtype) noexcept { return kProperties[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t element_size(DType dtype) noexcept { return properties(dtype).size; }
std::string_view dtype_name(DType dtype) noexcept { return properties(dtype).name; }
bool is_floating(DType dtype) noexcept { return properties(dtype).floating; }
bool is_complex(DType dtype) noexcept { return properties(dtype).complex; }

}  // namespace msprobe
