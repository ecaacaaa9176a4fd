// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "buffer.h"

#include "msprobe/error.h"

namespace {

using msprobe::DType;

// The dtype of a buffer by its struct format.
DType dtype_of(const py::buffer_info& info, const std::string& caller) {
  std::string format = info.format;
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.erase(0, 1);
  const bool wide = info.itemsize == 8;
  if (format == "d") return DType::kFloat64;
  if (format == "f") return DType::kFloat32;
  if (format == "e") return DType::kFloat16;
  if (format == "q" || (format == "l" && wide)) return DType::kInt64;
  if (format == "i" || (format == "l" && !wide)) return DType::kInt32;
  if (format == "h") return DType::kInt16;
  if (format == "b") return DType::kInt8;
  if (format == "Q" || (format == "L" && wide)) return DType::kUInt64;
  if (format == "I" || (format == "L" && !wide)) return DType::kUInt32;
  if (format == "H") return DType::kUInt16;
  if (format == "B") return DType::kUInt8;
  if (format == "?") return DType::kBool;
  if (format == "Zf") return DType::kComplex64;
  if (format == "Zd") return DType::kComplex128;
  throw msprobe::UnsupportedError(caller +
                                  ": expected a buffer of numbers in native byte order, found the format \"" +
                                  info.format + '"');
}

}  // namespace

std::optional<DType> dtype_named(const std::string& caller, const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const std::optional<DType> dtype = msprobe::dtype_named(*name);
  if (!dtype) throw msprobe::InvalidArgument(caller + ": there is no dtype \"" + *name + '"');
  return dtype;
}

BufferTensor::BufferTensor(const py::buffer& array, const std::string& caller, std::optional<DType> dtype)
    : info_(array.request()),
      dtype_(dtype_of(info_, caller)),
      shape_(info_.shape.begin(), info_.shape.end()) {
  for (const py::ssize_t bytes : info_.strides) {
    if (bytes % info_.itemsize != 0) {
      throw msprobe::UnsupportedError(caller +
                                      ": the strides of the buffer are not multiples of its item size");
    }
    strides_.push_back(bytes / info_.itemsize);
  }
  if (!dtype) return;
  if (msprobe::element_size(*dtype) != static_cast<std::size_t>(info_.itemsize)) {
    throw msprobe::InvalidArgument(caller + ": an element of " + std::string(msprobe::dtype_name(*dtype)) +
                                   " has " + std::to_string(msprobe::element_size(*dtype)) +
                                   " bytes, found a buffer with items of " + std::to_string(info_.itemsize));
  }
  dtype_ = *dtype;
}
