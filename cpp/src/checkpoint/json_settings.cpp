// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/json_settings.h"

#include <charconv>

#include "io/document/json_input.h"

namespace msprobe::checkpoint {
namespace {

class SettingsHandler : public io::JsonHandler<SettingsHandler> {
 public:
  std::vector<JsonSetting> settings;

  void null() {}
  void boolean(bool value) { add(value ? "true" : "false"); }
  void number(std::string_view text) { add(text); }
  void text(std::string_view text) { add(text); }
  void key(std::string_view name) {
    if (depth() == 1) section_ = name;
    if (depth() == 2) key_ = name;
  }
  void begin(bool is_object) {
    if (depth() == 1 && !is_object) fail("found a list, expected an object");
    if (depth() == 2) is_list_ = !is_object;
  }
  void end(bool) {}

 private:
  void add(std::string_view value) {
    if (depth() == 1) settings.push_back({"", section_, std::string(value)});
    if (depth() == 2 && !is_list_) settings.push_back({section_, key_, std::string(value)});
  }

  std::string section_;
  std::string key_;
  bool is_list_ = false;
};

}  // namespace

std::vector<JsonSetting> read_json_settings(const std::filesystem::path& path) {
  SettingsHandler handler;
  io::parse_json_file(path, handler);
  return std::move(handler.settings);
}

std::optional<std::string> find_setting(const std::vector<JsonSetting>& settings, std::string_view key,
                                        std::string_view section) {
  for (const std::string_view place : {std::string_view(), section}) {
    for (const JsonSetting& one : settings) {
      if (one.section == place && one.key == key) return one.value;
    }
  }
  return std::nullopt;
}

std::int64_t number_of(const std::vector<JsonSetting>& settings, std::string_view key,
                       std::string_view section) {
  const std::string text = find_setting(settings, key, section).value_or("");
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace msprobe::checkpoint
