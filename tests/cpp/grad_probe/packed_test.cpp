// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "catch.h"
#include "grad_probe/packed_file.h"
#include "grad_probe/sample.h"
#include "log_capture.h"
#include "msprobe/file.h"
#include "msprobe/grad_probe.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;
using test::entries_below;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;
using Names = std::vector<std::string>;
using State = Similarity::State;

Options packed_at(const fs::path& path, Level level = Level::kL1) {
  Options options = options_at(path, level);
  options.layout = Layout::kPacked;
  return options;
}

// One step of three gradients of 1001 elements.
fs::path record(const Options& options, unsigned seed = 1) {
  Writer writer(options);
  writer.record(0, measured(options, 3, 1001, seed));
  REQUIRE(writer.flush() == 0);
  return options.dump_path / ("rank" + std::to_string(options.rank));
}

// All files below two directories are the same.
void check_same(const fs::path& a, const fs::path& b) {
  const Names names = entries_below(a);
  REQUIRE(entries_below(b) == names);
  for (const std::string& name : names) {
    INFO(name);
    if (name.back() != '/') CHECK((read_bytes(a / name) == read_bytes(b / name)));
  }
}

TEST_CASE("packed: all steps are one file, which holds an eighth of the signs") {
  const TempDir dir;
  const Options options = packed_at(dir.path());
  Writer writer(options);
  for (int step = 0; step < 5; ++step) writer.record(step, measured(options, 2, 80000, 1));
  CHECK(writer.flush() == 0);
  CHECK(entries_below(dir.path()) == Names{"rank0/", "rank0/gradients.msprobe"});
  const auto bytes = fs::file_size(dir / "rank0/gradients.msprobe");
  CHECK(bytes > std::uintmax_t{5} * 2 * 10000);
  CHECK(bytes < std::uintmax_t{5} * 2 * 10500);
}

TEST_CASE("packed: what the existing tool wrote is the same bytes, there and back again") {
  for (const std::string name : {"l0_a", "l1_a", "l2_edge", "l2_bf16"}) {
    INFO(name);
    const TempDir dir;
    CHECK(convert(kGolden / name / "rank0", packed_at(dir / "packed")) > 0);
    CHECK(entries_below(dir / "packed/rank0") == Names{"gradients.msprobe"});
    convert(dir / "packed/rank0", options_at(dir / "back"));
    check_same(kGolden / name / "rank0", dir / "back/rank0");
    CHECK_THROWS_AS(convert(dir / "packed/rank0", options_at(dir / "back")), InvalidArgument);
  }
}

TEST_CASE("packed: the writer keeps what it writes in the other layout") {
  const TempDir dir;
  const fs::path packed = record(packed_at(dir / "packed"));
  convert(packed, options_at(dir / "exported"));
  check_same(record(options_at(dir / "npy")), dir / "exported/rank0");
}

TEST_CASE("packed: records of any layout are compared, with the same answer") {
  const TempDir dir;
  for (const std::string side : {"l1_a", "l1_b"}) convert(kGolden / side / "rank0", packed_at(dir / side));
  const auto check = [&dir](const fs::path& a, const fs::path& b) {
    write_similarities(compare(a, b), dir / "similarities.csv");
    CHECK(read_bytes(dir / "similarities.csv") == read_bytes(kGolden / "cmp_l1/rank0/similarities.csv"));
  };
  check(dir / "l1_a/rank0", dir / "l1_b/rank0");
  check(kGolden / "l1_a/rank0", dir / "l1_b/rank0");
  check(dir / "l1_a/rank0", kGolden / "l1_b/rank0");
  convert(kGolden / "l2_edge/rank0", packed_at(dir / "edge"));
  for (const Similarity& cell : compare(dir / "edge/rank0", kGolden / "l2_edge/rank0").cells) {
    CHECK(cell.value() == 1.0);
  }
}

TEST_CASE("packed: a step that is recorded again takes the place of the earlier one, others stay") {
  const TempDir dir;
  const Options options = packed_at(dir.path());
  {
    Writer writer(options);
    for (int step = 0; step < 3; ++step) writer.record(step, measured(options, 1, 100, 1));
  }
  Writer(options).record(1, measured(options, 1, 100, 2));
  const Comparison comparison = compare(dir / "rank0", dir / "rank0");
  CHECK(comparison.steps == std::vector<std::int64_t>{0, 1, 2});
  const PackedFile file(dir / "rank0/gradients.msprobe");
  CHECK(file.find(0, "p0")->hash == file.find(2, "p0")->hash);
  CHECK_FALSE(file.find(0, "p0")->hash == file.find(1, "p0")->hash);
}

TEST_CASE("packed: a rank whose replica keeps the signs keeps hashes, and is compared all the same") {
  const TempDir dir;
  const auto record_ranks = [&dir](const std::string& side, unsigned seed, unsigned seed_of_rank1) {
    Options options = packed_at(dir / side);
    options.keepers = {{"p0", 0}, {"p1", 0}, {"p2", 0}};
    record(options, seed);
    options.rank = 1;
    record(options, seed_of_rank1);
  };
  record_ranks("a", 1, 1);
  record_ranks("b", 2, 2);
  CHECK(fs::file_size(dir / "a/rank0/gradients.msprobe") >
        fs::file_size(dir / "a/rank1/gradients.msprobe") + 3 * 125);
  const Comparison kept = compare(dir / "a/rank0", dir / "b/rank0");
  CompareOptions known;
  known.agreements = make_agreements();
  for (int again = 0; again < 2; ++again) {
    const Comparison other = compare(dir / "a/rank1", dir / "b/rank1", known);
    for (std::size_t i = 0; i < kept.cells.size(); ++i) {
      CHECK(other.cells[i].state == State::kCompared);
      CHECK(other.cells[i].equal == kept.cells[i].equal);
    }
  }
  fs::remove_all(dir / "b/rank0");
  for (const Similarity& cell : compare(dir / "a/rank1", dir / "b/rank1", known).cells) {
    CHECK(cell.state == State::kCompared);  // what another rank found
  }
  const Comparison lost = compare(dir / "a/rank1", dir / "b/rank1");
  CHECK(lost.at(0, 0).state == State::kMissing);
  CHECK(lost.at(0, 0).problem.find("rank0/gradients.msprobe") != std::string::npos);
  CHECK(compare(dir / "b/rank1", dir / "b/rank1").at(0, 0).value() == 1.0);
  convert(dir / "a/rank1", options_at(dir / "exported"));
  check_same(record(options_at(dir / "npy")), dir / "exported/rank0");

  record_ranks("c", 1, 3);
  const Comparison unequal = compare(dir / "a/rank1", dir / "c/rank1");
  CHECK(unequal.at(0, 0).problem ==
        "rank 0, which keeps the signs of p0 at step 0 for its replicas, has "
        "others: the replicas are not equal");
}

TEST_CASE(
    "packed: of a record that is cut anywhere, whole steps are read, and the next run goes on behind them") {
  const TempDir dir;
  const Options options = packed_at(dir.path());
  const fs::path path = dir / "rank0/gradients.msprobe";
  {
    Writer writer(options);
    writer.record(0, measured(options, 2, 100, 1));
  }
  const auto first = fs::file_size(path);
  Writer(options).record(1, measured(options, 2, 100, 2));
  const std::string whole = read_bytes(path);
  for (std::size_t size = first; size < whole.size(); size += 7) {
    write_bytes(path, whole.substr(0, size));
    const PackedFile file(path);
    CHECK(file.steps().size() == 1);
    CHECK(file.end() == first);
    CHECK(file.cut().empty() == (size == first));
  }
  Writer(options).record(1, measured(options, 2, 100, 2));
  CHECK((read_bytes(path) == whole));
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}}) {
    write_bytes(path, whole.substr(0, size));
    CHECK_THROWS_AS(PackedFile(path), FormatError);
    CHECK_THROWS_AS(Writer(options), FormatError);
  }
}

TEST_CASE("packed: no byte of a record can be changed unseen") {
  const TempDir dir;
  const fs::path rank = record(packed_at(dir / "a"));
  record(packed_at(dir / "b"), 2);
  const fs::path path = rank / "gradients.msprobe";
  const std::string whole = read_bytes(path);
  const test::LogCapture log;
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    write_bytes(path, changed);
    try {
      const Comparison comparison = compare(rank, dir / "b/rank0");
      INFO(at);
      CHECK(std::any_of(comparison.cells.begin(), comparison.cells.end(), [](const Similarity& cell) {
        return cell.state == State::kMissing && cell.problem.find("are damaged") != std::string::npos;
      }));
    } catch (const Error&) {  // no record, or no step of it
    }
  }
}

TEST_CASE("packed: kill -9 loses no step that was recorded") {
  for (int round = 0; round < 5; ++round) {
    const TempDir dir;
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Writer writer(packed_at(dir.path()));
      const auto step = measured(writer.options(), 5, 20000, 3);
      for (char i = 0;; ++i) {
        writer.record(i, step);
        if (::write(pipe[1], &i, 1) != 1) ::_exit(1);
      }
    }
    ::close(pipe[1]);
    char last = 0;
    REQUIRE(::read(pipe[0], &last, 1) == 1);
    std::this_thread::sleep_for(std::chrono::microseconds(2311 * round));
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    for (char told = 0; ::read(pipe[0], &told, 1) == 1;) last = told;
    ::close(pipe[0]);
    CHECK(PackedFile(dir / "rank0/gradients.msprobe").steps().contains(last));
  }
}

TEST_CASE("packed: a full disk loses the step and is told; the file stays whole, and later steps are tried") {
  const TempDir dir;
  const Options options = packed_at(dir.path());
  const auto small = measured(options, 1, 100, 1);
  const auto large = measured(options, 1, 8 << 20, 1);
  const test::LogCapture log;
  const pid_t child = ::fork();
  if (child == 0) {
    Writer writer(options);
    writer.record(0, small);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    writer.record(1, large);
    writer.record(2, small);
    ::_exit(static_cast<int>(writer.flush()));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 1);
  const PackedFile file(dir / "rank0/gradients.msprobe");
  CHECK(file.cut().empty());
  CHECK(file.steps().contains(0));
  CHECK_FALSE(file.steps().contains(1));
  CHECK(file.steps().contains(2));
}

TEST_CASE("packed: of two processes that continue one record the later one is refused") {
  const TempDir dir;
  const fs::path file = record(packed_at(dir.path())) / kPackedName;
  const PackedWriter writer(file);
  const auto is_refused = [&file] {
    try {
      const PackedWriter other(file);
    } catch (const IoError&) {
      return true;
    }
    return false;
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(is_refused() ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("packed: a record of one layout is not continued in the other") {
  const TempDir dir;
  record(packed_at(dir / "packed"));
  CHECK_THROWS_AS(Writer(options_at(dir / "packed")), InvalidArgument);
  record(options_at(dir / "npy"));
  CHECK_THROWS_AS(Writer(packed_at(dir / "npy")), InvalidArgument);
}

TEST_CASE("packed: a file that somebody removed is made anew") {
  const TempDir dir;
  Writer writer(packed_at(dir.path()));
  writer.record(0, measured(writer.options(), 1, 100, 1));
  fs::remove_all(dir / "rank0");
  writer.record(1, measured(writer.options(), 1, 100, 1));
  CHECK(writer.flush() == 0);
  CHECK(PackedFile(dir / "rank0/gradients.msprobe").steps().size() == 1);
}

TEST_CASE("has_gradients: of any layout and level, and not of steps without any") {
  const TempDir dir;
  CHECK(has_gradients(record(packed_at(dir / "a"))));
  CHECK(has_gradients(record(packed_at(dir / "b", Level::kL0))));
  CHECK(has_gradients(record(options_at(dir / "c"))));
  Writer(packed_at(dir / "d")).record(0, {});
  CHECK_FALSE(has_gradients(dir / "d/rank0"));
}

}  // namespace
}  // namespace msprobe::grad_probe
