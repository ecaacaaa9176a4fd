// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/table.h"

#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/compare.h"
#include "msprobe/error.h"
#include "temp_dir.h"

using namespace msprobe;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;

namespace {

using Values = std::vector<std::string>;  // Max, Min, Mean, Norm as JSON

std::string tensor(const Values& values) {
  return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": )" + values[0] +
         R"(, "Min": )" + values[1] + R"(, "Mean": )" + values[2] + R"(, "Norm": )" + values[3] + "}";
}

std::string call(int index, const std::string& in, const std::string& out) {
  return "\"Torch.add." + std::to_string(index) + R"(.forward": {"input_args": [)" + in +
         R"(], "output": [)" + out + "]}";
}

std::string dump(const std::string& records, const std::string& task = "statistics") {
  return R"({"task": ")" + task + R"(", "level": "L1", "data": {)" + records + "}}";
}

// One call whose result has these statistics on both sides.
compare::DumpPair pair_of(const TempDir& dir, const Values& target, const Values& reference) {
  const std::string in = tensor({"1.0", "0.0", "0.5", "1.0"});
  write_bytes(dir / "a/dump.json", dump(call(0, in, tensor(target))));
  write_bytes(dir / "b/dump.json", dump(call(0, in, tensor(reference))));
  return compare::open_pair(dir / "a/dump.json", dir / "b/dump.json");
}

compare::RowVerdict judged(const Values& target, const Values& reference) {
  const TempDir dir;
  const compare::DumpPair pair = pair_of(dir, target, reference);
  std::vector<compare::RowVerdict> verdicts;
  compare::judge_record(pair, {}, 0, 2, verdicts);
  REQUIRE(verdicts.size() == 2);
  return verdicts[1];
}

std::string numbers_of_calls(int count) {
  std::string records;
  for (int i = 0; i < count; ++i) {
    const std::string value = std::to_string(i) + ".25";
    if (i > 0) records += ", ";
    records += call(i, tensor({value, value, value, value}), tensor({value, "NaN", "Infinity", "3"}));
  }
  return records;
}

}  // namespace

TEST_CASE("compare table: a statistic that is off by more than half is a warning") {
  CHECK(judged({"1.0", "1.0", "1.0", "1.0"}, {"1.0", "1.0", "1.0", "1.0"}).result.empty());
  CHECK(judged({"1.0", "1.0", "1.0", "1.0"}, {"1.0", "1.0", "1.0", "1.9"}).result.empty());
  const compare::RowVerdict verdict = judged({"1.0", "1.0", "1.0", "1.0"}, {"1.0", "1.0", "2.1", "1.0"});
  CHECK(verdict.result == "Warning");
  CHECK(verdict.message == "Need double check api accuracy.");
  CHECK(verdict.fails);
}

TEST_CASE("compare table: colours of infinities, NaN and huge differences") {
  const Values ones = {"1.0", "1.0", "1.0", "1.0"};
  CHECK(judged(ones, ones).colour == compare::Colour::kNone);
  for (const char* bad : {"NaN", "Infinity", "-Infinity"}) {
    const compare::RowVerdict verdict = judged({bad, "1.0", "1.0", "1.0"}, ones);
    CHECK(verdict.colour == compare::Colour::kRed);
    CHECK(verdict.message.find("maximum or minimum is nan, -inf, or inf") != std::string::npos);
  }
  CHECK(judged({"1e11", "1.0", "1.0", "1.0"}, ones).message.find("maximum absolute error exceeds 1e+10") !=
        std::string::npos);
}

TEST_CASE("compare table: yellow when a result is off by more than what went in") {
  // Maximum off by 20 %, the input is equal.
  const compare::RowVerdict verdict = judged({"1.2", "1.0", "1.0", "1.0"}, {"1.0", "1.0", "1.0", "1.0"});
  CHECK(verdict.colour == compare::Colour::kYellow);
  CHECK(verdict.message ==
        "The output's maximum relative error exceeds 0.1, while the input/parameter's is below 0.01");
  CHECK(judged({"1.6", "1.0", "1.0", "1.0"}, {"1.0", "1.0", "1.0", "1.0"}).colour == compare::Colour::kRed);
}

TEST_CASE("compare table: csv and xlsx do not depend on the number of threads") {
  const TempDir dir;
  write_bytes(dir / "a/dump.json", dump(numbers_of_calls(9000)));
  write_bytes(dir / "b/dump.json", dump(numbers_of_calls(8990)));
  const compare::DumpPair pair = compare::open_pair(dir / "a/dump.json", dir / "b/dump.json");
  for (const char* name : {"t.csv", "t.xlsx"}) {
    const auto one = compare::write_table(pair, {}, {.path = dir / name, .threads = 1});
    const std::string expected = read_bytes(dir / name);
    for (const unsigned threads : {2U, 3U, 8U}) {
      const auto many = compare::write_table(pair, {}, {.path = dir / name, .threads = threads});
      CHECK(read_bytes(dir / name) == expected);
      CHECK(many.rows == one.rows);
      CHECK(many.red == one.red);
      CHECK(many.matched == one.matched);
    }
    CHECK(one.rows == 18000);
    CHECK(one.matched == 17980);
    CHECK(one.red == 9000);
    CHECK_FALSE(one.first_failing);
  }
  const io::Table table = io::read_csv(dir / "t.csv");
  REQUIRE(table.rows.size() == 18000);
  CHECK(table.rows[17999][0] == "Torch.add.8999.forward.output.0");
  CHECK(table.rows[17999].back() == "none: no such call");
}

TEST_CASE("compare table: the first failing row is the first of the file, in whichever thread it was found") {
  const TempDir dir;
  const auto records = [](int first_bad) {
    std::string text;
    for (int i = 0; i < 9000; ++i) {
      const std::string value = i >= first_bad ? "9.0" : "1.0";
      if (i > 0) text += ", ";
      text += call(i, tensor({"1.0", "1.0", "1.0", "1.0"}), tensor({value, value, value, value}));
    }
    return text;
  };
  write_bytes(dir / "a/dump.json", dump(records(5000)));
  write_bytes(dir / "b/dump.json", dump(records(9000)));
  const compare::DumpPair pair = compare::open_pair(dir / "a/dump.json", dir / "b/dump.json");
  const auto summary = compare::write_table(pair, {}, {.path = dir / "t.csv", .threads = 4});
  CHECK(summary.failing == 4000);
  CHECK(summary.first_failing == 10001);
  CHECK(summary.first_failing_name == "Torch.add.5000.forward.output.0");
}

TEST_CASE("compare: dumps that cannot be compared") {
  const TempDir dir;
  const auto message = [&dir](const std::string& target, const std::string& reference) {
    write_bytes(dir / "a/dump.json", target);
    write_bytes(dir / "b/dump.json", reference);
    try {
      compare::open_pair(dir / "a/dump.json", dir / "b/dump.json");
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string in = tensor({"1.0", "1.0", "1.0", "1.0"});
  const std::string good = call(0, in, in);
  CHECK(message(dump(good), dump(good)) == "no error");
  CHECK(message(dump(good), dump(good, "tensor")).find(R"(their tasks are "statistics" and "tensor")") !=
        std::string::npos);
  CHECK(message(dump(good, "structure"), dump(good, "structure")).find("records no data") !=
        std::string::npos);
  CHECK(message(dump(good, "x"), dump(good, "x")).find(R"(expected "statistics", "tensor" or "structure")") !=
        std::string::npos);
  std::string with_md5 = good;
  with_md5.insert(with_md5.find("\"Max\""), R"("md5": "01234567", )");
  CHECK(message(dump(with_md5), dump(good)).find("only the first one has checksums") != std::string::npos);
}

TEST_CASE("compare: fuzzy works in all modes") {
  const TempDir dir;
  const std::string in = tensor({"1.0", "1.0", "1.0", "1.0"});
  std::string md5 = in;
  md5.insert(md5.find("\"Max\""), R"("md5": "01234567", )");
  for (const auto& [leaf, task, mode] : {std::tuple{in, "statistics", compare::Mode::kStatistics},
                                         {md5, "statistics", compare::Mode::kMd5},
                                         {in, "tensor", compare::Mode::kRealData}}) {
    write_bytes(dir / "a/dump.json", dump(call(3, leaf, leaf), task));
    write_bytes(dir / "b/dump.json", dump(call(5, leaf, leaf), task));
    compare::PairOptions options;
    options.fuzzy = true;
    const compare::DumpPair pair = compare::open_pair(dir / "a/dump.json", dir / "b/dump.json", options);
    CHECK(pair.mode == mode);
    const auto metrics = mode == compare::Mode::kRealData ? compare::measure_real_data(pair)
                                                          : std::vector<compare::RealMetrics>();
    const auto summary = compare::write_table(pair, metrics, {.path = dir / "t.csv"});
    CHECK(summary.matched == 2);
    CHECK(summary.failing == 0);
    const io::Table table = io::read_csv(dir / "t.csv");
    CHECK(table.rows[0][1] == "Torch.add.5.forward.input.0");
    CHECK(table.rows[0].back() == "fuzzy");
  }
}
