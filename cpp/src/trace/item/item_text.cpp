// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/item/item_text.h"

#include "base/crc32.h"
#include "base/crc32_text.h"
#include "trace/item/type_name.h"

namespace msprobe::trace {
namespace {

// Types that are shown by their own name; of all others the class of the value that JSON gives is shown.
bool has_own_name(std::string_view type) {
  return type == "slice" || type == "ellipsis" || is_size_type(type) || is_process_group_type(type);
}

// The value as the tables know it: of a memory format they show nothing.
Scalar shown_value(const Trace& trace, const Item& item) {
  return is_memory_format_type(trace.text(item.type)) ? Scalar() : item.value;
}

}  // namespace

std::string_view dtype_text(const Trace& trace, const Item& item) {
  if (item.kind == Item::Kind::kTensor) return trace.text(item.dtype);
  if (item.kind == Item::Kind::kNull) return "None";
  if (const std::string_view type = trace.text(item.type); has_own_name(type)) return type;
  switch (shown_value(trace, item).kind) {
    case Scalar::Kind::kBool: return "<class 'bool'>";
    case Scalar::Kind::kInteger: return "<class 'int'>";
    case Scalar::Kind::kFloat: return "<class 'float'>";
    case Scalar::Kind::kText: return "<class 'str'>";
    case Scalar::Kind::kComposite: return "<class 'list'>";
    default: return "<class 'NoneType'>";
  }
}

std::string_view shape_text(const Trace& trace, const Item& item) {
  if (item.kind == Item::Kind::kTensor) return trace.text(item.shape);
  if (item.kind == Item::Kind::kNull) return "None";
  const std::string_view type = trace.text(item.type);
  if (is_size_type(type)) return trace.text(item.value);
  return type == "slice" ? "(3,)" : "[]";
}

std::array<Scalar, 4> statistics_of(const Trace& trace, const Item& item) {
  if (item.kind == Item::Kind::kTensor) return {item.max, item.min, item.mean, item.norm};
  const std::string_view type = trace.text(item.type);
  if (item.kind == Item::Kind::kNull || is_size_type(type) || type == "slice") return {};
  const Scalar value = shown_value(trace, item);
  return {value, value, value, value};
}

std::string md5_text(const Trace& trace, const Item& item) {
  if (item.md5.length > 0) return std::string(trace.text(item.md5));
  if (item.kind == Item::Kind::kNull) return {};
  std::string_view text = trace.text(shown_value(trace, item));
  if (item.value.kind == Scalar::Kind::kFloat) {
    if (text == "NaN") text = "nan";
    if (text == "Infinity") text = "inf";
    if (text == "-Infinity") text = "-inf";
  }
  return crc32_text(crc32(0, text.data(), text.size()));
}

}  // namespace msprobe::trace
