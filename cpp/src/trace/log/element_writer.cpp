// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "msprobe/trace.h"
#include "trace/log/encoding.h"

namespace msprobe::trace {
namespace {

void put_tag(std::string& out, Tag tag) { out.push_back(static_cast<char>(tag)); }

// The beginning of a value that names its type.
void put_typed(std::string& out, Tag tag, std::string_view type) {
  put_tag(out, tag);
  put_text(out, type);
}

std::uint32_t saturated(std::int64_t count) {
  return static_cast<std::uint32_t>(std::min<std::int64_t>(count, 0xffffffff));
}

void put_statistics(std::string& out, const Statistics& s) {
  put(out, static_cast<std::uint8_t>(s.form));
  switch (s.form) {
    case Statistics::Form::kNone: break;
    case Statistics::Form::kFloats:
      for (const double value : {s.max, s.min, s.mean, s.norm}) put(out, static_cast<float>(value));
      break;
    case Statistics::Form::kDoubles:
    case Statistics::Form::kNoNorm:
      for (const double value : {s.max, s.min, s.mean, s.norm}) put(out, value);
      break;
    case Statistics::Form::kBool:
      put(out, static_cast<std::uint8_t>((s.max != 0 ? 1 : 0) | (s.min != 0 ? 2 : 0)));
      break;
    case Statistics::Form::kInteger:
    case Statistics::Form::kUnsigned: put(out, s.integer); break;
  }
}

}  // namespace

void ElementWriter::null() { put_tag(bytes_, Tag::kNull); }

void ElementWriter::boolean(bool value) { put_tag(bytes_, value ? Tag::kTrue : Tag::kFalse); }

void ElementWriter::integer(std::int64_t value) {
  put_tag(bytes_, Tag::kInteger);
  put(bytes_, value);
}

void ElementWriter::big_integer(std::string_view digits) {
  put_tag(bytes_, Tag::kBigInteger);
  put_text(bytes_, digits);
}

void ElementWriter::real(double value) {
  put_tag(bytes_, Tag::kReal);
  put(bytes_, value);
}

void ElementWriter::text(std::string_view value) {
  put_tag(bytes_, Tag::kText);
  put_text(bytes_, value);
}

void ElementWriter::complex(double real, double imaginary) {
  put_tag(bytes_, Tag::kComplex);
  put(bytes_, real);
  put(bytes_, imaginary);
}

void ElementWriter::tensor(const TensorElement& element) {
  const Statistics& s = element.statistics;
  const bool wide = std::any_of(element.shape.begin(), element.shape.end(), [](std::int64_t extent) {
    return extent < 0 || extent > std::int64_t{0xffffffff};
  });
  const bool non_finite = s.nan_count > 0 || s.inf_count > 0;
  if (non_finite) worst_ = std::max(worst_, s.nan_count > 0 ? Badness::kNan : Badness::kInfinite);
  put_tag(bytes_, Tag::kTensor);
  put(bytes_,
      element.dtype && element.numpy_type.empty() ? static_cast<std::uint8_t>(*element.dtype) : kOtherDtype);
  put(bytes_, static_cast<std::uint8_t>(
                  (element.requires_grad ? kRequiresGrad : 0) | (wide ? kWideShape : 0) |
                  (s.checksum ? kHasChecksum : 0) | (element.data_name.empty() ? 0 : kHasDataName) |
                  (non_finite ? kNonFinite : 0) | (element.numpy_type.empty() ? 0 : kNumpy) |
                  (element.placement.empty() ? 0 : kHasPlacement) | (s.sketch.empty() ? 0 : kHasSketch)));
  put(bytes_, static_cast<std::uint8_t>(element.shape.size()));
  if (!element.numpy_type.empty()) {
    put_text(bytes_, element.numpy_type);
  } else if (!element.dtype) {
    put_text(bytes_, element.dtype_text);
  }
  for (const std::int64_t extent : element.shape) {
    if (wide) {
      put(bytes_, extent);
    } else {
      put(bytes_, static_cast<std::uint32_t>(extent));
    }
  }
  put_statistics(bytes_, s);
  if (non_finite) {
    put(bytes_, saturated(s.nan_count));
    put(bytes_, saturated(s.inf_count));
  }
  if (!s.sketch.empty()) {
    put(bytes_, static_cast<std::uint8_t>(s.sketch.size()));
    bytes_ += s.sketch;
  }
  if (s.checksum) put(bytes_, *s.checksum);
  if (!element.data_name.empty()) put_text(bytes_, element.data_name);
  bytes_ += element.placement;
}

void ElementWriter::typed_text(std::string_view type, std::string_view value) {
  put_typed(bytes_, Tag::kTypedText, type);
  put_text(bytes_, value);
}

void ElementWriter::typed_real(std::string_view type, double value) {
  put_typed(bytes_, Tag::kTypedReal, type);
  put(bytes_, value);
}

void ElementWriter::typed_integer(std::string_view type, std::int64_t value) {
  put_typed(bytes_, Tag::kTypedInteger, type);
  put(bytes_, value);
}

void ElementWriter::typed_boolean(std::string_view type, bool value) {
  put_typed(bytes_, Tag::kTypedBoolean, type);
  put(bytes_, static_cast<std::uint8_t>(value));
}

void ElementWriter::slice(const std::optional<std::int64_t> (&parts)[3]) {
  put_tag(bytes_, Tag::kSlice);
  for (const auto& part : parts) {
    put(bytes_, static_cast<std::uint8_t>(part.has_value()));
    put(bytes_, part.value_or(0));
  }
}

void ElementWriter::size(std::span<const std::int64_t> extents) {
  put_tag(bytes_, Tag::kSize);
  put(bytes_, static_cast<std::uint32_t>(extents.size()));
  for (const std::int64_t extent : extents) put(bytes_, extent);
}

void ElementWriter::plain_text(std::string_view value) {
  put_tag(bytes_, Tag::kPlainText);
  put_text(bytes_, value);
}

void ElementWriter::plain_integer(std::int64_t value) {
  put_tag(bytes_, Tag::kPlainInteger);
  put(bytes_, value);
}

void ElementWriter::begin_list() { put_tag(bytes_, Tag::kList); }

void ElementWriter::begin_object() { put_tag(bytes_, Tag::kObject); }

void ElementWriter::key(std::string_view name) {
  put_tag(bytes_, Tag::kKey);
  put_text(bytes_, name);
}

void ElementWriter::end() { put_tag(bytes_, Tag::kEnd); }

void ElementWriter::slot(SlotId id) {
  put_tag(bytes_, Tag::kSlot);
  put(bytes_, id);
}

}  // namespace msprobe::trace
