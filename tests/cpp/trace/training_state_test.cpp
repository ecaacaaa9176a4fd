// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/training_state.h"

#include <sys/stat.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "catch.h"
#include "msprobe/error.h"
#include "temp_dir.h"
#include "trace/refusal.h"

using namespace msprobe;
using trace::Json;
using trace::read_training_state;

namespace {

class Folder {
 public:
  Json read(const std::string& text) {
    test::write_bytes(path(), text);
    return read_training_state(path()).root;
  }
  std::filesystem::path path() const { return folder_ / "diagnosis.json"; }
  // What is said; empty: it is read.
  std::string refusal() const {
    try {
      (void)read_training_state(path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  test::TempDir folder_;
};

}  // namespace

TEST_CASE("training state: values are as they stand in the file") {
  Folder folder;
  const Json root =
      folder.read(R"({"a": {"b": [1, -2.5e3, true, null, "x\u00e9"]}, "n": NaN, "i": -Infinity})");
  const auto& items = root["a"]["b"].items();
  REQUIRE(items.size() == 5);
  CHECK(items[0].number() == 1);
  CHECK(items[1].number() == -2500);
  CHECK(items[2].number() == 1);
  CHECK(items[2].kind() == Json::Kind::kBool);
  CHECK(items[3].is_null());
  CHECK_FALSE(items[3].number());
  CHECK(items[4].text() == "x\xc3\xa9");
  CHECK_FALSE(items[4].number());
  CHECK(std::isnan(*root["n"].number()));
  CHECK(root["i"].number() == -std::numeric_limits<double>::infinity());
  CHECK(root.keys() == std::vector<std::string>{"a", "n", "i"});
}

TEST_CASE("training state: what is not there is null, whatever is asked") {
  Folder folder;
  const Json root = folder.read(R"({"a": 3, "l": [1]})");
  CHECK(root["x"].is_null());
  CHECK(root["x"]["y"]["z"].is_null());
  CHECK(root["a"]["b"].is_null());
  CHECK(root["l"]["0"].is_null());
  CHECK(root["a"].items().empty());
  CHECK(root["a"].keys().empty());
  CHECK(root.find("x") == nullptr);
}

TEST_CASE("training state: of a key that occurs twice the last counts") {
  Folder folder;
  CHECK(folder.read(R"({"a": 1, "b": 2, "a": 3})")["a"].number() == 3);
  std::string many = "{";
  for (int i = 0; i < 2000; ++i) many += "\"k" + std::to_string(i % 1000) + "\": " + std::to_string(i) + ", ";
  const Json root = folder.read(many + "\"end\": 0}");
  CHECK(root["k0"].number() == 1000);
  CHECK(root["k999"].number() == 1999);
  CHECK(root["end"].number() == 0);
  CHECK(root["k"].is_null());
}

TEST_CASE("training state: equality is that of content") {
  Folder folder;
  const auto value = [&](const std::string& text) { return folder.read(R"({"v": )" + text + "}")["v"]; };
  CHECK(value("1") == value("1.0"));
  CHECK(value("NaN") == value("NaN"));
  CHECK(value(R"({"a": 1, "b": [2]})") == value(R"({"b": [2], "a": 1})"));
  CHECK_FALSE(value("1") == value("\"1\""));
  CHECK_FALSE(value("null") == value("false"));
  CHECK_FALSE(value("[1, 2]") == value("[2, 1]"));
  CHECK_FALSE(value(R"({"a": 1})") == value(R"({"a": 1, "b": null})"));
  CHECK(value("true") == value("1"));  // a flag that one version writes as a number
}

TEST_CASE("training state: what is none is refused, with its path") {
  Folder folder;
  for (const char* text : {"", "{", "[]", "3", "null", "\"x\"", "{\"a\": }", "{\"a\": 1,}", "{} {}",
                           "{\"a\": \"\xff\"}", "{\"a\": 01}", "{\"a\": tru}", "{'a': 1}"}) {
    CAPTURE(text);
    test::write_bytes(folder.path(), text);
    CHECK(folder.refusal().starts_with(folder.path().string()));
  }
}

TEST_CASE("training state: nesting without end is refused") {
  Folder folder;
  for (const int depth : {65, 1000, 1000000}) {
    for (const std::string open : {"[", "{\"a\": "}) {
      std::string text = "{\"a\": ";
      for (int i = 0; i < depth; ++i) text += open;
      test::write_bytes(folder.path(), text);
      CHECK(test::contains(folder.refusal(), "nesting deeper than 64"));
    }
  }
  CHECK(folder.read("{\"a\": " + std::string(60, '[') + std::string(60, ']') + "}")["a"].is_list());
}

TEST_CASE("training state: a file that is cut anywhere is refused") {
  Folder folder;
  const std::string whole =
      R"({"version": 1, "inputs": [{"model": "", "tensors": {"x": {"dtype": "torch.float32"}}}]})";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    test::write_bytes(folder.path(), whole.substr(0, length));
    CHECK_FALSE(folder.refusal().empty());
  }
}

TEST_CASE("training state: devices, pipes, folders and what is not there are refused at once") {
  Folder folder;
  CHECK(test::contains(folder.refusal(), folder.path().string()));
  std::filesystem::create_symlink("/dev/zero", folder.path());
  CHECK(test::contains(folder.refusal(), folder.path().string()));
  std::filesystem::remove(folder.path());
  REQUIRE(::mkfifo(folder.path().c_str(), 0600) == 0);
  CHECK(test::contains(folder.refusal(), folder.path().string()));
  std::filesystem::remove(folder.path());
  std::filesystem::create_directory(folder.path());
  CHECK(test::contains(folder.refusal(), folder.path().string()));
  std::filesystem::remove(folder.path());
  std::filesystem::create_symlink(folder.path(), folder.path());
  CHECK(test::contains(folder.refusal(), folder.path().string()));
}

TEST_CASE("training state: a file above 1 GiB is refused before it is read") {
  Folder folder;
  test::write_bytes(folder.path(), "{}");
  std::filesystem::resize_file(folder.path(), (std::uintmax_t{1} << 30) + 1);
  CHECK(test::contains(folder.refusal(), "at most 1 GiB"));
}
