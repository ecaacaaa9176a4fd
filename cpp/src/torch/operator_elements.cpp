// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/operator_elements.h"

#include <ATen/core/Dict.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include "msprobe/error.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

constexpr int kDeepest = 50;  // of nested values, as the format says

std::string dtype_text(at::ScalarType type) {
  const auto known = dtype_of(type);
  return "torch." + (known ? std::string(dtype_name(*known)) : std::string(c10::toString(type)));
}

std::string_view memory_format_text(at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::Contiguous: return "contiguous_format";
    case at::MemoryFormat::Preserve: return "preserve_format";
    case at::MemoryFormat::ChannelsLast: return "channels_last";
    case at::MemoryFormat::ChannelsLast3d: return "channels_last_3d";
    default: return "unknown";
  }
}

std::string_view layout_text(at::Layout layout) {
  switch (layout) {
    case at::Layout::Strided: return "torch.strided";
    case at::Layout::Sparse: return "torch.sparse_coo";
    case at::Layout::SparseCsr: return "torch.sparse_csr";
    case at::Layout::SparseCsc: return "torch.sparse_csc";
    case at::Layout::SparseBsr: return "torch.sparse_bsr";
    case at::Layout::SparseBsc: return "torch.sparse_bsc";
    case at::Layout::Mkldnn: return "torch._mkldnn";
    default: return "unknown";
  }
}

// As the format writes a torch.device of Python.
std::string device_text(const at::Device& device) {
  return c10::DeviceTypeName(device.type(), /*lower_case=*/true) + ":" +
         (device.has_index() ? std::to_string(device.index()) : "None");
}

// What a list or an optional holds; the type itself for others.
const c10::Type& element_type(const c10::Type& type) {
  return type.containedTypes().size() == 1 ? *type.containedTypes()[0] : type;
}

}  // namespace

void OperatorElements::begin(std::string_view category) { position_.assign(category); }

void OperatorElements::push(std::string_view part) {
  if (!keeps_positions_) return;
  position_ += '.';
  position_ += part;
}

void OperatorElements::item(const c10::IValue& value, const c10::Type& type, std::size_t index) {
  const std::size_t size = position_.size();
  push(std::to_string(index));
  walk(value, type, 0);
  position_.resize(size);
}

void OperatorElements::keyed(std::string_view name, const c10::IValue& value, const c10::Type& type) {
  out_.key(name);
  const std::size_t size = position_.size();
  push(name);
  walk(value, type, 0);
  position_.resize(size);
}

void OperatorElements::walk(const c10::IValue& value, const c10::Type& type, int depth) {
  if (depth > kDeepest) throw UnsupportedError("values are nested more than 50 deep");
  if (value.isNone()) return out_.null();
  if (type.kind() == c10::TypeKind::OptionalType) return walk(value, element_type(type), depth);
  if (value.isTensor()) return describer_.describe(out_, value.toTensor(), record_, position_);
  if (walk_enumeration(value, type) || walk_number(value)) return;
  if (value.isList()) return walk_list(value.toListRef(), element_type(type), depth);
  if (value.isTuple()) return walk_list(value.toTupleRef().elements(), type, depth);
  if (value.isGenericDict()) return walk_dict(value, type, depth);
  out_.null();  // generators, streams, process groups
}

void OperatorElements::walk_list(c10::ArrayRef<c10::IValue> values, const c10::Type& type, int depth) {
  out_.begin_list();
  const std::size_t size = position_.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (keeps_positions_) push(std::to_string(i));
    walk(values[i], type, depth + 1);
    position_.resize(size);
  }
  out_.end();
}

void OperatorElements::walk_dict(const c10::IValue& value, const c10::Type& type, int depth) {
  out_.begin_object();
  const std::size_t size = position_.size();
  for (const auto& entry : value.toGenericDict()) {
    const std::string key = entry.key().isString() ? entry.key().toStringRef() : c10::str(entry.key());
    out_.key(key);
    push(key);
    walk(entry.value(), type, depth + 1);
    position_.resize(size);
  }
  out_.end();
}

bool OperatorElements::walk_enumeration(const c10::IValue& value, const c10::Type& type) {
  if (value.isDevice()) {
    out_.typed_text("torch.device", device_text(value.toDevice()));
    return true;
  }
  if (!value.isInt()) return false;
  switch (type.kind()) {
    case c10::TypeKind::ScalarTypeType:
      out_.typed_text("torch.dtype", dtype_text(value.toScalarType()));
      return true;
    case c10::TypeKind::LayoutType:
      out_.typed_text("torch.layout", layout_text(value.toLayout()));
      return true;
    case c10::TypeKind::MemoryFormatType:
      out_.typed_text("torch.memory_format", memory_format_text(value.toMemoryFormat()));
      return true;
    default: return false;
  }
}

bool OperatorElements::walk_number(const c10::IValue& value) {
  if (value.isBool()) {
    out_.boolean(value.toBool());
  } else if (value.isInt()) {
    out_.integer(value.toInt());
  } else if (value.isUnsigned()) {
    out_.big_integer(std::to_string(value.toUInt()));
  } else if (value.isDouble()) {
    out_.real(value.toDouble());
  } else if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    out_.complex(number.real(), number.imag());
  } else if (value.isString()) {
    out_.text(value.toStringRef());
  } else {
    return false;
  }
  return true;
}

}  // namespace msprobe::torch_adapter
