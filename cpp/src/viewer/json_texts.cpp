// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "viewer/json_texts.h"

#include "io/document/json_input.h"
#include "msprobe/error.h"

namespace msprobe::viewer {
namespace {

class ListHandler : public io::JsonHandler<ListHandler> {
 public:
  void null() { add("None"); }
  void boolean(bool value) { add(value ? "True" : "False"); }
  void number(std::string_view text) { add(text); }
  void text(std::string_view text) { add(text); }
  void key(std::string_view) {}
  void begin(bool is_object) {
    if (depth() == 1 && is_object) fail("expected a list");
  }
  void end(bool) {}

  std::vector<std::string> texts;

 private:
  void add(std::string_view text) {
    if (depth() == 0) fail("expected a list");
    if (depth() == 1) texts.emplace_back(text);
  }
};

}  // namespace

std::vector<std::string> list_texts(std::string_view json) {
  if (json.empty() || json == "[]") return {};
  std::string content(json);
  ListHandler handler;
  try {
    io::parse_json(content, {}, handler);
  } catch (const FormatError&) {
    return {};
  }
  return std::move(handler.texts);
}

}  // namespace msprobe::viewer
