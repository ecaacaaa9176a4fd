// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::trace {

/// JSON as Python's json.dump(indent=1) writes it: one space per level, every entry on its own line, text in
/// ASCII with \uXXXX, NaN and infinities as bare words.
class JsonText {
 public:
  explicit JsonText(int level) : level_(level) {}

  void null() { value("null"); }
  void boolean(bool value_) { value(value_ ? "true" : "false"); }
  void integer(std::int64_t number);
  void unsigned_integer(std::uint64_t number);
  void real(double number);
  void text(std::string_view text);
  /// Text that is JSON already.
  void value(std::string_view json) {
    before_value();
    out_ += json;
  }

  void begin_list() { begin('['); }
  void begin_object() { begin('{'); }
  void end_list() { end(']'); }
  void end_object() { end('}'); }
  void key(std::string_view name);

  int level() const noexcept { return level_; }
  const std::string& out() const noexcept { return out_; }
  std::string take() { return std::move(out_); }

 private:
  void begin(char bracket);
  void end(char bracket);
  void before_value();
  void new_line() {
    out_ += '\n';
    out_.append(static_cast<std::size_t>(level_), ' ');
  }

  std::string out_;
  int level_;
  bool after_key_ = false;
  bool after_bracket_ = false;  // nothing was written since a bracket was opened
  int depth_ = 0;               // open brackets of this text
};

void append_json_string(std::string& out, std::string_view utf8);
void append_json_real(std::string& out, double value);

}  // namespace msprobe::trace
