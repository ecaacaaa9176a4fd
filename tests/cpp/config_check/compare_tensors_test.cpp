// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.h"
#include "msprobe/config_check.h"
#include "msprobe/error.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::config_check;
using namespace msprobe::test;

namespace {

// A local header with nothing but its mark and the lengths of what follows it: that is all a reader needs.
std::string stored(const std::string& data) {
  std::string header("PK\3\4", 4);
  header.resize(30, '\0');
  return header + data;
}

// A file of stored entries one after the other. CRC-32 by the definition.
class PackOnDisk {
 public:
  Entry add(const std::string& name, const std::string& data) {
    const Entry entry{name, bytes_.size(), data.size(), data.size(), crc(data), false};
    bytes_ += stored(data);
    return entry;
  }
  PackFile open() {
    write_bytes(dir_ / "p.zip", bytes_);
    return PackFile(dir_ / "p.zip");
  }

 private:
  static std::uint32_t crc(const std::string& data) {
    std::uint32_t value = ~0U;
    for (const char c : data) {
      value ^= static_cast<std::uint8_t>(c);
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320U : 0U);
    }
    return ~value;
  }

  TempDir dir_;
  std::string bytes_;
};

std::string tensor(const std::string& value) {
  return R"({"max": )" + value + R"(, "min": )" + value + R"(, "mean": )" + value + R"(, "norm": )" + value +
         "}";
}

struct Sides {
  std::string reference, target;
  std::string reference_print, target_print;  // empty: none
};

TensorComparison compared(const Sides& sides, CompareOptions options = {}) {
  PackOnDisk reference, target;
  const auto add = [](PackOnDisk& pack, const std::string& text, const std::string& print) {
    TensorEntries entries{pack.add("weights", text), std::nullopt};
    if (!print.empty()) entries.fingerprints = pack.add("prints", print);
    return entries;
  };
  std::pair<TensorEntries, TensorEntries> pair{add(reference, sides.reference, sides.reference_print),
                                               add(target, sides.target, sides.target_print)};
  options.threads = 1;
  return compare_tensors(reference.open(), target.open(), std::span(&pair, 1), options).at(0);
}

Verdict only_verdict(const Sides& sides, const CompareOptions& options = {}) {
  const TensorComparison result = compared(sides, options);
  REQUIRE(result.problems.empty());
  REQUIRE(result.rows.size() == 1);
  return result.rows.front().verdict;
}

Sides weights(const std::string& reference, const std::string& target,
              const std::string& reference_print = "", const std::string& target_print = "") {
  const auto named = [](const std::string& value) {
    return value.empty() ? value : R"({"w": )" + value + "}";
  };
  return {named(tensor(reference)), named(tensor(target)), named(reference_print), named(target_print)};
}

}  // namespace

TEST_CASE("compare_tensors: statistics as Python reads them") {
  CHECK(only_verdict(weights("1", "1.0")) == Verdict::kEqual);
  CHECK(only_verdict(weights("NaN", "NaN")) == Verdict::kEqual);
  CHECK(only_verdict(weights("Infinity", "Infinity")) == Verdict::kEqual);
  CHECK(only_verdict(weights("-Infinity", "Infinity")) == Verdict::kOtherStatistics);
  CHECK(only_verdict(weights("1e-999", "0")) == Verdict::kEqual);
  CHECK(only_verdict(weights("1", "1.0000000000000002")) == Verdict::kOtherStatistics);
}

TEST_CASE("compare_tensors: relative differences have the sign of reference, 16 digits, and none of zero") {
  const TensorComparison result = compared(weights("-3", "-2"));
  CHECK(result.rows.front().relative_differences.front() == -0.3333333333333333);
  CHECK(std::isnan(compared(weights("0", "1")).rows.front().relative_differences.front()));
  CHECK(compared(weights("1", "Infinity")).rows.front().relative_differences.front() == INFINITY);
}

TEST_CASE("compare_tensors: what fingerprints say") {
  const std::string a = R"({"dtype": "f32", "shape": [2, 3], "crc32": "1"})";
  const std::string a_otherwise = R"({ "crc32":"1","shape":[2,3], "dtype":"f32"})";
  const std::string b = R"({"dtype": "f32", "shape": [2, 3], "crc32": "2"})";
  CHECK(only_verdict(weights("1", "1", a, a_otherwise)) == Verdict::kEqual);
  CHECK(only_verdict(weights("1", "1", a, b)) == Verdict::kOtherElements);
  CHECK(only_verdict(weights("1", "2", a, b)) == Verdict::kOtherValues);
  CHECK(only_verdict(weights("1", "1", a, R"({"dtype": "f64"})")) == Verdict::kOtherType);
  CHECK(only_verdict(weights("1", "1", a, R"({"dtype": "f32", "shape": [23]})")) == Verdict::kOtherShape);
  CHECK(only_verdict(weights("1", "1", a)) == Verdict::kEqual);  // there is only one
  CHECK(only_verdict(weights("1", "1", a, b), {.tolerant = true}) == Verdict::kEqual);
  const std::string long_text(100, 'x');
  CHECK(only_verdict(weights("1", "1", R"({"unmeasured": ")" + long_text + R"(a"})",
                             R"({"unmeasured": ")" + long_text + R"(b"})")) == Verdict::kOtherElements);
}

TEST_CASE("compare_tensors: packs of different tools may differ in mean and norm, and only there") {
  const auto with = [](const char* max, const char* norm) {
    return std::string(R"({"w": {"max": )") + max + R"(, "min": 1, "mean": 1, "norm": )" + norm + "}}";
  };
  CHECK(only_verdict({with("1", "1"), with("1", "1.0005"), "", ""}, {.tolerant = true}) == Verdict::kEqual);
  CHECK(only_verdict({with("1", "1"), with("1", "1.01"), "", ""}, {.tolerant = true}) ==
        Verdict::kOtherStatistics);
  CHECK(only_verdict({with("1", "1"), with("1.0005", "1"), "", ""}, {.tolerant = true}) ==
        Verdict::kOtherStatistics);
}

TEST_CASE("compare_tensors: trees of inputs") {
  const std::string tree = R"({"args": {"0": )" + tensor("1") +
                           R"(, "1": "", "2": {}}, "kwargs": {"m": {"x": )" + tensor("2") + "}}}";
  const TensorComparison result = compared({tree, tree, "", ""}, {.nested = true});
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[0].name == "args.0");
  CHECK(result.rows[1].name == "kwargs.m.x");
}

TEST_CASE("compare_tensors: what only one side has stands in the order of its side") {
  const std::string one = R"({"a": )" + tensor("1") + R"(, "b": )" + tensor("1") + "}";
  const std::string two = R"({"c": )" + tensor("1") + R"(, "a": "" })";
  const TensorComparison result = compared({one, two, "", ""});
  REQUIRE(result.rows.size() == 3);
  CHECK(result.rows[0].verdict == Verdict::kNoTensor);
  CHECK(result.rows[1].verdict == Verdict::kOnlyReference);
  CHECK(result.rows[2].verdict == Verdict::kOnlyTarget);
}

TEST_CASE("compare_tensors: what is no JSON object is a problem") {
  for (const std::string& text : {std::string(), std::string("[1]"), std::string("null"), std::string("1"),
                                  std::string("\"x\""), std::string("{"), std::string("{} x"),
                                  std::string(1000, '['), std::string("\xFF"), std::string(2, '\0')}) {
    const TensorComparison result = compared({text, "{}", text.empty() ? "x" : text, ""});
    CHECK_FALSE(result.complete);
    CHECK(result.rows.empty());
    REQUIRE(result.problems.size() == 2);
    CHECK(result.problems[0].of_reference);
    CHECK(result.problems[0].entry == "weights");
    CHECK(result.problems[1].entry == "prints");
  }
}

TEST_CASE("PackFile: entries that are not where they should be") {
  PackOnDisk disk;
  const Entry good = disk.add("good", "12345678");
  const PackFile file = disk.open();
  CHECK(file.content(good) == "12345678");
  const auto refused = [&](auto change) {
    Entry bad = good;
    change(bad);
    CHECK_THROWS_AS(file.content(bad), FormatError);
  };
  refused([](Entry& e) { e.offset = 1; });
  refused([](Entry& e) { e.offset = 39; });
  refused([](Entry& e) { e.offset = ~0ULL; });
  refused([](Entry& e) { e.packed = e.size = 9; });
  refused([](Entry& e) { e.packed = ~0ULL; });
  refused([](Entry& e) { e.size = 7; });
  refused([](Entry& e) { e.crc ^= 1; });
  refused([](Entry& e) { e.deflated = true; });
  refused([](Entry& e) {
    e.deflated = true;
    e.size = 1ULL << 60;  // allocates nothing
  });
}
