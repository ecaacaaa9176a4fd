// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/dtype.h"

#include <algorithm>
#include <array>

namespace msprobe {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, kDTypeCount> kNames{
    "float64",     "float32",         "float16",        "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int64",    "int32",         "int16",
    "int8",        "uint64",          "uint32",         "uint16",   "uint8",         "bool",
    "complex32",   "complex64",       "complex128"};

}  // namespace

std::string_view dtype_name(DType dtype) noexcept { return kNames[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_named(std::string_view name) noexcept {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DType>(found - kNames.begin());
}

}  // namespace msprobe
