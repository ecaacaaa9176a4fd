// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::checkpoint {

/// A text or number of a JSON file, at the top or one level below it.
struct JsonSetting {
  std::string section;  // the key at the top; empty for a value that stands there itself
  std::string key;
  std::string value;
};

/// Texts, numbers and truth values as text; what lies deeper is left out. Not by msprobe/document.h: Python
/// writes Infinity into config.json, which is not JSON. Throws IoError, FormatError.
std::vector<JsonSetting> read_json_settings(const std::filesystem::path& path);

/// The value of `key` at the top, or else in `section`.
std::optional<std::string> find_setting(const std::vector<JsonSetting>& settings, std::string_view key,
                                        std::string_view section = {});
std::int64_t number_of(const std::vector<JsonSetting>& settings, std::string_view key,
                       std::string_view section);

}  // namespace msprobe::checkpoint
