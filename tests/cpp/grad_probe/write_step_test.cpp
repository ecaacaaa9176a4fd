// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>

#include "catch.h"
#include "grad_probe/sample.h"
#include "msprobe/grad_probe.h"
#include "msprobe/table.h"
#include "msprobe/tensor_file.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;
using test::entries_below;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;
using Names = std::vector<std::string>;

void write_gradients(const Options& options, std::int64_t step, const OwnedGradients& gradients) {
  write_step(options, step, measure(gradients.views(), options));
}

struct Sample {
  std::string name;
  Level level;
  DType dtype;
  std::vector<Bound> bounds;
  std::vector<std::int64_t> steps;
};

// The bits of a value that a half has exactly.
std::uint16_t half_bits(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return 0x7E00;
  if (std::isinf(value)) return sign | 0x7C00;
  if (magnitude < 0x1p-14F) return sign | static_cast<std::uint16_t>(magnitude * 0x1p24F);
  const int exponent = std::ilogb(magnitude);
  const auto mantissa = static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | mantissa);
}

std::vector<std::uint8_t> encode(const std::vector<float>& values, DType dtype) {
  std::vector<std::uint8_t> bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t code = dtype == DType::kFloat16    ? half_bits(value)
                               : dtype == DType::kBFloat16 ? bits >> 16
                                                           : bits;
    for (std::size_t i = 0; i < element_size(dtype); ++i)
      bytes.push_back(static_cast<std::uint8_t>(code >> 8 * i));
  }
  return bytes;
}

std::vector<std::int64_t> parse_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  for (std::size_t i = 1; i + 1 < text.size(); i = text.find_first_of(",]", i) + 1)
    shape.push_back(std::stoll(text.substr(i)));
  return shape;
}

// The gradients of one step as the training had them; "matrix" is a transposed one there.
OwnedGradients gradients_of(const Sample& sample, std::int64_t step, const io::Table& csv) {
  const fs::path path = kGolden / "gradients" / (sample.name + "_step" + std::to_string(step) + ".npy");
  const io::NpyHeader header = io::read_npy_header(path);
  const std::string file = read_bytes(path);
  std::vector<float> all(static_cast<std::size_t>(header.count));
  std::memcpy(all.data(), file.data() + header.data_offset, all.size() * sizeof(float));

  OwnedGradients gradients;
  auto next = all.begin();
  for (const io::Row& row : csv.rows) {
    const std::vector<std::int64_t> shape = parse_shape(row.back());
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    std::vector<float> values(next, next + count);
    next += count;
    std::vector<std::int64_t> strides;
    if (row[0] == "matrix") {
      const std::vector<float> c_order = values;
      for (std::int64_t i = 0; i < shape[0]; ++i) {
        for (std::int64_t j = 0; j < shape[1]; ++j) {
          values[static_cast<std::size_t>(j * shape[0] + i)] =
              c_order[static_cast<std::size_t>(i * shape[1] + j)];
        }
      }
      strides = {1, shape[0]};
    }
    gradients.add_bytes(row[0], encode(values, sample.dtype), sample.dtype, shape, strides);
  }
  REQUIRE(next == all.end());
  return gradients;
}

const std::vector<Bound> kThree{{-0.1, "-0.1"}, {0, "0"}, {0.1, "0.1"}};
const std::vector<Bound> kFive{{-1, "-1"}, {-0.1, "-0.1"}, {0, "0"}, {0.1, "0.1"}, {1, "1"}};

// The bytes of a csv with the norms of `golden` where they differ by no more than one unit in the last place
// of a float: torch adds in float, in an order of its own, we in double. Half precision must be equal.
std::string csv_with_norms_of(const fs::path& golden, const fs::path& path, DType dtype) {
  const double tolerance = dtype == DType::kFloat32 ? 0x1p-23 : 0;
  const io::Table theirs = io::read_csv(golden);
  const io::Table ours = io::read_csv(path);
  const auto norm = static_cast<std::size_t>(ours.column("norm"));
  io::CsvWriter csv;
  csv.add(ours.header);
  for (std::size_t i = 0; i < ours.rows.size(); ++i) {
    io::Row row = ours.rows[i];
    const std::string& their_norm = theirs.rows.at(i).at(norm);
    if (std::abs(std::stod(row[norm]) / std::stod(their_norm) - 1) <= tolerance) row[norm] = their_norm;
    csv.add(row);
  }
  return csv.text();
}

TEST_CASE("write_step: reproduces the files of the existing tool byte for byte") {
  const Sample sample =
      GENERATE(values<Sample>({{"l0_a", Level::kL0, DType::kFloat32, {}, {0, 1}},
                               {"l1_a", Level::kL1, DType::kFloat32, {}, {0, 1, 2, 3}},
                               {"l2_edge", Level::kL2, DType::kFloat32, kFive, {0, 1}},
                               {"l2_bf16", Level::kL2, DType::kBFloat16, kThree, {0, 1}},
                               {"l2_fp16_params", Level::kL2, DType::kFloat16, kThree, {0, 2}}}));
  INFO(sample.name);
  const fs::path golden = kGolden / sample.name;
  const TempDir dir;
  const Options options = options_at(dir.path(), sample.level, sample.bounds);
  for (const std::int64_t step : sample.steps) {
    const io::Table csv = io::read_csv(golden / "rank0" / ("grad_summary_" + std::to_string(step) + ".csv"));
    write_gradients(options, step, gradients_of(sample, step, csv));
  }
  REQUIRE(entries_below(dir.path()) == entries_below(golden));
  for (const std::string& name : entries_below(golden)) {
    if (name.back() == '/') continue;
    INFO(name);
    if (name.ends_with(".csv")) {
      CHECK(csv_with_norms_of(golden / name, dir / name, sample.dtype) == read_bytes(golden / name));
    } else {
      CHECK((read_bytes(dir / name) == read_bytes(golden / name)));
    }
  }
}

TEST_CASE("write_step: modes are 0750 for directories and 0640 for files") {
  const TempDir dir;
  const mode_t before = ::umask(0022);
  write_gradients(options_at(dir / "out"), 0, some_gradients(1, 3, 1));
  ::umask(before);
  const auto mode = [&dir](const char* name) {
    struct stat status{};
    REQUIRE(::stat((dir / name).c_str(), &status) == 0);
    return status.st_mode & 07777;
  };
  CHECK(mode("out/rank0") == 0750);
  CHECK(mode("out/rank0/step0") == 0750);
  CHECK(mode("out/rank0/step0/p0.npy") == 0640);
  CHECK(mode("out/rank0/grad_summary_0.csv") == 0640);
}

TEST_CASE("write_step: L0 has no step directory, and neither has a step without parameters") {
  const TempDir dir;
  write_gradients(options_at(dir.path(), Level::kL0), 4, some_gradients(1, 3, 1));
  write_gradients(options_at(dir.path(), Level::kL1), 5, {});
  CHECK(entries_below(dir.path()) == Names{"rank0/", "rank0/grad_summary_4.csv", "rank0/grad_summary_5.csv"});
}

TEST_CASE("write_step: the same step again replaces its files and keeps other old ones") {
  const TempDir dir;
  const Options options = options_at(dir.path());
  OwnedGradients first;
  first.add("a", {1, 1}, {2});
  first.add("b", {1, 1}, {2});
  OwnedGradients second;
  second.add("b", {-1, -1, -1}, {3});
  second.add("c", {1}, {1});
  write_gradients(options, 7, first);
  const std::string old_a = read_bytes(dir / "rank0/step7/a.npy");
  write_gradients(options, 7, second);
  CHECK(entries_below(dir.path()) == Names{"rank0/", "rank0/grad_summary_7.csv", "rank0/step7/",
                                           "rank0/step7/a.npy", "rank0/step7/b.npy", "rank0/step7/c.npy"});
  CHECK(read_bytes(dir / "rank0/step7/a.npy") == old_a);
  CHECK(io::read_npy_header(dir / "rank0/step7/b.npy").shape == std::vector<std::int64_t>{3});
  CHECK(io::read_csv(dir / "rank0/grad_summary_7.csv").rows.size() == 2);
}

TEST_CASE("write_step: a parameter listed twice has two rows and one file, also the second time") {
  const TempDir dir;
  OwnedGradients gradients;
  gradients.add("a", {1}, {1});
  gradients.add("a", {-1}, {1});
  write_gradients(options_at(dir.path()), 0, gradients);
  write_gradients(options_at(dir.path()), 0, gradients);
  CHECK(entries_below(dir.path()) ==
        Names{"rank0/", "rank0/grad_summary_0.csv", "rank0/step0/", "rank0/step0/a.npy"});
  CHECK(io::read_csv(dir / "rank0/grad_summary_0.csv").rows.size() == 2);
}

TEST_CASE("write_step: names with slashes stay in the step directory, and in the csv as they are") {
  const TempDir dir;
  OwnedGradients gradients;
  gradients.add("../../x", {1}, {1});
  write_gradients(options_at(dir / "out"), 0, gradients);
  CHECK(entries_below(dir.path()) == Names{"out/", "out/rank0/", "out/rank0/grad_summary_0.csv",
                                           "out/rank0/step0/", "out/rank0/step0/..%2F..%2Fx.npy"});
  CHECK(io::read_csv(dir / "out/rank0/grad_summary_0.csv").rows[0][0] == "../../x");
}

TEST_CASE("write_step: a step directory that is a file is an IoError that leaves no temporaries and no csv") {
  const TempDir dir;
  write_bytes(dir / "rank0/step3", "x");
  const OwnedGradients gradients = some_gradients(2, 5, 1);
  CHECK_THROWS_AS(write_gradients(options_at(dir.path()), 3, gradients), IoError);
  CHECK(entries_below(dir.path()) == Names{"rank0/", "rank0/step3"});
}

TEST_CASE("write_step: a file that cannot be replaced leaves the step without a csv") {
  const TempDir dir;
  const Options options = options_at(dir.path());
  write_gradients(options, 0, some_gradients(2, 5, 1));
  fs::remove(dir / "rank0/step0/p1.npy");
  fs::create_directories(dir / "rank0/step0/p1.npy/in the way");
  CHECK_THROWS_AS(write_gradients(options, 0, some_gradients(2, 5, 2)), IoError);
  CHECK(entries_below(dir.path()) == Names{"rank0/", "rank0/step0/", "rank0/step0/p0.npy",
                                           "rank0/step0/p1.npy/", "rank0/step0/p1.npy/in the way/"});
}

// Runs `work` in a child that may write no file beyond `bytes`, which stands for a full disk. 0 for an
// IoError.
template <typename Work>
int with_file_limit(rlim_t bytes, const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    int result = ::setrlimit(RLIMIT_FSIZE, &limit) == 0 ? 1 : 2;
    try {
      work();
    } catch (const IoError&) {
      result = 0;
    } catch (...) {
      result = 3;
    }
    ::_exit(result);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("write_step: a full disk leaves nothing of a new step and an older record of it as it was") {
  const TempDir dir;
  const Options options = options_at(dir.path());
  write_gradients(options, 0, some_gradients(3, 100, 1));
  const Names before = entries_below(dir.path());
  const std::string csv = read_bytes(dir / "rank0/grad_summary_0.csv");
  const std::string signs = read_bytes(dir / "rank0/step0/p2.npy");
  for (const std::int64_t step : {0, 1}) {
    CHECK(with_file_limit(5000, [&] {
            OwnedGradients gradients = some_gradients(2, 100, 2);
            gradients.add("p2", std::vector<float>(10000, 1.0F), {10000});
            write_gradients(options, step, gradients);
          }) == 0);
  }
  CHECK(entries_below(dir.path()) == before);
  CHECK((read_bytes(dir / "rank0/grad_summary_0.csv") == csv));
  CHECK((read_bytes(dir / "rank0/step0/p2.npy") == signs));
}

TEST_CASE("write_step: a csv that does not fit on the disk leaves nothing of the step") {
  const TempDir dir;
  CHECK(with_file_limit(1000,
                        [&] { write_gradients(options_at(dir.path()), 0, some_gradients(50, 10, 1)); }) == 0);
  CHECK(entries_below(dir.path()) == Names{"rank0/"});
}

}  // namespace
}  // namespace msprobe::grad_probe
