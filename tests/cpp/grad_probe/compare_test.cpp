// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <thread>

#include "catch.h"
#include "grad_probe/sample.h"
#include "msprobe/file.h"
#include "msprobe/grad_probe.h"
#include "msprobe/table.h"
#include "msprobe/tensor_file.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;
using Names = std::vector<std::string>;
using State = Similarity::State;

std::string signs_file(const std::string& signs, DType dtype = DType::kBool) {
  std::string bytes;
  for (const char sign : signs) bytes += static_cast<char>(sign == '+');
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(signs.size())};
  return io::npy_header(dtype, false, shape) + bytes;
}

// Two rank directories, filled step by step.
class Sides {
 public:
  fs::path first() const { return dir_ / "a"; }
  fs::path second() const { return dir_ / "b"; }

  // The direction file and the csv row of one parameter on both sides.
  void add(std::int64_t step, const std::string& name, const std::string& signs1, const std::string& signs2) {
    add_side(first(), step, name, signs1);
    add_side(second(), step, name, signs2);
  }
  void add_side(const fs::path& side, std::int64_t step, const std::string& name, const std::string& signs) {
    write_bytes(file(side, step, name), signs_file(signs));
    list(side, step, name);
  }
  // The csv row only.
  void list(const fs::path& side, std::int64_t step, const std::string& name) {
    const fs::path csv = this->csv(side, step);
    std::string text = fs::exists(csv) ? read_bytes(csv) : "\xEF\xBB\xBFparam_name,max,min,norm,shape\r\n";
    io::CsvWriter row;
    row.add({name, "1.0", "-1.0", "1.0", "[3]"});
    write_bytes(csv, text + row.text().substr(3));
  }

  static fs::path file(const fs::path& side, std::int64_t step, const std::string& name) {
    return side / ("step" + std::to_string(step)) / direction_file_name(name);
  }
  static fs::path csv(const fs::path& side, std::int64_t step) {
    return side / ("grad_summary_" + std::to_string(step) + ".csv");
  }

  Comparison compare() const { return grad_probe::compare(first(), second()); }
  std::string refusal() const {
    try {
      compare();
    } catch (const NothingToCompare& error) {
      return error.what();
    }
    return "compared";
  }

 private:
  TempDir dir_;
};

TEST_CASE("compare: reproduces similarities.csv of the existing tool byte for byte") {
  const TempDir dir;
  const auto check = [&dir](const std::string& a, const std::string& b, const std::string& expected) {
    INFO(expected);
    write_similarities(compare(kGolden / a, kGolden / b), dir / "similarities.csv");
    CHECK(read_bytes(dir / "similarities.csv") == read_bytes(kGolden / expected / "similarities.csv"));
  };
  check("l1_a/rank0", "l1_b/rank0", "cmp_l1/rank0");
  CHECK(matched_ranks(kGolden / "l1_ranks_a", kGolden / "l1_ranks_b") == std::vector<int>{0, 1});
  check("l1_ranks_a/rank0", "l1_ranks_b/rank0", "cmp_l1_ranks/rank0");
  check("l1_ranks_a/rank1", "l1_ranks_b/rank1", "cmp_l1_ranks/rank1");
}

TEST_CASE("compare: a record with itself is equal everywhere, the column-major matrix included") {
  const Comparison comparison = compare(kGolden / "l2_edge/rank0", kGolden / "l2_edge/rank0");
  CHECK(comparison.steps == std::vector<std::int64_t>{0, 1});
  CHECK(comparison.names.size() == 15);
  for (const Similarity& cell : comparison.cells) {
    CHECK(cell.state == State::kCompared);
    CHECK(cell.value() == 1.0);
  }
  CHECK(judge(comparison).empty());
}

TEST_CASE("compare: names stay text, also those that look like numbers, and one called summary") {
  Sides sides;
  for (const char* name : {"0", "1.5", "0.10", "nan", "summary", "a,b \"c\"", "x/y", "..", "caf\xC3\xA9"}) {
    sides.add(0, name, "+-+", "++-");
  }
  const Comparison comparison = sides.compare();
  CHECK(comparison.names ==
        Names{"0", "1.5", "0.10", "nan", "summary", "a,b \"c\"", "x/y", "..", "caf\xC3\xA9"});
  for (const Similarity& cell : comparison.cells) {
    CHECK(cell.state == State::kCompared);
    CHECK(cell.equal == 1);
    CHECK(cell.count == 3);
  }
}

TEST_CASE("compare: names are in the order of the smallest step, then of first appearance, each once") {
  Sides sides;
  sides.add(2, "b", "+", "+");
  sides.list(sides.first(), 2, "b");
  sides.add(2, "a", "+", "+");
  sides.add_side(sides.second(), 2, "only second", "+");
  sides.add(10, "late", "+", "-");
  sides.add(10, "a", "+", "+");
  const Comparison comparison = sides.compare();
  CHECK(comparison.steps == std::vector<std::int64_t>{2, 10});
  CHECK(comparison.names == Names{"b", "a", "only second", "late"});
  CHECK(comparison.at(0, 0).state == State::kCompared);
  CHECK(comparison.at(0, 1).state == State::kAbsent);
  CHECK(comparison.at(2, 0).state == State::kMissing);
  CHECK(comparison.at(2, 1).state == State::kAbsent);
  CHECK(comparison.at(3, 0).state == State::kAbsent);
  CHECK(comparison.at(3, 1).value() == 0.0);
  CHECK(std::isnan(comparison.at(3, 0).value()));
}

TEST_CASE("compare: only steps with a directory step{number} on both sides take part") {
  Sides sides;
  for (const std::int64_t step : {0, 1, 2}) sides.add(step, "w", "+", "+");
  fs::remove_all(sides.first() / "step1");
  fs::remove_all(sides.second() / "step2");
  write_bytes(sides.second() / "step2", "a file");
  for (const fs::path& side : {sides.first(), sides.second()}) {
    for (const char* name : {"step07", "step", "stepx", "step-1", ".step3.1.tmp"})
      fs::create_directory(side / name);
  }
  CHECK(sides.compare().steps == std::vector<std::int64_t>{0});
}

TEST_CASE("compare: the steps of a run that was resumed are those of the other one, from the offset on") {
  Sides sides;
  for (const std::int64_t step : {0, 1, 2, 3}) sides.add_side(sides.first(), step, "w", "+-+-");
  for (const std::int64_t step : {0, 1}) sides.add_side(sides.second(), step, "w", "+-+-");
  const grad_probe::Comparison comparison =
      grad_probe::compare(sides.first(), sides.second(), {.offset = 2, .agreements = {}, .progress = {}});
  CHECK(comparison.steps == std::vector<std::int64_t>{2, 3});
  CHECK(comparison.at(0, 1).value() == 1.0);
}

TEST_CASE("compare: what is wrong with one file is a problem of its cell, the rest goes on") {
  Sides sides;
  for (const char* name : {"good", "gone", "gone on both", "shape", "type", "cut", "folder", "empty file"}) {
    sides.add(0, name, "+-+", "+-+");
  }
  fs::remove(Sides::file(sides.first(), 0, "gone"));
  fs::remove(Sides::file(sides.first(), 0, "gone on both"));
  fs::remove(Sides::file(sides.second(), 0, "gone on both"));
  write_bytes(Sides::file(sides.second(), 0, "shape"), signs_file("+-+-"));
  write_bytes(Sides::file(sides.second(), 0, "type"), signs_file("+-+", DType::kInt8));
  fs::resize_file(Sides::file(sides.first(), 0, "cut"), 130);
  fs::remove(Sides::file(sides.first(), 0, "folder"));
  fs::create_directory(Sides::file(sides.first(), 0, "folder"));
  write_bytes(Sides::file(sides.second(), 0, "empty file"), "");

  const Comparison comparison = sides.compare();
  CHECK(comparison.at(0, 0).value() == 1.0);
  Names problems;
  for (std::size_t i = 1; i < comparison.names.size(); ++i) {
    CHECK(comparison.at(i, 0).state == State::kMissing);
    CHECK(comparison.at(i, 0).count == 0);
    problems.push_back(comparison.at(i, 0).problem);
  }
  CHECK(problems[0] ==
        "the direction file does not exist: " + Sides::file(sides.first(), 0, "gone").string());
  CHECK(problems[1].find("the direction file does not exist: ") == 0);
  CHECK(problems[2] == "tensor shape is not equal: [3], [4]");
  CHECK(problems[3] == "tensor type is not bool: " + Sides::file(sides.second(), 0, "type").string());
  CHECK(problems[4] ==
        Sides::file(sides.first(), 0, "cut").string() +
            ": byte 128: expected 3 bytes of data for the shape and dtype of the header, found 2");
  CHECK(problems[5].find("not a regular file") != std::string::npos);
  CHECK(problems[6].find("expected the magic text") != std::string::npos);
  CHECK(comparison.summary(0).value() == 1.0);
  CHECK(comparison.summary(0).count == 3);
}

TEST_CASE("compare: a missing or damaged csv is warned of, and names come from the others") {
  Sides sides;
  for (const std::int64_t step : {0, 1, 2}) sides.add(step, "w", "+", "+");
  fs::remove(Sides::csv(sides.first(), 0));
  write_bytes(Sides::csv(sides.second(), 1), "param_name,max\r\n\"w,1.0\r\n");
  const test::LogCapture log;
  const Comparison comparison = sides.compare();
  CHECK(comparison.names == Names{"w"});
  for (const Similarity& cell : comparison.cells) CHECK(cell.state == State::kCompared);
  REQUIRE(log.messages().size() == 2);
  CHECK(log.messages()[0].find(Sides::csv(sides.first(), 0).string() + " does not exist") !=
        std::string::npos);
  CHECK(log.messages()[1].find("line 2: a quote is opened and never closed") != std::string::npos);
}

TEST_CASE("compare: names from a hostile csv do not leave the step directory") {
  Sides sides;
  sides.add(0, "w", "+", "+");
  for (const fs::path& side : {sides.first(), sides.second()}) {
    write_bytes(side / "secret.npy", signs_file("+"));
    sides.list(side, 0, "../secret");
    sides.list(side, 0, (sides.first() / "secret").string());
  }
  const Comparison comparison = sides.compare();
  CHECK(comparison.at(1, 0).state == State::kMissing);
  CHECK(comparison.at(2, 0).state == State::kMissing);
}

TEST_CASE("compare: nothing in common is said with the words of the existing tool") {
  Sides sides;
  fs::create_directories(sides.first());
  fs::create_directories(sides.second());
  CHECK(sides.refusal().find("no matched steps for comparison") == 0);
  fs::create_directories(sides.first() / "step0");
  fs::create_directories(sides.second() / "step1");
  CHECK(sides.refusal().find("no matched steps for comparison") == 0);
  CHECK(sides.refusal().find("level L0") == std::string::npos);

  fs::create_directories(sides.second() / "step0");
  CHECK(sides.refusal().find("no matched grad_summary.csv for comparison") == 0);
  write_bytes(Sides::csv(sides.first(), 0), "param_name,max\r\n");
  CHECK(sides.refusal().find("no matched grad_summary.csv for comparison") == 0);
  write_bytes(Sides::csv(sides.second(), 0), "Name,max\r\n");
  CHECK(sides.refusal().find("no matched grad_summary.csv for comparison") == 0);
  write_bytes(Sides::csv(sides.second(), 0), "param_name,max\r\n");
  CHECK(sides.refusal().find("no matched parameter for comparison") == 0);
  fs::remove(Sides::csv(sides.first(), 0));
  fs::remove(Sides::csv(sides.second(), 0));
  sides.add(0, "w", "+", "-");
  CHECK(sides.refusal() == "compared");
}

TEST_CASE("compare: a record at level L0 is told why it has no steps") {
  try {
    compare(kGolden / "l0_a/rank0", kGolden / "l0_a/rank0");
    FAIL("compared");
  } catch (const NothingToCompare& error) {
    const std::string text = error.what();
    CHECK(text.find("no matched steps for comparison") == 0);
    CHECK(text.find("level L0") != std::string::npos);
  }
}

TEST_CASE("compare: a directory that cannot be read is an IoError") {
  const TempDir dir;
  write_bytes(dir / "file", "x");
  CHECK_THROWS_AS(compare(dir.path(), dir / "missing"), IoError);
  CHECK_THROWS_AS(compare(dir / "file", dir.path()), IoError);
}

TEST_CASE("compare: empty tensors count as compared and are written as the integer 0") {
  Sides sides;
  sides.add(0, "empty", "", "");
  const Comparison comparison = sides.compare();
  CHECK(comparison.at(0, 0).state == State::kCompared);
  CHECK(comparison.at(0, 0).value() == 0.0);
  CHECK(judge(comparison).empty());
  const TempDir dir;
  write_similarities(comparison, dir / "s.csv");
  CHECK(read_bytes(dir / "s.csv") == "\xEF\xBB\xBFstep,0\r\nempty,0\r\nsummary,0\r\n");
}

TEST_CASE("compare: the same answer for every number of threads") {
  Sides sides;
  for (std::int64_t step = 0; step < 4; ++step) {
    for (int i = 0; i < 30; ++i) {
      const std::string signs(static_cast<std::size_t>(100 + i), '+');
      std::string other = signs;
      for (std::size_t k = 0; k < other.size(); k += static_cast<std::size_t>(i + step + 2)) other[k] = '-';
      sides.add(step, "p" + std::to_string(i), signs, other);
    }
  }
  CompareOptions options;
  options.threads = 1;
  const Comparison expected = compare(sides.first(), sides.second(), options);
  for (const unsigned threads : {2U, 5U}) {
    options.threads = threads;
    const Comparison comparison = compare(sides.first(), sides.second(), options);
    REQUIRE(comparison.cells.size() == expected.cells.size());
    for (std::size_t i = 0; i < expected.cells.size(); ++i)
      CHECK(comparison.cells[i].equal == expected.cells[i].equal);
  }
}

// A file of `count` bytes of data that takes no room on the disk, with a 1 at some places.
void write_sparse(const fs::path& path, std::int64_t count, const std::vector<std::int64_t>& ones) {
  const std::vector<std::int64_t> shape{count};
  const std::string header = io::npy_header(DType::kBool, false, shape);
  write_bytes(path, header);
  fs::resize_file(path, header.size() + static_cast<std::uintmax_t>(count));
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  for (const std::int64_t one : ones) {
    file.seekp(static_cast<std::streamoff>(header.size()) + one);
    file.put('\1');
  }
  REQUIRE(file.flush());
}

TEST_CASE("compare: a very large file is shared among the threads and every element counted once") {
  Sides sides;
  sides.add(0, "small", "+", "+");
  sides.add(0, "large", "+", "+");
  constexpr std::int64_t kPiece = std::int64_t{32} << 20;
  constexpr std::int64_t kCount = 2 * kPiece + 5;
  write_sparse(Sides::file(sides.first(), 0, "large"), kCount, {});
  write_sparse(Sides::file(sides.second(), 0, "large"), kCount,
               {0, kPiece - 1, kPiece, 2 * kPiece - 1, 2 * kPiece, kCount - 1});
  CompareOptions options;
  options.threads = 2;
  std::size_t last = 0;
  options.progress = [&last](std::size_t done, std::size_t) {
    last = done;
    return true;
  };
  const Comparison comparison = compare(sides.first(), sides.second(), options);
  CHECK(comparison.at(1, 0).count == kCount);
  CHECK(comparison.at(1, 0).equal == kCount - 6);
  CHECK(last == 2);
}

TEST_CASE("compare: progress is called on the calling thread only, and ends with everything done") {
  Sides sides;
  for (int i = 0; i < 50; ++i) sides.add(0, "p" + std::to_string(i), "+", "+");
  std::set<std::thread::id> threads;
  std::pair<std::size_t, std::size_t> last;
  CompareOptions options;
  options.threads = 3;
  options.progress = [&](std::size_t done, std::size_t total) {
    threads.insert(std::this_thread::get_id());
    last = {done, total};
    return true;
  };
  compare(sides.first(), sides.second(), options);
  CHECK(threads == std::set<std::thread::id>{std::this_thread::get_id()});
  CHECK(last == std::pair<std::size_t, std::size_t>{50, 50});
}

TEST_CASE("compare: progress can cancel, and what it throws arrives at the caller") {
  Sides sides;
  sides.add(0, "w", "+", "+");
  CompareOptions options;
  options.progress = [](std::size_t, std::size_t) { return false; };
  CHECK_THROWS_AS(compare(sides.first(), sides.second(), options), InvalidArgument);
  options.progress = [](std::size_t, std::size_t) -> bool { throw std::runtime_error("mine"); };
  CHECK_THROWS_WITH(compare(sides.first(), sides.second(), options), "mine");
}

TEST_CASE("compare: what write_step wrote is read back, whatever the names") {
  const TempDir dir;
  Options options;
  options.dump_path = dir.path();
  OwnedGradients gradients;
  for (const std::string& name :
       {std::string("a/b"), std::string("50%"), std::string(300, 'x'), std::string("tab\t")}) {
    gradients.add(name, {1, -1, 0, 2}, {2, 2});
  }
  write_step(options, 3, measure(gradients.views(), options));
  const Comparison comparison = compare(dir / "rank0", dir / "rank0");
  CHECK(comparison.names == Names{"a/b", "50%", std::string(300, 'x'), "tab\t"});
  for (const Similarity& cell : comparison.cells) CHECK(cell.value() == 1.0);
}

TEST_CASE("matched_ranks: ranks with a directory on both sides, ascending") {
  const TempDir dir;
  for (const char* name :
       {"a/rank10", "a/rank2", "a/rank0", "a/rank3", "a/ranks", "b/rank2", "b/rank10", "b/rank1"}) {
    fs::create_directories(dir / name);
  }
  write_bytes(dir / "b/rank0", "a file");
  CHECK(matched_ranks(dir / "a", dir / "b") == std::vector<int>{2, 10});
  CHECK(matched_ranks(dir / "a/", dir / "b/") == std::vector<int>{2, 10});
}

TEST_CASE("matched_ranks: no common rank, links, files and missing paths") {
  const TempDir dir;
  fs::create_directories(dir / "a/rank0");
  fs::create_directories(dir / "b/rank1");
  fs::create_directory_symlink(dir / "a", dir / "link");
  write_bytes(dir / "file", "x");
  try {
    matched_ranks(dir / "a", dir / "b");
    FAIL("matched");
  } catch (const NothingToCompare& error) {
    CHECK(std::string(error.what())
              .find("no matched ranks for comparison, please dump data in same configuration") == 0);
  }
  CHECK_THROWS_AS(matched_ranks(dir / "link", dir / "a"), InvalidArgument);
  CHECK_THROWS_AS(matched_ranks((dir / "link").string() + "/", dir / "a"), InvalidArgument);
  CHECK_THROWS_AS(matched_ranks(dir / "a", dir / "file"), IoError);
  CHECK_THROWS_AS(matched_ranks(dir / "missing", dir / "a"), IoError);
}

}  // namespace
}  // namespace msprobe::grad_probe
