// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "msprobe/tensor_view.h"

namespace msprobe {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, kDTypeCount> kNames{
    "float64",     "float32",         "float16",        "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int64",    "int32",         "int16",
    "int8",        "uint64",          "uint32",         "uint16",   "uint8",         "bool",
    "complex32",   "complex64",       "complex128"};

constexpr std::array<std::string_view, kDTypeCount> kCapitalisedNames{
    "Float64",        "Float32",       "Float16", "BFloat16", "Float8E4M3FN", "Float8E4M3FNUZ", "Float8E5M2",
    "Float8E5M2FNUZ", "Float8E8M0FNU", "Int64",   "Int32",    "Int16",        "Int8",           "UInt64",
    "UInt32",         "UInt16",        "UInt8",   "Bool",     "Complex32",    "Complex64",      "Complex128"};

// What else floating point types are called.
constexpr std::array<std::pair<std::string_view, DType>, 3> kOtherNames{
    {{"double", DType::kFloat64}, {"float", DType::kFloat32}, {"half", DType::kFloat16}}};

// Of a name in any case, with underscores or without: the next character that counts, 0 at the end.
char next_of(std::string_view& name) noexcept {
  while (name.starts_with('_')) name.remove_prefix(1);
  if (name.empty()) return 0;
  const char c = name.front();
  name.remove_prefix(1);
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_same(std::string_view a, std::string_view b) noexcept {
  for (;;) {
    const char next = next_of(a);
    if (next != next_of(b)) return false;
    if (next == 0) return true;
  }
}

}  // namespace

std::string_view dtype_name(DType dtype) noexcept { return kNames[static_cast<std::size_t>(dtype)]; }

std::string_view capitalised_dtype_name(DType dtype) noexcept {
  return kCapitalisedNames[static_cast<std::size_t>(dtype)];
}

std::optional<DType> dtype_named(std::string_view name) noexcept {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DType>(found - kNames.begin());
}

std::optional<DType> dtype_in_text(std::string_view text) noexcept {
  const std::string_view name = text.substr(text.rfind('.') + 1);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (is_same(kNames[i], name)) return static_cast<DType>(i);
  }
  for (const auto& [other, dtype] : kOtherNames) {
    if (is_same(other, name)) return dtype;
  }
  return std::nullopt;
}

}  // namespace msprobe
