// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Small files in JSON and YAML, such as settings and tables of names, read as a whole. Dumps are read piece
/// by piece instead (msprobe/trace_reader.h).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::io {

/// What a file in JSON or YAML says, or a part of it.
struct MSPROBE_API Value {
  using List = std::vector<Value>;
  using Member = std::pair<std::string, Value>;
  using Object = std::vector<Member>;  // in the order of the file, each key once
  /// A whole number that does not fit into 64 bits is a double.
  using Variant = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Object>;

  Value();
  Value(Variant value, int line_ = 0);  // NOLINT: what a program writes in place of a file
  ~Value();
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;

  Variant is;
  int line = 0;  // where it begins, counted from 1; 0: it is from no file

  /// Null: it is something else.
  template <typename T>
  const T* as() const noexcept {
    return std::get_if<T>(&is);
  }
  bool is_null() const noexcept { return as<std::nullptr_t>() != nullptr; }
  /// The value of a key; null: there is no such key, or this is no object.
  const Value* find(std::string_view key) const noexcept;
  /// What it is, in words: "an object", "a list", "text", "a number", "true or false", "nothing".
  std::string kind() const;
  /// As JSON in one line, at most 60 characters of it: for messages.
  std::string shown() const;

  /// The line does not matter.
  bool operator==(const Value& other) const { return is == other.is; }
};

/// What a hostile file is refused for. Text that is not UTF-8, a key that stands twice in one object, and for
/// YAML tags, a second document and keys that are no text are refused as well.
struct DocumentLimits {
  std::uint64_t bytes = std::uint64_t{10} << 20;
  std::size_t values = std::size_t{4} << 20;  // aliases of YAML count as often as they are used
  int depth = 64;                             // brackets in brackets
};

/// Reads a file by the end of its name: .json, .yaml, .yml. Throws InvalidArgument for another one, IoError,
/// and FormatError with line and column.
MSPROBE_API Value read_document(const std::filesystem::path& path, const DocumentLimits& limits = {});
/// Read a file whatever its name. Throw IoError and FormatError.
MSPROBE_API Value read_json(const std::filesystem::path& path, const DocumentLimits& limits = {});
MSPROBE_API Value read_yaml(const std::filesystem::path& path, const DocumentLimits& limits = {});

/// Strict JSON: no NaN, no comments; a byte order mark is allowed. `path`: for messages.
MSPROBE_API Value parse_json_document(std::string_view text, const std::filesystem::path& path,
                                      const DocumentLimits& limits = {});

/// YAML 1.2 with the words of its core schema, and yes, no, on, off of YAML 1.1. Dates are text. An empty
/// file is null. `path`: for messages.
MSPROBE_API Value parse_yaml_document(std::string_view text, const std::filesystem::path& path,
                                      const DocumentLimits& limits = {});

}  // namespace msprobe::io
