// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/document.h"

#include <algorithm>

#include "io/in_quotes.h"
#include "io/utf8.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/table.h"

namespace msprobe::io {
namespace {

constexpr std::size_t kMostShown = 60;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

void append_shown_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text.substr(0, kMostShown)) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  }
  out += '"';
}

// Stops soon after `out` is longer than what is shown.
void append_shown(std::string& out, const Value& value) {
  const auto separate = [&](const auto& of, const auto& one) {
    if (&one != &of.front()) out += ", ";
    return out.size() <= kMostShown;
  };
  std::visit(
      Overloaded{[&](std::nullptr_t) { out += "null"; }, [&](bool flag) { out += flag ? "true" : "false"; },
                 [&](std::int64_t number) { out += std::to_string(number); },
                 [&](double number) { append_double(out, number); },
                 [&](const std::string& text) { append_shown_text(out, text); },
                 [&](const Value::List& list) {
                   out += '[';
                   for (const Value& one : list) {
                     if (!separate(list, one)) break;
                     append_shown(out, one);
                   }
                   out += ']';
                 },
                 [&](const Value::Object& object) {
                   out += '{';
                   for (const Value::Member& one : object) {
                     if (!separate(object, one)) break;
                     append_shown_text(out, one.first);
                     out += ": ";
                     append_shown(out, one.second);
                   }
                   out += '}';
                 }},
      value.is);
}

std::string read_document_text(const std::filesystem::path& path, const DocumentLimits& limits) {
  const InputFile file(path);
  if (file.size() > limits.bytes) {
    throw FormatError(path.string(), "",
                      "expected at most " + std::to_string(limits.bytes >> 20) + " MiB, found " +
                          std::to_string(file.size()) + " bytes");
  }
  std::string text(file.size(), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  return text;
}

}  // namespace

Value::Value() = default;
Value::Value(Variant value, int line_) : is(std::move(value)), line(line_) {}
Value::~Value() = default;
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;

const Value* Value::find(std::string_view key) const noexcept {
  const auto* const object = as<Object>();
  if (object == nullptr) return nullptr;
  const auto found =
      std::find_if(object->begin(), object->end(), [&](const Member& one) { return one.first == key; });
  return found == object->end() ? nullptr : &found->second;
}

std::string Value::kind() const {
  return std::visit(
      Overloaded{[](std::nullptr_t) { return "nothing"; }, [](bool) { return "true or false"; },
                 [](std::int64_t) { return "a number"; }, [](double) { return "a number"; },
                 [](const std::string&) { return "text"; }, [](const List&) { return "a list"; },
                 [](const Object&) { return "an object"; }},
      is);
}

std::string Value::shown() const {
  std::string text;
  append_shown(text, *this);
  if (text.size() <= kMostShown) return text;
  std::size_t end = kMostShown - 3;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

Value read_json(const std::filesystem::path& path, const DocumentLimits& limits) {
  return parse_json_document(read_document_text(path, limits), path, limits);
}

Value read_yaml(const std::filesystem::path& path, const DocumentLimits& limits) {
  return parse_yaml_document(read_document_text(path, limits), path, limits);
}

Value read_document(const std::filesystem::path& path, const DocumentLimits& limits) {
  const std::string ending = path.extension().string();
  if (ending == ".json") return read_json(path, limits);
  if (ending == ".yaml" || ending == ".yml") return read_yaml(path, limits);
  throw InvalidArgument(path.string() + ": expected the name of a file that ends in .json, .yaml or .yml");
}

}  // namespace msprobe::io
