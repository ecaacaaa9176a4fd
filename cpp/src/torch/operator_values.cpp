// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/operator_values.h"

#include <ATen/core/Dict.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>

#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

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

bool put_enumeration(trace::ElementWriter& out, const c10::IValue& value, const c10::Type& type) {
  if (value.isDevice()) {
    out.typed_text("torch.device", device_text(value.toDevice()));
    return true;
  }
  if (!value.isInt()) return false;
  switch (type.kind()) {
    case c10::TypeKind::ScalarTypeType:
      out.typed_text("torch.dtype", dtype_text(value.toScalarType()));
      return true;
    case c10::TypeKind::LayoutType:
      out.typed_text("torch.layout", layout_text(value.toLayout()));
      return true;
    case c10::TypeKind::MemoryFormatType:
      out.typed_text("torch.memory_format", memory_format_text(value.toMemoryFormat()));
      return true;
    default: return false;
  }
}

bool put_plain(trace::ElementWriter& out, const c10::IValue& value) {
  if (value.isBool()) {
    out.boolean(value.toBool());
  } else if (value.isInt()) {
    out.integer(value.toInt());
  } else if (value.isUnsigned()) {
    out.big_integer(std::to_string(value.toUInt()));
  } else if (value.isDouble()) {
    out.real(value.toDouble());
  } else if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    out.complex(number.real(), number.imag());
  } else if (value.isString()) {
    out.text(value.toStringRef());
  } else {
    return false;
  }
  return true;
}

}  // namespace

void OperatorValues::arguments(dump::ValueWriter& to) {
  const c10::IValue nothing;
  for (std::size_t i = 0; i < std::min(given_.size(), schema_.arguments().size()); ++i) {
    const c10::Argument& argument = schema_.arguments()[i];
    if (argument.kwarg_only() && !backward_) continue;
    to.item(i, [&] { put(to, argument.is_out() ? nothing : given_[i], *argument.real_type()); });
  }
}

void OperatorValues::keywords(dump::ValueWriter& to) {
  const c10::IValue nothing;
  for (std::size_t i = 0; i < std::min(given_.size(), schema_.arguments().size()); ++i) {
    const c10::Argument& argument = schema_.arguments()[i];
    if (!argument.kwarg_only()) continue;
    to.member(argument.name(),
              [&] { put(to, argument.is_out() ? nothing : given_[i], *argument.real_type()); });
  }
}

void OperatorValues::results(dump::ValueWriter& to) {
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const c10::Type& type =
        i < schema_.returns().size() ? *schema_.returns()[i].real_type() : *c10::AnyType::get();
    to.item(i, [&] { put(to, given_[i], type); });
  }
}

void OperatorValues::put(dump::ValueWriter& to, const c10::IValue& value, const c10::Type& type) {
  trace::ElementWriter& out = to.out();
  if (value.isNone()) return out.null();
  if (type.kind() == c10::TypeKind::OptionalType) return put(to, value, element_type(type));
  if (value.isTensor()) return describer_.describe(to, value.toTensor());
  if (put_enumeration(out, value, type) || put_plain(out, value)) return;
  const auto put_list = [&](c10::ArrayRef<c10::IValue> values, const c10::Type& of_each) {
    to.list(values.size(), [&](std::size_t i) { put(to, values[i], of_each); });
  };
  if (value.isList()) return put_list(value.toListRef(), element_type(type));
  if (value.isTuple()) return put_list(value.toTupleRef().elements(), type);
  if (!value.isGenericDict()) return out.null();  // generators, streams, process groups
  to.object([&] {
    for (const auto& entry : value.toGenericDict()) {
      const std::string key = entry.key().isString() ? entry.key().toStringRef() : c10::str(entry.key());
      to.member(key, [&] { put(to, entry.value(), type); });
    }
  });
}

}  // namespace msprobe::torch_adapter
