// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/document/document_builder.h"

#include "io/in_quotes.h"
#include "io/utf8.h"
#include "msprobe/error.h"

namespace msprobe::io {

void DocumentBuilder::refuse(int line, const std::string& problem) const {
  throw FormatError(path_.string(), "line " + std::to_string(line), problem);
}

void DocumentBuilder::count(int line) {
  if (++values_ > limits_.values) {
    refuse(line, "found more than " + std::to_string(limits_.values) + " values");
  }
}

void DocumentBuilder::count_all(const Value& value) {
  count(value.line);
  if (const auto* const list = value.as<Value::List>()) {
    for (const Value& one : *list) count_all(one);
  } else if (const auto* const object = value.as<Value::Object>()) {
    for (const Value::Member& one : *object) count_all(one.second);
  }
}

void DocumentBuilder::key(std::string_view name, int line) {
  key_ = name;
  if (!open_.back().names.insert(key_).second) {
    refuse(line, in_quotes(name) + ": the key stands twice in one object, expected once");
  }
}

// Null parents are never asked: a document has one value outside of all brackets.
Value& DocumentBuilder::place(Value value) {
  count(value.line);
  if (open_.empty()) return root_ = std::move(value);
  Value& parent = *open_.back().value;
  if (auto* const list = std::get_if<Value::List>(&parent.is)) return list->emplace_back(std::move(value));
  return std::get<Value::Object>(parent.is).emplace_back(std::move(key_), std::move(value)).second;
}

void DocumentBuilder::add(Value value) { place(std::move(value)); }

void DocumentBuilder::begin(Value brackets) {
  const int line = brackets.line;
  if (open_.size() == static_cast<std::size_t>(limits_.depth)) {
    refuse(line, "nested too deeply: expected at most " + std::to_string(limits_.depth) + " levels");
  }
  open_.push_back({&place(std::move(brackets)), {}});
}

const Value& DocumentBuilder::end() {
  const Value& closed = *open_.back().value;
  open_.pop_back();
  return closed;
}

std::string_view checked_text(std::string_view text, const std::filesystem::path& path) {
  const auto refuse = [&](std::size_t byte, const std::string& problem) {
    throw FormatError(path.string(), "byte " + std::to_string(byte), problem);
  };
  if (const std::size_t at = find_invalid_utf8(text); at != text.npos) refuse(at, "expected UTF-8 text");
  if (const std::size_t at = text.find('\0'); at != text.npos) refuse(at, "expected text, found a NUL byte");
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace msprobe::io
