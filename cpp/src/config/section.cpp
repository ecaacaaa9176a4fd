// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "config/section.h"

#include <algorithm>

#include "config/checked_value.h"
#include "msprobe/log.h"

namespace msprobe::config {
namespace {

constexpr std::string_view kProgram = "PrecisionDebugger()";

}  // namespace

Value fallback_of(const Key& key) { return io::parse_json_document(key.fallback, std::string(key.name)); }

Section::Section(std::string place, std::string task, std::string name, const Value::Object& given,
                 std::span<const Key> rows)
    : place_(std::move(place)),
      task_(std::move(task)),
      name_(std::move(name)),
      content_(given),
      rows_(rows) {}

void Section::give(std::string_view key, const Value& value) {
  const auto* const text = value.as<std::string>();
  if (value.is_null() || (text != nullptr && text->empty())) return;
  arguments_.push_back({std::string(key), value});
}

void Section::read() {
  Value::Object values;
  for (const Key& key : keys_of_it()) {
    const Value* const given = find(key.name);
    const auto refuse = [&](const std::string& problem, const Value& value) {
      throw InvalidArgument(where(key.name, value.line) + problem);
    };
    values.emplace_back(key.name, given == nullptr ? fallback_of(key) : checked_value(key, *given, refuse));
  }
  values_ = Values(std::move(values));
}

const Value* Section::find(std::string_view key) const {
  for (const Argument& one : arguments_) {
    if (one.key == key) return &one.value;
  }
  for (const Value::Member& one : content_) {
    if (one.first != key || one.second.is_null()) continue;
    const auto* const text = one.second.as<std::string>();
    if (task_.empty() && text != nullptr && text->empty()) continue;
    return &one.second;
  }
  return nullptr;
}

bool Section::is_argument(std::string_view key) const {
  return std::any_of(arguments_.begin(), arguments_.end(),
                     [&](const Argument& one) { return one.key == key; });
}

std::string Section::where(std::string_view key, int line) const {
  std::string text(is_argument(key) ? kProgram : place_);
  if (line > 0) text += ": line " + std::to_string(line);
  text += ": \"";
  if (!name_.empty()) text += name_ + ".";
  return text.append(key) + "\": ";
}

namespace {

int line_of(const Value::Object& content, const Value* given, std::string_view key) {
  if (given != nullptr) return given->line;
  for (const Value::Member& one : content) {
    if (one.first == key) return one.second.line;
  }
  return 0;
}

}  // namespace

void Section::fail(std::string_view key, const std::string& problem) const {
  throw InvalidArgument(where(key, line_of(content_, find(key), key)) + problem);
}

void Section::fail_unsupported(std::string_view key, const std::string& problem) const {
  throw UnsupportedError(where(key, line_of(content_, find(key), key)) + problem);
}

void Section::warn(std::string_view key, const std::string& text) const {
  log(LogLevel::kWarning, where(key, line_of(content_, find(key), key)) + text);
}

std::string Section::found(std::string_view key) const {
  const Value* const given = find(key);
  return "found " + (given == nullptr ? Value().shown() : given->shown());
}

void Section::set(std::string_view key, Value value) {
  Value::Object values = values_.all();
  const auto place =
      std::find_if(values.begin(), values.end(), [&](const auto& one) { return one.first == key; });
  if (place != values.end()) place->second = std::move(value);
  values_ = Values(std::move(values));
}

void Section::reset(std::string_view key) {
  for (const Key& one : keys_of_it()) {
    if (one.name == key) set(key, fallback_of(one));
  }
}

}  // namespace msprobe::config
