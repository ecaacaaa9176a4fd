// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A tensor as the library knows it: memory, a type and a shape.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "msprobe/export.h"

namespace msprobe {

// ---- types of elements

/// Element types, named as torch names them; floating point first, complex last. fp8 kinds follow the OCP
/// 8-bit floating point specification (e4m3fn, e5m2, e8m0fnu) and the "fnuz" variants of arXiv:2206.02915 (no
/// negative zero, one NaN at 0x80).
enum class DType : std::uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
  kComplex32,   // two float16
  kComplex64,   // two float32
  kComplex128,  // two float64
};

inline constexpr int kDTypeCount = 21;

/// Bytes of one element.
constexpr std::size_t element_size(DType dtype) noexcept {
  switch (dtype) {
    case DType::kComplex128: return 16;
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kUInt64:
    case DType::kComplex64: return 8;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kUInt32:
    case DType::kComplex32: return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
    case DType::kUInt16: return 2;
    default: return 1;
  }
}

/// The name in lower case, e.g. "bfloat16", "float8_e4m3fn".
MSPROBE_API std::string_view dtype_name(DType dtype) noexcept;

/// The same as some frameworks write it: "BFloat16", "Float8E4M3FN".
MSPROBE_API std::string_view capitalised_dtype_name(DType dtype) noexcept;

/// The dtype with this name, nullopt where there is none.
MSPROBE_API std::optional<DType> dtype_named(std::string_view name) noexcept;

/// The dtype that a text names as frameworks write it: "torch.float32", "Float32", "float8_e4m3fn", "half".
MSPROBE_API std::optional<DType> dtype_in_text(std::string_view text) noexcept;

/// Real floating point, fp8 included.
constexpr bool is_floating(DType dtype) noexcept { return dtype <= DType::kFloat8E8M0FNU; }
constexpr bool is_complex(DType dtype) noexcept { return dtype >= DType::kComplex32; }

// ---- views

/// Borrowed memory with a type and a shape. Owns nothing, not even `shape` and `strides`; never outlives the
/// call it was passed to.
struct TensorView {
  const void* data = nullptr;  // of element [0, 0, ...]; may be null when the tensor is empty
  DType dtype = DType::kFloat32;
  std::span<const std::int64_t> shape;    // empty for a 0-d tensor, which has one element
  std::span<const std::int64_t> strides;  // in elements, may be 0 or negative; empty means C-contiguous
};

/// Product of the shape; 1 for a 0-d tensor. Throws InvalidArgument for a negative extent or a product above
/// 2^63-1.
MSPROBE_API std::int64_t element_count(const TensorView& view);

/// Row-major without gaps. Extents of 1 do not matter; an empty tensor is contiguous.
MSPROBE_API bool is_c_contiguous(const TensorView& view) noexcept;

/// Column-major without gaps (the transpose is C-contiguous).
MSPROBE_API bool is_fortran_contiguous(const TensorView& view) noexcept;

}  // namespace msprobe
