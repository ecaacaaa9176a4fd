// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/json/element_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/base64.h"
#include "base/crc32_text.h"
#include "msprobe/error.h"
#include "msprobe/table.h"
#include "trace/item/type_name.h"
#include "trace/json/json_text.h"
#include "trace/log/encoding.h"

namespace msprobe::trace {
namespace {

constexpr int kDeepest = 200;  // of element trees; recorders stop long before

class ElementFormatter {
 public:
  ElementFormatter(std::string_view bytes, int level, const Framework& framework, std::string& scratch)
      : bytes_(bytes), framework_(framework), scratch_(scratch), json_(scratch, level) {
    scratch_.clear();
  }

  ElementText list() {
    json_.begin_list();
    while (!bytes_.empty()) element(0);
    json_.end_list();
    return finish();
  }

  ElementText single() {
    element(0);
    if (!bytes_.empty()) throw FormatError("trace log", "", "expected one element, found more");
    return finish();
  }

 private:
  ElementText finish() { return {scratch_, std::move(holes_), tensors_}; }

  void typed(std::string_view type) {
    json_.begin_object();
    json_.plain_key("type");
    json_.text(type);
    json_.plain_key("value");
  }

  template <typename Write>
  void typed_value(std::string_view type, Write write) {
    typed(type);
    write();
    json_.end_object();
  }

  void element(int depth) {
    if (depth > kDeepest) throw FormatError("trace log", "", "elements are nested too deeply");
    switch (const auto tag = bytes_.take<Tag>(); tag) {
      case Tag::kNull: json_.null(); break;
      case Tag::kFalse:
      case Tag::kTrue: typed_value("bool", [&] { json_.boolean(tag == Tag::kTrue); }); break;
      case Tag::kInteger: typed_value("int", [&] { json_.integer(bytes_.take<std::int64_t>()); }); break;
      case Tag::kBigInteger: typed_value("int", [&] { json_.value(digits()); }); break;
      case Tag::kReal: typed_value("float", [&] { json_.real(bytes_.take<double>()); }); break;
      case Tag::kText: typed_value("str", [&] { json_.text(bytes_.take_text()); }); break;
      case Tag::kComplex: typed_value("complex", [&] { json_.text(complex_text()); }); break;
      case Tag::kTensor: tensor(depth); break;
      case Tag::kTypedText: {
        const std::string_view type = bytes_.take_text();
        const std::string_view value = bytes_.take_text();
        text_of_type(type, value);
        break;
      }
      case Tag::kTypedReal: {
        const std::string_view type = bytes_.take_text();
        typed_value(type, [&] { json_.real(bytes_.take<double>()); });
        break;
      }
      case Tag::kTypedInteger: {
        const std::string_view type = bytes_.take_text();
        typed_value(type, [&] { json_.integer(bytes_.take<std::int64_t>()); });
        break;
      }
      case Tag::kTypedBoolean: {
        const std::string_view type = bytes_.take_text();
        typed_value(type, [&] { json_.boolean(bytes_.take<std::uint8_t>() != 0); });
        break;
      }
      case Tag::kSlice: typed_value("slice", [&] { slice(); }); break;
      case Tag::kSize: typed_value(framework_.package + ".Size", [&] { size(); }); break;
      case Tag::kPlainText: json_.text(bytes_.take_text()); break;
      case Tag::kPlainInteger: json_.integer(bytes_.take<std::int64_t>()); break;
      case Tag::kList:
        json_.begin_list();
        while (!ends()) element(depth + 1);
        json_.end_list();
        break;
      case Tag::kObject: object(depth); break;
      case Tag::kSlot: {
        json_.value("");
        holes_.push_back({scratch_.size(), bytes_.take<SlotId>(), json_.level()});
        break;
      }
      default: throw FormatError("trace log", "", "found an unknown element");
    }
  }

  // Consumes the end of a list or an object if it is next.
  bool ends() {
    if (bytes_.rest().empty()) throw FormatError("trace log", "", "a list or an object has no end");
    if (static_cast<Tag>(bytes_.rest().front()) != Tag::kEnd) return false;
    (void)bytes_.take<Tag>();
    return true;
  }

  void object(int depth) {
    json_.begin_object();
    while (!ends()) {
      if (bytes_.take<Tag>() != Tag::kKey) throw FormatError("trace log", "", "expected a key in an object");
      json_.key(bytes_.take_text());
      element(depth + 1);
    }
    json_.end_object();
  }

  // A memory format has its own key in the format.
  void text_of_type(std::string_view type, std::string_view value) {
    json_.begin_object();
    json_.plain_key("type");
    json_.text(type);
    json_.plain_key(is_memory_format_type(type) ? "format" : "value");
    json_.text(value);
    json_.end_object();
  }

  std::string_view digits() {
    const std::string_view text = bytes_.take_text();
    const std::string_view unsigned_text = text.substr(text.starts_with('-') ? 1 : 0);
    const bool padded = unsigned_text.size() > 1 && unsigned_text.front() == '0';  // is no JSON
    if (unsigned_text.empty() || padded ||
        unsigned_text.find_first_not_of("0123456789") != std::string_view::npos)
      throw FormatError("trace log", "", "expected the digits of an integer");
    return text;
  }

  std::string complex_text() {
    const double real = bytes_.take<double>();
    const double imaginary = bytes_.take<double>();
    const std::string imaginary_text = io::format_double(imaginary);
    const bool signed_already = imaginary_text.starts_with('-');
    return "(" + io::format_double(real) + (signed_already ? "" : "+") + imaginary_text + "j)";
  }

  void slice() {
    json_.begin_list();
    for (int i = 0; i < 3; ++i) {
      const bool given = bytes_.take<std::uint8_t>() != 0;
      const auto value = bytes_.take<std::int64_t>();
      if (given) {
        json_.integer(value);
      } else {
        json_.null();
      }
    }
    json_.end_list();
  }

  void size() {
    json_.begin_list();
    for (auto left = bytes_.take<std::uint32_t>(); left > 0; --left)
      json_.integer(bytes_.take<std::int64_t>());
    json_.end_list();
  }

  void tensor(int depth) {
    ++tensors_;
    const auto dtype = bytes_.take<std::uint8_t>();
    const auto flags = bytes_.take<std::uint8_t>();
    const auto dimensions = bytes_.take<std::uint8_t>();
    if (dtype != kOtherDtype && dtype >= kDTypeCount)
      throw FormatError("trace log", "", "found an unknown dtype");
    const bool numpy = (flags & kNumpy) != 0;
    json_.begin_object();
    json_.plain_key("type");
    if (numpy) {
      json_.text("numpy.ndarray");
    } else {
      json_.text(framework_.package + ".Tensor");
    }
    json_.plain_key("dtype");
    if (dtype == kOtherDtype) {
      json_.text(bytes_.take_text());
    } else {
      json_.text(dtype_text(static_cast<DType>(dtype)));
    }
    json_.plain_key("shape");
    json_.begin_list();
    for (unsigned i = 0; i < dimensions; ++i) {
      json_.integer((flags & kWideShape) != 0 ? bytes_.take<std::int64_t>() : bytes_.take<std::uint32_t>());
    }
    json_.end_list();
    statistics();
    if (!numpy && framework_.has_requires_grad) {
      json_.plain_key("requires_grad");
      json_.boolean((flags & kRequiresGrad) != 0);
    }
    if ((flags & kNonFinite) != 0)
      (void)bytes_.take<std::uint64_t>();  // the counts are not part of dump.json
    if ((flags & kHasSketch) != 0) sketch(bytes_.take_bytes(bytes_.take<std::uint8_t>()));
    if ((flags & kHasChecksum) != 0) checksum(bytes_.take<std::uint32_t>());
    if ((flags & kHasDataName) != 0) {
      json_.plain_key("data_name");
      json_.text(bytes_.take_text());
    }
    if ((flags & kHasPlacement) != 0) {
      json_.plain_key("dtensor");
      element(depth + 1);
    }
    json_.end_object();
  }

  void sketch(std::string_view bytes) {
    json_.plain_key("sketch");
    base64_.clear();
    append_base64(base64_, bytes);
    json_.text(base64_);
  }

  std::string dtype_text(DType dtype) const {
    if (!framework_.qualifies_dtypes) return std::string(capitalised_dtype_name(dtype));
    return (framework_.package + ".").append(dtype_name(dtype));
  }

  void checksum(std::uint32_t value) {
    json_.plain_key("md5");
    json_.text(crc32_text(value));
  }

  static constexpr std::array<std::string_view, 4> kNumbers{"Max", "Min", "Mean", "Norm"};

  void statistics() {
    using Form = Statistics::Form;
    const auto form = bytes_.take<Form>();
    std::uint8_t bits = 0;
    std::uint64_t integer = 0;
    if (form > Form::kUnsigned) throw FormatError("trace log", "", "found unknown statistics");
    if (form == Form::kBool) bits = bytes_.take<std::uint8_t>();
    if (form == Form::kInteger || form == Form::kUnsigned) integer = bytes_.take<std::uint64_t>();
    for (std::size_t i = 0; i < kNumbers.size(); ++i) {
      json_.plain_key(kNumbers[i]);
      switch (form) {
        case Form::kFloats: json_.real(bytes_.take<float>()); break;
        case Form::kDoubles: json_.real(bytes_.take<double>()); break;
        case Form::kNoNorm:
          if (const auto value = bytes_.take<double>(); i < 3) {
            json_.real(value);
          } else {
            json_.null();
          }
          break;
        case Form::kBool:
          if (i < 2) {
            json_.boolean((bits >> i & 1) != 0);
          } else {
            json_.null();
          }
          break;
        case Form::kInteger: json_.integer(static_cast<std::int64_t>(integer)); break;
        case Form::kUnsigned: json_.unsigned_integer(integer); break;
        default: json_.null(); break;
      }
    }
  }

  Bytes bytes_;
  const Framework& framework_;
  std::string& scratch_;
  JsonText json_;
  std::string base64_;
  std::vector<ElementText::Hole> holes_;
  std::size_t tensors_ = 0;
};

}  // namespace

ElementText list_text(std::string_view bytes, int level, const Framework& framework, std::string& scratch) {
  return ElementFormatter(bytes, level, framework, scratch).list();
}

ElementText single_text(std::string_view bytes, int level, const Framework& framework, std::string& scratch) {
  return ElementFormatter(bytes, level, framework, scratch).single();
}

}  // namespace msprobe::trace
