// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>

#include "config/rules.h"
#include "config/section.h"
#include "io/in_quotes.h"
#include "msprobe/config.h"
#include "msprobe/log.h"

namespace msprobe::config {

MalformedConfig::~MalformedConfig() = default;

namespace {

constexpr std::string_view kNoFile = "PrecisionDebugger()";
constexpr const char* kFolderWithoutFile = "./dump_path";

std::vector<std::string> names_of(const std::vector<Key>& keys) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const Key& key : keys) names.emplace_back(key.name);
  return names;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string did_you_mean(std::string_view key, const std::vector<std::string>& known) {
  const std::string meant = closest_word(key, known);
  return meant.empty() ? "" : "unknown key: did you mean \"" + meant + "\"?";
}

// Whether it is an object inside of a section.
bool is_inside(std::string_view section) { return section.find('.') != section.npos; }

bool is_strict(std::string_view section) {
  const std::string_view task = section.substr(0, section.find('.'));
  const std::span<const Task> all = tasks();
  return std::any_of(all.begin(), all.end(),
                     [&](const Task& one) { return one.is_strict && one.name == task; });
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// null, [], ["all"], false and "" ask for nothing.
bool asks_for_nothing(const Value& value) {
  if (const auto* const list = value.as<Value::List>()) {
    const auto* const word = list->size() == 1 ? list->front().as<std::string>() : nullptr;
    return list->empty() || (word != nullptr && *word == "all");
  }
  if (const auto* const flag = value.as<bool>()) return !*flag;
  const auto* const text = value.as<std::string>();
  return value.is_null() || (text != nullptr && text->empty());
}

// Of keys that are known and have no effect: what to use instead.
void warn_of_ignored(const Section& section) {
  for (const auto& [name, value] : section.content()) {
    for (const Key& key : section.keys_of_it()) {
      const bool is_it = key.name == name && key.origin == Origin::kIgnored;
      if (!is_it || asks_for_nothing(value) || value.shown() == fallback_of(key).shown()) continue;
      section.warn(name, "the key is ignored: " + std::string(key.meaning));
    }
  }
}

// A mistyped key is an error; a key that changes nothing gets a warning, unless it asks for nothing.
void check_keys(const Section& section) {
  warn_of_ignored(section);
  const std::vector<std::string> known = names_of(section.keys_of_it());
  std::vector<std::string> of_others;
  for (const Key& key : section.rows()) {
    if (!key.tasks.empty() && !is_inside(key.tasks) && !is_inside(section.task()))
      of_others.emplace_back(key.name);
  }
  for (const auto& [key, value] : section.content()) {
    if (contains(known, key)) continue;
    const std::string hint = did_you_mean(key, known);
    if (is_strict(section.task())) {
      section.fail(key, hint.empty() ? "unknown key: expected one of " + joined(known) : hint);
    }
    if (contains(of_others, key)) {
      if (!asks_for_nothing(value)) section.warn(key, "task " + section.task() + " does not use this key");
      continue;
    }
    if (!hint.empty()) section.fail(key, hint);
    section.warn(key, "the unknown key is ignored");
  }
}

void check_top_keys(const Section& top, const std::string& place, const std::string& task,
                    const Value::Object& of_task) {
  std::vector<std::string> known = names_of(keys_of(""));
  for (const Task& one : tasks()) known.emplace_back(one.name);
  const std::vector<std::string> inside = names_of(keys_of(task));
  warn_of_ignored(top);
  std::string unknown;
  for (const auto& [key, value] : top.content()) {
    if (contains(known, key)) continue;
    const auto is_it = [&key = key](const Value::Member& one) { return one.first == key; };
    if (contains(inside, key) && std::none_of(of_task.begin(), of_task.end(), is_it)) {
      top.fail(key, "expected inside of \"" + task + "\", found at the top level");
    }
    if (const std::string hint = did_you_mean(key, known); !hint.empty()) top.fail(key, hint);
    unknown += (unknown.empty() ? "" : ", ") + key;
  }
  if (!unknown.empty()) log(LogLevel::kWarning, place + ": unknown keys are ignored: " + unknown);
}

const Value::Object& object_of(const Value* value, const Section& top, std::string_view key) {
  static const Value::Object empty;
  if (value == nullptr) return empty;
  const auto* const object = value->as<Value::Object>();
  if (object == nullptr) top.fail(key, "expected an object, found " + value->shown());
  return *object;
}

const Task& chosen_task(const Section& top) {
  const std::string& task = top.values().text("task");
  const std::span<const Task> all = tasks();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Task& one) { return one.name == task; });
  if (found->is_available) return *found;
  std::string available;
  for (const Task& one : all) {
    if (one.is_available) available += (available.empty() ? "" : ", ") + std::string(one.name);
  }
  const std::string instead(found->meaning);
  top.fail_unsupported("task", task + " is no task of msprobe" + (instead.empty() ? "" : ": " + instead) +
                                   "; expected one of " + available);
}

// Of the objects in a section, those that have rows.
void read_inside(Section& section, const Values& top) {
  for (const Key& key : section.keys_of_it()) {
    const std::string inside = section.task() + "." + std::string(key.name);
    if (keys_of(inside, section.rows()).empty()) continue;
    const auto read = [&](const Value& value, const std::string& name) {
      const auto* const object = value.as<Value::Object>();
      if (object == nullptr) return value;  // a word
      const std::string whole_name = section.name().empty() ? name : section.name() + "." + name;
      const Values values = read_section(section.place(), inside, whole_name, *object, top, section.rows());
      return Value{values.all(), value.line};
    };
    const std::string name(key.name);
    Value value = section.values().at(key.name);
    if (auto* const list = std::get_if<Value::List>(&value.is)) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        (*list)[i] = read((*list)[i], name + "[" + std::to_string(i) + "]");
      }
    } else {
      value = read(value, name);
    }
    section.set(key.name, std::move(value));
  }
}

// The defaults of the top level.
Values plain_top() {
  static const Value::Object nothing;
  Section top(std::string(kNoFile), "", "", nothing);
  top.read();
  return top.take();
}

}  // namespace

Values read_section(const std::string& place, const std::string& task, const std::string& name,
                    const Value::Object& content, const Values& top, std::span<const Key> rows) {
  Section section(place, task, name, content, rows);
  check_keys(section);
  section.read();
  read_inside(section, top);
  if (const Rules rules = rules_of(task)) rules(section, top);
  return section.take();
}

Value read_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto refuse = [&](const std::string& problem) { throw InvalidArgument(name + ": " + problem); };
  std::error_code ignored;
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored))) {
    refuse("expected a file, found a symbolic link");
  }
  Value content;
  try {
    content = io::read_document(path);
  } catch (const FormatError& error) {
    throw MalformedConfig(error.what());
  } catch (const IoError& error) {
    refuse(std::string("cannot read the configuration file: ") + std::strerror(error.error_number()));
  }
  if (content.as<Value::Object>() == nullptr) refuse("expected an object, found " + content.kind());
  return content;
}

Config load(const std::filesystem::path& path, const Arguments& arguments) {
  const bool has_file = !path.empty();
  const std::string place = has_file ? path.string() : std::string(kNoFile);
  const Value content = has_file ? read_file(path) : Value{Value::Object()};

  Section top(place, "", "", *content.as<Value::Object>());
  top.give("task", arguments.task);
  top.give("dump_path", arguments.dump_path);
  if (!has_file) top.give("dump_path", {std::string(kFolderWithoutFile)});  // the first one counts
  top.give("level", arguments.level);
  top.give("step", arguments.step);
  top.read();
  const Task& chosen = chosen_task(top);
  const std::string task(chosen.name);
  const Value::Object& of_task = object_of(content.find(task), top, task);
  check_top_keys(top, place, task, of_task);
  check_top(top, chosen);

  Config config;
  config.task = task;
  config.dump_path = top.values().text("dump_path");
  config.ranks = top.values().integers("rank");
  config.steps = top.values().integers("step");
  config.level = top.values().text("level");
  config.enable_dataloader = top.values().flag("enable_dataloader");
  config.async_dump = top.values().flag("async_dump");
  config.section = read_section(place, task, task, of_task, top.values());
  return config;
}

Values load_section(const std::filesystem::path& path, std::string_view task) {
  const Value content = read_file(path);
  const Section top(path.string(), "", "", *content.as<Value::Object>());
  const std::string name(task);
  return read_section(path.string(), name, name, object_of(content.find(task), top, task), plain_top());
}

Values load_own_file(const std::filesystem::path& path, std::string_view task) {
  const Value content = read_file(path);
  return read_section(path.string(), std::string(task), "", *content.as<Value::Object>(), plain_top());
}

Values check_section(const std::string& place, std::string_view task, const Value& keys) {
  const std::string name(task);
  const auto* const object = keys.as<Value::Object>();
  if (object == nullptr) throw InvalidArgument(place + ": expected an object, found " + keys.shown());
  return read_section(place, name, name, *object, plain_top());
}

// ---- Values

bool Values::contains(std::string_view key) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const Value::Member& one) { return one.first == key; });
}

const Value& Values::at(std::string_view key) const {
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const Value::Member& one) { return one.first == key; });
  if (found == values_.end()) throw InternalError("the configuration has no key " + std::string(key));
  return found->second;
}

namespace {

template <typename T>
const T& as(const Value& value, std::string_view key) {
  const T* const result = value.as<T>();
  if (result == nullptr) {
    throw InternalError("the configuration's key " + std::string(key) + " holds " + value.kind());
  }
  return *result;
}

template <typename T>
std::vector<T> list_of(const Value& value, std::string_view key) {
  std::vector<T> result;
  for (const Value& one : as<Value::List>(value, key)) result.push_back(as<T>(one, key));
  return result;
}

}  // namespace

bool Values::flag(std::string_view key) const { return as<bool>(at(key), key); }
std::int64_t Values::integer(std::string_view key) const { return as<std::int64_t>(at(key), key); }
const std::string& Values::text(std::string_view key) const { return as<std::string>(at(key), key); }
std::vector<std::string> Values::texts(std::string_view key) const {
  return list_of<std::string>(at(key), key);
}
std::vector<std::int64_t> Values::integers(std::string_view key) const {
  return list_of<std::int64_t>(at(key), key);
}
bool Values::has(std::string_view key, std::string_view text) const {
  const std::vector<std::string> all = texts(key);
  return std::find(all.begin(), all.end(), text) != all.end();
}

}  // namespace msprobe::config
