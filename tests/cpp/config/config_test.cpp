// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/config.h"

#include <set>
#include <string>
#include <vector>

#include "catch.h"
#include "config/checked_value.h"
#include "config/section.h"
#include "log_capture.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::config;
using Catch::Matchers::Equals;
using msprobe::test::TempDir;
using msprobe::test::write_bytes;

namespace {

// A configuration in a file.
class File {
 public:
  explicit File(const std::string& text, const std::string& name = "config.json") : path_(dir_ / name) {
    write_bytes(path_, text);
  }
  const std::filesystem::path& path() const { return path_; }
  Config load(const Arguments& arguments = {}) const { return config::load(path_, arguments); }

  // The message without the path.
  std::string refusal(const Arguments& arguments = {}) const {
    try {
      load(arguments);
    } catch (const Error& error) {
      const std::string text = error.what();
      const std::string path = path_.string() + ": ";
      return text.starts_with(path) ? text.substr(path.size()) : text;
    }
    return "accepted";
  }

 private:
  TempDir dir_;
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("config: a file, with the default of every key that it does not have") {
  const File file(R"({"task": "tensor", "dump_path": "x", "step": [7, "2-4", 3],
                      "tensor": {"list": ["relu"], "data_mode": ["forward"]}})");
  const Config config = file.load();
  CHECK(config.task == "tensor");
  CHECK(config.dump_path == "x");
  CHECK(config.level == "L1");
  CHECK(config.steps == std::vector<std::int64_t>{2, 3, 4, 7});
  CHECK(config.ranks.empty());
  CHECK_FALSE(config.async_dump);
  CHECK(config.section.texts("list") == std::vector<std::string>{"relu"});
  CHECK(config.section.texts("data_mode") == std::vector<std::string>{"forward", "input", "output"});
  CHECK(config.section.text("tensor_format") == "pt");
  CHECK(config.section.flag("stacks"));
  CHECK_THROWS_AS(config.section.at("overflow_nums"), InternalError);
  CHECK_THROWS_AS(config.section.flag("list"), InternalError);
}

TEST_CASE("config: YAML says the same as JSON") {
  const Config json =
      File(
          R"({"dump_path": "x", "statistics": {"scope": ["Torch.a.0.forward", "a.1.backward"], "stacks": false}})")
          .load();
  const Config yaml =
      File("dump_path: x\nstatistics:\n  scope: [Torch.a.0.forward, a.1.backward]\n  stacks: no\n",
           "config.yaml")
          .load();
  CHECK(json.section.all() == yaml.section.all());
  CHECK(json.task == "statistics");
}

TEST_CASE("config: what a program gives wins over the file") {
  const File file(R"({"task": "tensor", "dump_path": "x", "level": "L0", "step": [1]})");
  const Config config = file.load({.task = {std::string("grad_probe")},
                                   .dump_path = {std::string("y")},
                                   .level = {std::string("mix")},
                                   .step = {Value::List{{std::string("2-3")}}}});
  CHECK(config.task == "grad_probe");
  CHECK(config.dump_path == "y");
  CHECK(config.level == "mix");
  CHECK(config.steps == std::vector<std::int64_t>{2, 3});
  CHECK(config::load("", {.task = {}, .dump_path = {std::string("z")}, .level = {}, .step = {}}).task ==
        "statistics");
  CHECK_THAT(file.refusal({.task = {}, .dump_path = {}, .level = {std::string("L7")}, .step = {}}),
             Equals("PrecisionDebugger(): \"level\": expected one of L0, L1, L2, mix, debug, found \"L7\""));
}

TEST_CASE("config: without a file the folder has a default, with one it has none") {
  CHECK(config::load("").dump_path == "./dump_path");
  CHECK(config::load("", {.task = {}, .dump_path = {std::string("z")}, .level = {}, .step = {}}).dump_path ==
        "z");
}

TEST_CASE("config: what is wrong is named with its line") {
  const auto refusal = [](const std::string& text) { return File(text).refusal(); };
  CHECK_THAT(refusal("{\"task\":\n 3}"),
             Equals("line 2: \"task\": expected one of statistics, tensor, structure, "
                    "overflow_check, grad_probe, free_benchmark, monitor, run_ut, acc_check, "
                    "diff_check, nan_check, exception_dump, found 3"));
  CHECK_THAT(refusal("{}"),
             Equals("\"dump_path\": The dump_path not found. Expected in the file or as an argument "
                    "of PrecisionDebugger"));
  CHECK_THAT(refusal("{\"dump_path\": \"x\",\n\"step\": [1,\n2,\n-3]}"),
             Equals("line 4: \"step\": expected numbers from 0 to 1000000, found -3"));
  CHECK_THAT(
      refusal("{\"dump_path\": \"x\", \"statistics\": {\n\"summary_mode\": \"crc\"}}"),
      Equals("line 2: \"statistics.summary_mode\": expected one of statistics, md5, xor, found \"crc\""));
  CHECK_THAT(refusal("{\"dump_path\": \"x\", \"statistics\": {\n\"sumary_mode\": \"md5\"}}"),
             Equals("line 2: \"statistics.sumary_mode\": unknown key: did you mean \"summary_mode\"?"));
  CHECK_THAT(refusal("{\"dump_path\": \"x\",\n\"list\": []}"),
             Equals("line 2: \"list\": expected inside of \"statistics\", found at the top level"));
  CHECK_THAT(refusal("{\"dump_path\": \"x\",\n\"statistics\": []}"),
             Equals("line 2: \"statistics\": expected an object, found []"));
  CHECK_THAT(refusal("{\"task\": \"run_ut\"}"),
             Equals("line 1: \"task\": run_ut is no task of msprobe: command msprobe run_ut checks a dump of "
                    "task tensor "
                    "or statistics; expected one of statistics, tensor, structure, overflow_check, "
                    "grad_probe, free_benchmark, monitor"));
  for (const char* const name : {"relu", "Torch.relu", "Torch.relu.forward", "Torch.relu.0",
                                 "Torch.relu.x.forward", "0.forward", "Torch.relu..forward", ".0.forward"}) {
    CHECK_THAT(
        refusal(R"({"dump_path": "x", "statistics": {"scope": ["Torch.a.0.forward", ")" + std::string(name) +
                "\"]}}"),
        Equals("line 1: \"statistics.scope\": expected full names such as \"Functional.relu.0.forward\" at "
               "level L1, found \"" +
               std::string(name) + "\""));
  }
  CHECK_THAT(refusal("[]"), Equals("expected an object, found a list"));
  CHECK_THROWS_AS(File("{").load(), MalformedConfig);
  CHECK_THROWS_AS(File("a: [", "config.yml").load(), MalformedConfig);
  CHECK_THROWS_AS(config::load("none.json"), InvalidArgument);
  CHECK_THROWS_AS(config::load("none.txt"), InvalidArgument);
}

TEST_CASE("config: what is odd and does no harm is a warning") {
  const File file(
      "{\"dump_path\": \"x\", \"hue\": 1, \"zzz\": 2,\n \"statistics\": {\"overflow_nums\": 3, \"colour\": "
      "1}}");
  const test::LogCapture log;
  (void)file.load();
  const std::string path = file.path().string();
  CHECK(log.warnings() ==
        std::vector<std::string>{
            path + ": unknown keys are ignored: hue, zzz",
            path + ": line 2: \"statistics.overflow_nums\": task statistics does not use this key",
            path + ": line 2: \"statistics.colour\": the unknown key is ignored"});
}

TEST_CASE("config: what is known and has no effect says what to use instead") {
  const File file(
      "{\"dump_path\": \"x\", \"precision\": \"low\", \"load\": {},\n\"risk_level\": \"CORE\", "
      "\"statistics\": "
      "{\"device\": \"\",\n\"precision\": \"high\", \"summary_mode\": \"xor\"}}");
  const test::LogCapture log;
  CHECK(file.load().section.text("summary_mode") == "md5");
  const std::string path = file.path().string();
  CHECK(log.warnings() ==
        std::vector<std::string>{
            path + ": line 2: \"risk_level\": the key is ignored: the names of `list` choose which functions "
                   "are recorded",
            path + ": line 3: \"statistics.precision\": the key is ignored: statistics of tensors are always "
                   "computed in double precision",
            path + ": line 3: \"statistics.summary_mode\": the checksums are CRC-32, as with md5"});
}

TEST_CASE("config: steps and ranks may be texts") {
  const File file(R"({"dump_path": "x", "step": ["3", " 1 ", "5-6"], "rank": ["0"]})");
  CHECK(file.load().steps == std::vector<std::int64_t>{1, 3, 5, 6});
  CHECK(file.load().ranks == std::vector<std::int64_t>{0});
  CHECK(File(R"({"dump_path": "x", "step": ["x"]})").refusal() != "accepted");
}

TEST_CASE("config: keys of the free benchmark go together") {
  const auto refusal = [](const std::string& keys) {
    return File(R"({"task": "free_benchmark", "dump_path": "x", "free_benchmark": {)" + keys + "}}")
        .refusal();
  };
  CHECK(refusal(R"("pert_mode": "to_cpu", "fuzz_device": "cpu", "handler_type": "fix")") == "accepted");
  CHECK_THAT(
      refusal(R"("pert_mode": "to_cpu")"),
      Equals("\"free_benchmark.fuzz_device\": expected \"cpu\" with pert_mode to_cpu, and only with it, "
             "found \"npu\" with pert_mode to_cpu"));
  CHECK_THAT(
      refusal(R"("handler_type": "fix", "pert_mode": "add_noise")"),
      Equals("line 1: \"free_benchmark.handler_type\": fix needs pert_mode improve_precision or to_cpu, "
             "found add_noise"));
  CHECK_THAT(refusal(R"("scope": ["Torch.exp.0.forward", "Module.fc"])"),
             Equals("line 1: \"free_benchmark.scope\": expected names of APIs, not of modules, found "
                    "\"Module.fc\""));
  CHECK_THAT(
      refusal(R"("preheat_step": 2147483648)"),
      Equals("line 1: \"free_benchmark.preheat_step\": expected a positive integer, found 2147483648"));
}

namespace {

// What is said of these keys of a section, as a program gives them.
std::string refusal_in(const std::string& task, const std::string& keys) {
  try {
    (void)check_section("here", task, io::parse_json_document(keys, "here"));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("config: rules and alarms of the monitor") {
  const auto refusal = [](const std::string& keys) { return refusal_in("monitor", keys); };
  CHECK(refusal(R"({"evry": 2})") == R"(here: line 1: "monitor.evry": unknown key: did you mean "every"?)");
  CHECK_THAT(refusal(R"({"colour": 2})"),
             Catch::Matchers::StartsWith(
                 R"(here: line 1: "monitor.colour": unknown key: expected one of every, start, )"));
  CHECK(refusal(R"({"expert_capacity": 0})") ==
        R"(here: line 1: "monitor.expert_capacity": expected a number above 0, found 0)");
  CHECK(refusal(R"({"rules": [{"rule": "limit"}]})") ==
        R"(here: "monitor.rules[0].threshold": rule limit needs a "threshold")");
  CHECK(refusal(R"({"rules": ["default", {"rule": "drift", "threshold": 1, "ratio": 1}]})") ==
        R"(here: line 1: "monitor.rules[1].ratio": expected a number above 1, found 1)");
  CHECK(refusal(R"({"alarm": {"command": {}}})") ==
        R"(here: line 1: "monitor.alarm.command": expected a program, or a list of words, found {})");
  CHECK(refusal(R"({"alarm": {"webhook": "ftp://x"}})") ==
        "here: line 1: \"monitor.alarm.webhook\": expected an address that begins with https:// or http://, "
        "found \"ftp://x\"");

  const Values values =
      check_section("here", "monitor",
                    io::parse_json_document(
                        R"({"rules": [{"rule": "spike", "threshold": 3}], "alarm": {"command": "x"}})", ""));
  const Value& rule = values.at("rules").as<Value::List>()->at(0);
  CHECK(*rule.find("name") == Value{std::string("spike")});
  CHECK(*rule.find("ratio") == Value{2.0});
  CHECK(*rule.find("threshold") == Value{3.0});
  CHECK(*values.at("alarm").find("command") == Value{Value::List{{std::string("x")}}});
}

TEST_CASE("config: where an online check of operators meets a training") {
  const TempDir dir;
  const auto refusal = [](const std::string& keys) {
    return refusal_in("run_ut", "{\"is_online\": true, " + keys + "}");
  };
  const std::string in = "here: line 1: \"run_ut.";
  CHECK(refusal("\"nfs_path\": \"" + dir.path().string() + "\"") == "accepted");
  CHECK(refusal(R"("host": "127.0.0.1", "port": 65535)") == "accepted");
  CHECK(refusal(R"("nfs_path": "/missing")") == in + "nfs_path\": expected a folder, found \"/missing\"");
  for (const char* const host : {"localhost", "127.0.0.01", "127.0.0.1 ", "1.2.3", "::1"}) {
    CHECK(refusal("\"port\": 1, \"host\": \"" + std::string(host) + "\"") ==
          in + "host\": host is invalid, expected an IPv4 address, found \"" + host + "\"");
  }
  CHECK(refusal(R"("host": "127.0.0.1", "port": 65536)") ==
        in + "port\": port is invalid, expected 1 to 65535, found 65536");
  CHECK(
      refusal("\"host\": \"127.0.0.1\", \"port\": 1, \"tls_path\": \"" + dir.path().string() + "\"") ==
      in + "tls_path\": expected a folder with server.key, server.crt and ca.crt, found no server.key in \"" +
          dir.path().string() + "\"");
  CHECK(refusal_in("run_ut", R"({"host": 3, "port": []})") == "accepted");
  CHECK(refusal_in("acc_check", R"({"rank_list": [0, true]})") ==
        "here: line 1: \"acc_check.rank_list\": All elements in rank_list must be integers, found true");
}

TEST_CASE("config: the section of a task alone, and a file of a task") {
  const File file(R"({"task": "nonsense", "grad_probe": {"grad_level": "L2"}})");
  CHECK(load_section(file.path(), "grad_probe").text("grad_level") == "L2");
  CHECK(load_section(file.path(), "tensor").text("tensor_format") == "pt");
  const File own("grad_level: L0\nbounds: []\n", "own.yaml");
  CHECK(load_own_file(own.path(), "grad_probe").text("grad_level") == "L0");
  CHECK(load_own_file(file.path(), "grad_probe").text("grad_level") == "L1");
}

TEST_CASE("config: every row of the table has a default of its type") {
  std::set<std::string> tasks_seen;
  for (const Task& task : tasks()) tasks_seen.emplace(task.name);
  for (const Key& key : keys()) {
    INFO(key.name);
    CHECK((key.words.empty() || key.type == Type::kWord || key.type == Type::kWords ||
           key.type == Type::kObjects));
    const Value fallback = fallback_of(key);
    if (fallback.is_null()) continue;
    const Refuse refuse = [](const std::string& problem, const Value&) { throw InvalidArgument(problem); };
    CHECK(checked_value(key, fallback, refuse) == fallback);
  }
  CHECK(tasks_seen.size() == tasks().size());
}

TEST_CASE("config: types that no key of the table has yet") {
  const auto refusal = [](const Key& key, const Value& value) -> std::string {
    try {
      (void)checked_value(key, value,
                          [](const std::string& problem, const Value&) { throw InvalidArgument(problem); });
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  const Key port{.name = "port", .type = Type::kInteger, .least = 1, .most = 65535};
  CHECK(refusal(port, {std::int64_t{80}}) == "accepted");
  CHECK(refusal(port, {std::int64_t{0}}) == "expected an integer from 1 to 65535, found 0");
  CHECK(refusal(port, {80.0}) == "expected an integer from 1 to 65535, found 80.0");
  const Key steps{.name = "steps", .type = Type::kInteger, .least = 1};
  CHECK(refusal(steps, {std::int64_t{-1}}) == "expected an integer of 1 or more, found -1");
  CHECK(refusal(steps, {true}) == "expected an integer of 1 or more, found true");
  const Key eps{.name = "eps", .type = Type::kNumber};
  CHECK(refusal(eps, {1e-8}) == "accepted");
  CHECK(refusal(eps, {std::int64_t{1}}) == "accepted");
  CHECK(refusal(eps, {std::numeric_limits<double>::quiet_NaN()}) == "expected a number, found nan");
  const Key share{.name = "share", .type = Type::kNumber, .least = 0, .most = 1};
  CHECK(refusal(share, {0.5}) == "accepted");
  CHECK(refusal(share, {1.5}) == "expected a number from 0 to 1, found 1.5");
  CHECK(refusal({.name = "eps", .type = Type::kNumber, .least = 0}, {-1.0}) ==
        "expected a number of 0 or more, found -1.0");
  const Key text{.name = "host", .type = Type::kText};
  CHECK(refusal(text, {std::string("a")}) == "accepted");
  CHECK(refusal(text, {std::int64_t{1}}) == "expected text, found 1");
  const Key object{.name = "targets", .type = Type::kObject};
  CHECK(refusal(object, {Value::Object{}}) == "accepted");
  CHECK(refusal(object, {Value::List{}}) == "expected an object, found []");
  static constexpr Word kDefault[] = {{"default", ""}};
  const Key rules{.name = "rules", .type = Type::kObjects, .words = kDefault};
  CHECK(refusal(rules, {std::string("default")}) == "accepted");
  CHECK(refusal(rules, {Value::List{{std::string("default")}, {Value::Object{}}}}) == "accepted");
  CHECK(refusal(rules, {std::string("none")}) == "expected a list of objects, or of default, found \"none\"");
  CHECK(refusal(rules, {Value::List{{std::int64_t{3}}}}) ==
        "expected a list of objects, or of default, found 3 in it");
}

TEST_CASE("config: objects inside of a section have rows of their own") {
  static constexpr Word kDefault[] = {{"default", ""}};
  static constexpr Key kRows[] = {
      {.tasks = "watch", .name = "alarm", .type = Type::kObject, .fallback = "{}"},
      {.tasks = "watch",
       .name = "rules",
       .type = Type::kObjects,
       .fallback = R"("default")",
       .words = kDefault},
      {.tasks = "watch", .name = "free", .type = Type::kObject},
      {.tasks = "watch.alarm", .name = "most", .type = Type::kInteger, .fallback = "3", .least = 0},
      {.tasks = "watch.rules", .name = "ratio", .type = Type::kNumber, .fallback = "2.0", .least = 1},
  };
  const auto read = [&](const std::string& text) {
    const Value content = io::parse_json_document(text, "config.json");
    return read_section("config.json", "watch", "watch", *content.as<Value::Object>(), {}, kRows);
  };
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      (void)read(text);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  const Values defaults = read("{}");
  CHECK(*defaults.at("alarm").find("most") == Value{std::int64_t{3}});
  CHECK(defaults.text("rules") == "default");
  CHECK(defaults.at("free").is_null());
  const Values values = read(R"({"rules": ["default", {}, {"ratio": 4}], "free": {"x": 1}})");
  const Value::List& rules = *values.at("rules").as<Value::List>();
  CHECK(rules.at(0) == Value{std::string("default")});
  CHECK(*rules.at(1).find("ratio") == Value{2.0});
  CHECK(*rules.at(2).find("ratio") == Value{4.0});
  CHECK(*values.at("free").find("x") == Value{std::int64_t{1}});
  CHECK(refusal("{\"alarm\":\n {\"most\":\n -1}}") ==
        "config.json: line 3: \"watch.alarm.most\": expected an integer of 0 or more, found -1");
  CHECK(refusal("{\"rules\": [{},\n {\"ratoi\": 1}]}") ==
        "config.json: line 2: \"watch.rules[1].ratoi\": unknown key: did you mean \"ratio\"?");
  CHECK(refusal(R"({"alarm": 3})") == "config.json: line 1: \"watch.alarm\": expected an object, found 3");
  const test::LogCapture log;
  (void)read(R"({"alarm": {"zzz": 1}})");
  CHECK(log.warnings() ==
        std::vector<std::string>{"config.json: line 1: \"watch.alarm.zzz\": the unknown key is ignored"});
}

TEST_CASE("closest_word: a slip of the fingers, and no other word") {
  const std::vector<std::string> known{"task", "dump_path", "rank", "step", "level"};
  CHECK(closest_word("tasks", known) == "task");
  CHECK(closest_word("dump_paht", known) == "dump_path");
  CHECK(closest_word("Step", known) == "step");
  CHECK(closest_word("lvel", known) == "level");
  CHECK(closest_word("rank", known) == "rank");
  CHECK(closest_word("colour", known).empty());
  CHECK(closest_word("", known).empty());
  CHECK(closest_word("x", {}).empty());
}
