// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::trace {

/// Appends JSON as Python's json.dump(indent=1) writes it: one space per level, every entry on its own line,
/// text in ASCII with \uXXXX, NaN and infinities as bare words.
class JsonText {
 public:
  /// Appends to `out`, which outlives this object. `level`: spaces before a bracket that is closed at the
  /// end.
  JsonText(std::string& out, int level) : out_(out), level_(level) {}

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
  /// A key of the format itself: printable ASCII without quotes and backslashes.
  void plain_key(std::string_view name) {
    before_value();
    out_ += '"';
    out_ += name;
    out_ += "\": ";
    after_key_ = true;
  }

  int level() const noexcept { return level_; }

 private:
  void begin(char bracket) {
    before_value();
    out_ += bracket;
    ++level_;
    ++depth_;
    after_bracket_ = true;
  }
  void end(char bracket) {
    --level_;
    --depth_;
    if (!after_bracket_) break_line(1);
    after_bracket_ = false;
    out_ += bracket;
  }
  void before_value() {
    if (after_key_) {
      after_key_ = false;
    } else if (depth_ > 0) {
      break_line(after_bracket_ ? 1 : 0);
      after_bracket_ = false;
    }
  }
  // A comma, a line break and the indentation, without the first `skip` of them, in one piece: this runs for
  // every entry.
  void break_line(std::size_t skip) {
    static constexpr std::string_view kBreak =
        ",\n                                                              ";
    const auto wanted = 2 + static_cast<std::size_t>(level_);
    out_.append(kBreak, skip, wanted - skip);
    if (wanted > kBreak.size()) out_.append(wanted - kBreak.size(), ' ');
  }

  std::string& out_;
  int level_;
  bool after_key_ = false;
  bool after_bracket_ = false;  // nothing was written since a bracket was opened
  int depth_ = 0;               // brackets that this object has opened
};

void append_json_string(std::string& out, std::string_view utf8);
void append_json_real(std::string& out, double value);

}  // namespace msprobe::trace
