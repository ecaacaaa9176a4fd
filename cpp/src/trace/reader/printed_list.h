// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// What Python prints of a list of a JSON file, made while the list is read.
class PrintedList {
 public:
  /// No list.
  void clear() {
    text_.clear();
    is_of_whole_numbers_ = false;
  }
  /// A list begins: the outermost, or one in a list.
  void open();
  void add(Scalar::Kind kind, std::string_view text);
  void close() { text_ += ']'; }

  std::string_view text() const noexcept { return text_; }
  /// Nothing else stands in it, and no list either.
  bool is_of_whole_numbers() const noexcept { return is_of_whole_numbers_; }

 private:
  void add_comma() {
    if (text_.back() != '[') text_ += ", ";
  }

  std::string text_;
  bool is_of_whole_numbers_ = false;
};

}  // namespace msprobe::trace
