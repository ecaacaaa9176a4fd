// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// diagnosis.json read into memory (docs/formats/diagnosis.md): what surrounds the calls of a step.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::trace {

/// A value of a JSON document. Objects keep the order of the file; of a key that occurs twice the last
/// counts.
class MSPROBE_API Json {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kText, kList, kObject };

  Kind kind() const noexcept { return kind_; }
  bool is_object() const noexcept { return kind_ == Kind::kObject; }
  bool is_list() const noexcept { return kind_ == Kind::kList; }
  bool is_null() const noexcept { return kind_ == Kind::kNull; }
  /// Of a number or a bool.
  std::optional<double> number() const noexcept;
  /// Of a text; of a number or word as it stands in the file; else empty.
  std::string_view text() const noexcept { return text_; }
  /// Of a list; else empty.
  const std::vector<Json>& items() const noexcept { return items_; }
  /// Of an object: as many as items(); else empty.
  const std::vector<std::string>& keys() const noexcept { return keys_; }
  /// Null where this is no object or has no such key.
  const Json* find(std::string_view key) const noexcept;
  /// The value under a key; a null value where there is none.
  const Json& operator[](std::string_view key) const noexcept;

  /// Gives the value under a key of this object other names: every key, and every text, that is one of
  /// `names`.
  void rename(std::string_view key, const std::map<std::string, std::string>& names);

  /// Equal in kind and content; NaN equals NaN, 1 equals 1.0, the order of keys does not matter.
  friend MSPROBE_API bool operator==(const Json& a, const Json& b) noexcept;

 private:
  friend class JsonBuilder;
  void rename(const std::map<std::string, std::string>& names);

  Kind kind_ = Kind::kNull;
  std::string text_;
  std::vector<Json> items_;
  std::vector<std::string> keys_;
};

/// The state of the training at one step and rank.
struct TrainingState {
  std::filesystem::path path;
  Json root;  // an object
};

/// Throws IoError; FormatError for what is no JSON or no object, for a file that is none (a device, a pipe),
/// and for one above 1 GiB. What stands inside is looked at when it is needed: another form counts as not
/// there.
MSPROBE_API TrainingState read_training_state(const std::filesystem::path& path);

}  // namespace msprobe::trace
