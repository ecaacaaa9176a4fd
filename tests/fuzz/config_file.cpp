// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "config_file.h"

#include <algorithm>

#include "fuzz_target.h"
#include "io/utf8.h"
#include "msprobe/config.h"
#include "msprobe/file.h"
#include "msprobe/log.h"

namespace msprobe::fuzz {
namespace {

using io::Value;

void walk(const Value& value, int depth, std::size_t& values) {
  promise(depth <= io::DocumentLimits().depth, "the tree is no deeper than its limit");
  promise(++values <= io::DocumentLimits().values, "the tree has no more values than its limit");
  promise(value.line >= 0, "lines are counted from 1");
  promise(value.shown().size() <= 60, "a value in a message is short");
  if (const auto* const text = value.as<std::string>()) {
    promise(io::find_invalid_utf8(*text) == std::string_view::npos, "text is UTF-8");
  } else if (const auto* const list = value.as<Value::List>()) {
    for (const Value& one : *list) walk(one, depth + 1, values);
  } else if (const auto* const object = value.as<Value::Object>()) {
    for (const auto& [key, one] : *object) {
      promise(io::find_invalid_utf8(key) == std::string_view::npos, "keys are UTF-8");
      promise(value.find(key) == &one, "a key stands once");
      walk(one, depth + 1, values);
    }
  }
}

void load(const std::filesystem::path& path) try {
  const config::Config config = config::load(path);
  for (const config::Key& key : config::keys_of(config.task)) {
    const Value& value = config.section.at(key.name);
    switch (key.type) {
      case config::Type::kSwitch: promise(value.as<bool>() != nullptr, "a switch is true or false"); break;
      case config::Type::kWord: (void)config.section.text(key.name); break;
      case config::Type::kTexts:
      case config::Type::kWords: (void)config.section.texts(key.name); break;
      default: break;
    }
  }
  promise(std::is_sorted(config.steps.begin(), config.steps.end()), "steps are ascending");
} catch (const InvalidArgument& error) {
  promise(std::string_view(error.what()).find('\n') == std::string_view::npos, "a refusal is one line");
}

}  // namespace

void read_as_config(const std::uint8_t* data, std::size_t size, const std::string& ending) {
  static const MemoryFolder folder;
  static const bool quiet = (set_log_sink([](LogLevel, std::string_view) {}), true);
  promise(quiet, "nothing is printed");
  const std::filesystem::path path = folder.path() / ("config" + ending);
  io::write_file(path, as_text(data, size));
  refuse_or([&] {
    std::size_t values = 0;
    walk(io::read_document(path), 0, values);
  });
  refuse_or([&] { load(path); });
}

}  // namespace msprobe::fuzz
