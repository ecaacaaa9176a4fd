// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "msprobe/document.h"

namespace msprobe::io {

/// Makes a tree of the events of a parser, and refuses what is twice, too deep or too much. Any function
/// throws FormatError with the line.
class DocumentBuilder {
 public:
  DocumentBuilder(const std::filesystem::path& path, const DocumentLimits& limits)
      : path_(path), limits_(limits) {}

  /// Of an object: before each value.
  void key(std::string_view name, int line);
  /// A value without brackets, or a whole one.
  void add(Value value);
  void begin_list(int line) { begin(Value{Value::List{}, line}); }
  void begin_object(int line) { begin(Value{Value::Object{}, line}); }
  /// Returns what was closed.
  const Value& end();

  /// Counts against the limit what a copy of `value` adds.
  void count_all(const Value& value);

  Value take() { return std::move(root_); }

  [[noreturn]] void refuse(int line, const std::string& problem) const;

 private:
  struct Open {
    Value* value;                           // its brackets are open, so it does not move
    std::unordered_set<std::string> names;  // of an object
  };

  void begin(Value brackets);
  Value& place(Value value);
  void count(int line);

  const std::filesystem::path& path_;
  const DocumentLimits& limits_;
  Value root_;
  std::vector<Open> open_;
  std::string key_;
  std::size_t values_ = 0;
};

/// Text that is to be parsed, without its byte order mark. Throws FormatError for bytes that are not UTF-8
/// and for NUL bytes.
std::string_view checked_text(std::string_view text, const std::filesystem::path& path);

}  // namespace msprobe::io
