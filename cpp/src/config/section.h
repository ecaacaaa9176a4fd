// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/config.h"

namespace msprobe::config {

/// Those of `rows` that a section has, or an object inside of it ("monitor.alarm").
std::vector<Key> keys_of(std::string_view section, std::span<const Key> rows);

/// Whether words separated by spaces have one.
bool has_word(std::string_view words, std::string_view word);

/// A section on its way from the file to checked values; the top level is one, too, and so is an object
/// inside of a section. Messages name file, line and key.
class Section {
 public:
  /// `place`: the file, for messages. `task`: empty for the top level, "monitor.alarm" for an object. `name`:
  /// what stands in front of its keys in messages.
  Section(std::string place, std::string task, std::string name, const Value::Object& given,
          std::span<const Key> rows = keys());

  /// A value from the program instead of the file.
  void give(std::string_view key, const Value& value);

  /// Checks what is given by the rows of the table, and takes their defaults for what is not.
  void read();

  const std::string& place() const noexcept { return place_; }
  const std::string& task() const noexcept { return task_; }
  const std::string& name() const noexcept { return name_; }
  /// Its rows, out of those of all sections.
  std::vector<Key> keys_of_it() const { return keys_of(task_, rows_); }
  std::span<const Key> rows() const noexcept { return rows_; }
  /// Null, and at the top level an empty text, counts as not given.
  bool is_given(std::string_view key) const { return find(key) != nullptr; }
  /// After read(): the checked value.
  const Values& values() const noexcept { return values_; }
  void set(std::string_view key, Value value);
  /// As if the key were not given.
  void reset(std::string_view key);
  const Value::Object& content() const noexcept { return content_; }

  [[noreturn]] void fail(std::string_view key, const std::string& problem) const;
  [[noreturn]] void fail_unsupported(std::string_view key, const std::string& problem) const;
  void warn(std::string_view key, const std::string& text) const;
  /// "found ...": the value as it is given.
  std::string found(std::string_view key) const;

  Values take() { return std::move(values_); }

 private:
  struct Argument {
    std::string key;
    Value value;
  };

  const Value* find(std::string_view key) const;
  bool is_argument(std::string_view key) const;
  std::string where(std::string_view key, int line) const;

  std::string place_;
  std::string task_;
  std::string name_;
  const Value::Object& content_;
  std::span<const Key> rows_;
  std::vector<Argument> arguments_;
  Values values_;
};

/// The default of a row.
Value fallback_of(const Key& key);

/// The checked values of a section, or of an object inside of it. The arguments are those of Section; `top`:
/// the values of the top level.
Values read_section(const std::string& place, const std::string& task, const std::string& name,
                    const Value::Object& content, const Values& top, std::span<const Key> rows = keys());

}  // namespace msprobe::config
