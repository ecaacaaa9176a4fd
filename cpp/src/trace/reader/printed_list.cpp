// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/reader/printed_list.h"

#include "trace/reader/python_text.h"

namespace msprobe::trace {

void PrintedList::open() {
  is_of_whole_numbers_ = text_.empty();
  if (!text_.empty()) add_comma();
  text_ += '[';
}

void PrintedList::add(Scalar::Kind kind, std::string_view text) {
  add_comma();
  is_of_whole_numbers_ &= kind == Scalar::Kind::kInteger;
  if (kind == Scalar::Kind::kText) {
    append_python_repr(text_, text);
  } else if (kind == Scalar::Kind::kNull) {
    text_ += "None";
  } else if (text.ends_with("NaN")) {
    text_ += "nan";
  } else if (text.ends_with("Infinity") || text.ends_with("Inf")) {
    text_ += text.starts_with('-') ? "-inf" : "inf";
  } else {
    text_ += text;
  }
}

}  // namespace msprobe::trace
