// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/tensor.h"

#include <torch/version.h>

#include <string>

#include "msprobe/error.h"
#include "msprobe/torch.h"
#include "msprobe/torch_capture.h"
#include "msprobe/torch_versions.h"
#include "torch/device_meters.h"

namespace msprobe::torch_adapter {

std::optional<DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::ScalarType::Double: return DType::kFloat64;
    case at::ScalarType::Float: return DType::kFloat32;
    case at::ScalarType::Half: return DType::kFloat16;
    case at::ScalarType::BFloat16: return DType::kBFloat16;
    case at::ScalarType::Float8_e4m3fn: return DType::kFloat8E4M3FN;
    case at::ScalarType::Float8_e5m2: return DType::kFloat8E5M2;
    case at::ScalarType::Long: return DType::kInt64;
    case at::ScalarType::Int: return DType::kInt32;
    case at::ScalarType::Short: return DType::kInt16;
    case at::ScalarType::Char: return DType::kInt8;
    case at::ScalarType::Byte: return DType::kUInt8;
    case at::ScalarType::Bool: return DType::kBool;
    case at::ScalarType::ComplexHalf: return DType::kComplex32;
    case at::ScalarType::ComplexFloat: return DType::kComplex64;
    case at::ScalarType::ComplexDouble: return DType::kComplex128;
    default: return newer_dtype_of(type);
  }
}

at::ScalarType scalar_type_of(DType dtype) {
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<at::ScalarType>(i);
    if (dtype_of(type) == dtype) return type;
  }
  throw UnsupportedError("torch " TORCH_VERSION " has no dtype " + std::string(dtype_name(dtype)));
}

std::string why_unreadable(const at::Tensor& tensor) {
  if (!tensor.defined()) return "is undefined";
  if (tensor.is_nested()) return "is nested";
  if (tensor.layout() != at::kStrided) return "is sparse";
  if (tensor.is_quantized() || !dtype_of(tensor.scalar_type())) {
    return std::string("has the dtype ") + c10::toString(tensor.scalar_type());
  }
  if (runs_in_python(tensor)) {
    return "is a tensor subclass without memory of its own";
  }
  if (tensor.is_meta()) return "is on the meta device";
  if (!tensor.has_storage()) return "has no memory of its own";
  if (tensor.numel() > 0) {
    try {
      if (tensor.const_data_ptr() == nullptr) return "is a tensor subclass without memory of its own";
    } catch (const c10::Error&) {
      return "is a tensor subclass without memory of its own";
    }
  }
  if (is_captured(tensor.device())) return "is captured into a CUDA graph";
  return "";
}

at::Tensor resolved(const at::Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) return tensor;
  return tensor.detach().resolve_conj().resolve_neg();
}

TensorView view_of(const at::Tensor& tensor) {
  if (const std::string reason = why_unreadable(tensor); !reason.empty()) {
    throw UnsupportedError("expected a tensor in memory, found one that " + reason);
  }
  if (!tensor.is_cpu()) {
    throw UnsupportedError("expected a tensor on the CPU, found one on " + tensor.device().str());
  }
  if (tensor.is_conj() || tensor.is_neg()) {
    throw UnsupportedError("expected a plain tensor, found a conjugated or negated view");
  }
  return view_of_plain(tensor);
}

TensorView view_of_plain(const at::Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  return {tensor.numel() > 0 ? tensor.const_data_ptr() : nullptr,
          *dtype_of(tensor.scalar_type()),
          {sizes.data(), sizes.size()},
          {strides.data(), strides.size()}};
}

stats::Summary summarize(const at::Tensor& tensor, const stats::SummaryOptions& options, ThreadPool* pool) {
  if (const std::string reason = why_unreadable(tensor); !reason.empty()) {
    throw UnsupportedError("summarize: the tensor " + reason);
  }
  const at::Tensor plain = resolved(tensor);
  if (!is_elsewhere(plain)) return stats::summarize(view_of(plain), options, pool);
  return summarize_on_device({{plain, options}}).front();
}

}  // namespace msprobe::torch_adapter
