// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/pt/pt_names.h"

#include <algorithm>
#include <array>

namespace msprobe::io {
namespace {

struct StorageClass {
  DType dtype;
  std::string_view name;
};

constexpr std::array<StorageClass, 12> kStorageClasses{{
    {DType::kFloat64, "DoubleStorage"},
    {DType::kFloat32, "FloatStorage"},
    {DType::kFloat16, "HalfStorage"},
    {DType::kBFloat16, "BFloat16Storage"},
    {DType::kInt64, "LongStorage"},
    {DType::kInt32, "IntStorage"},
    {DType::kInt16, "ShortStorage"},
    {DType::kInt8, "CharStorage"},
    {DType::kUInt8, "ByteStorage"},
    {DType::kBool, "BoolStorage"},
    {DType::kComplex64, "ComplexFloatStorage"},
    {DType::kComplex128, "ComplexDoubleStorage"},
}};

}  // namespace

std::string_view storage_class(DType dtype) noexcept {
  const auto* const found = std::find_if(kStorageClasses.begin(), kStorageClasses.end(),
                                         [dtype](const StorageClass& row) { return row.dtype == dtype; });
  return found == kStorageClasses.end() ? std::string_view() : found->name;
}

std::optional<DType> dtype_of_storage_class(std::string_view name) noexcept {
  const auto* const found = std::find_if(kStorageClasses.begin(), kStorageClasses.end(),
                                         [name](const StorageClass& row) { return row.name == name; });
  if (found == kStorageClasses.end()) return std::nullopt;
  return found->dtype;
}

}  // namespace msprobe::io
