// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "io/in_quotes.h"
#include "msprobe/record_name.h"

namespace msprobe::config {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModule = "Module.";
constexpr std::string_view kCell = "Cell.";  // of another framework
constexpr std::int64_t kLargestPort = 65535;

std::string joined_by_or(std::string words) {
  for (std::size_t at = words.find(' '); at != words.npos; at = words.find(' ', at + 4)) {
    words.replace(at, 1, " or ");
  }
  return words;
}

void check_level(Section& top, const Task& task) {
  const std::string level = top.values().text("level");
  const std::string name(task.name);
  if (!task.levels.empty() && !has_word(task.levels, level)) {
    const std::string used(task.levels.substr(task.levels.rfind(' ') + 1));  // npos + 1 is 0
    if (top.is_given("level")) {
      top.warn("level", "task " + name + " needs level " + joined_by_or(std::string(task.levels)) +
                            ", found " + level + ": " + used + " is used");
    }
    top.set("level", {used});
  } else if (level == "L2" && rules_of(name) == check_dump && name != "tensor") {
    top.fail("level", "expected task tensor at level L2, found task " + name);
  }
}

void check_dump_path(const Section& top) {
  if (!top.is_given("dump_path")) {
    top.fail("dump_path",
             "The dump_path not found. Expected in the file or as an argument of PrecisionDebugger");
  }
  const fs::path path = top.values().text("dump_path");
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::is_symlink(status)) {
    top.fail("dump_path", "expected a directory, " + path.string() + " is a symbolic link");
  }
  if (fs::exists(status) && !fs::is_directory(status)) {
    top.fail("dump_path", "expected a directory, " + path.string() + " is a file");
  }
}

// "Functional.relu.0.forward"
bool is_name_of_call(std::string_view text) {
  const trace::RecordName name(text);
  return name.kind() == trace::NameKind::kCall && !name.count().empty() && !name.callee().empty();
}

void check_scope(Section& section, const std::string& level) {
  const std::vector<std::string> names = section.values().texts("scope");
  if (names.empty()) return;
  if (names.size() != 2) {
    section.fail("scope", "expected the names of the first and the last record, " + section.found("scope"));
  }
  if (level == "L2") section.fail("scope", "expected no scope at level L2, " + section.found("scope"));
  for (const std::string& name : names) {
    const bool is_module = name.starts_with(kModule) || name.starts_with(kCell);
    if (level == "L0" && !is_module) {
      section.fail("scope",
                   "expected names that begin with \"Module.\" at level L0, found " + io::in_quotes(name));
    }
    if (level == "L1" && is_module) {
      section.fail("scope",
                   "expected names of APIs at level L1, not of modules, found " + io::in_quotes(name));
    }
    if (level == "L1" && !is_name_of_call(name)) {
      section.fail("scope", "expected full names such as \"Functional.relu.0.forward\" at level L1, found " +
                                io::in_quotes(name));
    }
  }
}

void check_list(Section& section, const Values& top) {
  const std::string& level = top.text("level");
  const std::size_t count = section.values().texts("list").size();
  if (level == "L2" && count != 1) {
    section.fail("list", "expected exactly one name at level L2, " + section.found("list"));
  }
  if (top.flag("async_dump") && section.task() == "tensor" && level != "debug" && count == 0) {
    section.fail("list",
                 "expected at least one name with \"async_dump\" and task tensor, " + section.found("list"));
  }
}

// Without a direction both directions are meant, and without a side both sides.
void complete_data_mode(Section& section) {
  Value::List words;
  const Values& values = section.values();
  for (const auto& [one, other] : {std::pair("forward", "backward"), std::pair("input", "output")}) {
    const bool neither = !values.has("data_mode", one) && !values.has("data_mode", other);
    for (const char* const word : {one, other}) {
      if (neither || values.has("data_mode", word)) words.emplace_back(std::string(word));
    }
  }
  section.set("data_mode", {std::move(words)});
}

void check_scope_of_calls(const Section& section) {
  for (const std::string& name : section.values().texts("scope")) {
    if (name.starts_with(kModule)) {
      section.fail("scope", "expected names of APIs, not of modules, found " + io::in_quotes(name));
    }
  }
}

void check_fix(const Section& section) {
  const Values& values = section.values();
  const std::string& mode = values.text("pert_mode");
  if (mode != "improve_precision" && mode != "to_cpu") {
    section.fail("handler_type", "fix needs pert_mode improve_precision or to_cpu, found " + mode);
  }
  if (values.text("fuzz_stage") != "forward") {
    section.fail("handler_type", "fix needs fuzz_stage forward, found " + values.text("fuzz_stage"));
  }
  if (values.flag("if_preheat")) section.fail("handler_type", "fix needs if_preheat false, found true");
}

double number(const Section& section, std::string_view key) {
  const auto* const value = section.values().at(key).as<double>();
  if (value == nullptr) throw InternalError("the configuration's key " + std::string(key) + " is no number");
  return *value;
}

// A text that only matters beside another key, so that no row checks it.
const std::string& text_of(const Section& section, std::string_view key) {
  const auto* const text = section.values().at(key).as<std::string>();
  if (text == nullptr) section.fail(key, "expected text, " + section.found(key));
  return *text;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_ipv4(const std::string& text) {
  in_addr address{};
  return text.find('\0') == text.npos && inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// Where the two sides of an online check meet: a folder, which wins, or an address. `side`: "server" or
// "client", whose key and certificate are in `tls_path`.
void check_meeting(const Section& section, const std::string& side) {
  const std::string& folder = text_of(section, "nfs_path");
  if (!folder.empty()) {
    if (!is_folder(folder)) section.fail("nfs_path", "expected a folder, " + section.found("nfs_path"));
    return;
  }
  const std::string& tls = text_of(section, "tls_path");
  const std::string key = side + ".key";
  const std::string certificate = side + ".crt";
  for (const std::string& name : {key, certificate, std::string("ca.crt")}) {
    std::error_code ignored;
    if (tls.empty() || fs::is_regular_file(fs::path(tls) / name, ignored)) continue;
    std::string problem = "expected a folder with ";
    problem.append(key).append(", ").append(certificate).append(" and ca.crt, found no ").append(name);
    section.fail("tls_path", problem.append(" in ").append(io::in_quotes(tls)));
  }
  if (!is_ipv4(text_of(section, "host"))) {
    section.fail("host", "host is invalid, expected an IPv4 address, " + section.found("host"));
  }
  const auto* const port = section.values().at("port").as<std::int64_t>();
  if (port == nullptr || *port < 1 || *port > kLargestPort) {
    section.fail("port", "port is invalid, expected 1 to " + std::to_string(kLargestPort) + ", " +
                             section.found("port"));
  }
}

}  // namespace

void check_top(Section& top, const Task& task) {
  check_level(top, task);
  check_dump_path(top);
}

void check_dump(Section& section, const Values& top) {
  const std::string& level = top.text("level");
  const auto has = [&](std::string_view key) { return section.values().contains(key); };
  if (has("scope")) check_scope(section, level);
  if (has("list")) check_list(section, top);
  for (const char* const key : {"scope", "list", "tensor_list"}) {
    if (level != "debug" || !has(key) || section.values().texts(key).empty()) continue;
    section.warn(key, "level debug does not use this key");
    section.reset(key);
  }
  if (has("data_mode")) complete_data_mode(section);
  if (has("summary_mode") && section.values().text("summary_mode") == "xor") {
    section.warn("summary_mode", "the checksums are CRC-32, as with md5");
    section.set("summary_mode", {std::string("md5")});
  }
  if (has("overflow_nums")) {
    const std::int64_t number = section.values().integer("overflow_nums");
    if (number != -1 && number < 1) {
      section.fail("overflow_nums",
                   "overflow_nums should be -1 or positive integer, " + section.found("overflow_nums"));
    }
  }
  // The keys beside this one mean nothing while the check is off.
  if (has("online_run_ut") && section.values().flag("online_run_ut")) {
    if (level != "L1" && level != "mix") {
      section.fail(
          "online_run_ut",
          R"(expected level "L1" or "mix", whose records are of functions, found )" + io::in_quotes(level));
    }
    if (top.flag("async_dump")) section.fail("online_run_ut", R"(expected "async_dump" false)");
    check_meeting(section, "client");
  }
  if (!section.is_given("stacks")) section.set("stacks", {top.flag("extra_info")});
}

void check_free_benchmark(Section& section, const Values& /*top*/) {
  const Values& values = section.values();
  check_scope_of_calls(section);
  const std::string& device = values.text("fuzz_device");
  const std::string& mode = values.text("pert_mode");
  if ((device == "cpu") != (mode == "to_cpu")) {
    section.fail("fuzz_device", "expected \"cpu\" with pert_mode to_cpu, and only with it, found " +
                                    io::in_quotes(device) + " with pert_mode " + mode);
  }
  if (!values.texts("scope").empty() && !values.texts("list").empty()) {
    section.fail("list", "Scope and api_list conflict: expected only one of scope and list");
  }
  if (values.text("handler_type") == "fix") check_fix(section);
  if (values.flag("if_preheat") && values.text("fuzz_stage") == "backward") {
    section.fail("if_preheat", "expected false with fuzz_stage backward, found true");
  }
}

void check_monitor(Section& section, const Values& /*top*/) {
  if (number(section, "expert_capacity") == 0) {
    section.fail("expert_capacity", "expected a number above 0, " + section.found("expert_capacity"));
  }
}

void check_monitor_rule(Section& section, const Values& /*top*/) {
  if (!section.is_given("rule")) {
    section.fail("rule", "expected a key \"rule\" with one of nonfinite, limit, spike, drift, turbulence");
  }
  const std::string rule = section.values().text("rule");
  if (!section.is_given("name")) section.set("name", {rule});
  if (section.values().text("name").empty()) {
    section.fail("name", "expected a name, " + section.found("name"));
  }
  if (rule != "nonfinite" && !section.is_given("threshold")) {
    section.fail("threshold", "rule " + rule + " needs a \"threshold\"");
  }
  if (rule != "spike" && rule != "drift") return;
  if (!section.is_given("ratio")) section.set("ratio", {2.0});
  if (number(section, "ratio") <= 1) {
    section.fail("ratio", "expected a number above 1, " + section.found("ratio"));
  }
}

void check_monitor_alarm(Section& section, const Values& /*top*/) {
  const Value command = section.values().at("command");
  if (command.as<std::string>() != nullptr) {
    section.set("command", {Value::List{command}, command.line});
  } else if (command.as<Value::List>() == nullptr) {
    section.fail("command", "expected a program, or a list of words, " + section.found("command"));
  } else {
    for (const Value& word : *command.as<Value::List>()) {
      if (word.as<std::string>() != nullptr) continue;
      section.fail("command", "expected a list of strings, found " + word.shown() + " in it");
    }
  }
  const std::string& webhook = section.values().text("webhook");
  const bool is_address = webhook.starts_with("https://") || webhook.starts_with("http://");
  if (section.is_given("webhook") && !is_address) {
    section.fail("webhook",
                 "expected an address that begins with https:// or http://, " + section.found("webhook"));
  }
}

void check_run_ut(Section& section, const Values& /*top*/) {
  if (!is_folder(section.values().text("error_data_path"))) {
    section.fail("error_data_path", "expected a folder that exists, " + section.found("error_data_path"));
  }
  const auto* const ranks = section.values().at("rank_list").as<Value::List>();
  if (ranks == nullptr) section.fail("rank_list", "rank_list must be a list, " + section.found("rank_list"));
  for (const Value& rank : *ranks) {
    const auto* const index = rank.as<std::int64_t>();
    if (index != nullptr && *index >= 0) continue;
    section.fail("rank_list", "All elements in rank_list must be integers, found " + rank.shown());
  }
  if (section.values().flag("is_online")) check_meeting(section, "server");
}

}  // namespace msprobe::config
