// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "../temp_dir.h"
#include "base/non_finite.h"
#include "catch.h"
#include "msprobe/monitor.h"

using namespace msprobe;
using monitor::absent;
using monitor::find_partings;
using monitor::Partings;
using monitor::SeriesPair;
using monitor::StoreReader;
using monitor::StoreWriter;
using test::TempDir;

namespace {

const std::vector<SeriesPair> kPairs = {{0, 0, true}, {1, 1, false}};

// Two series: noise that decays, and a setting.
std::filesystem::path record(const std::filesystem::path& path, int steps, unsigned seed,
                             const std::function<void(int, std::vector<double>&)>& change = {}) {
  StoreWriter writer(path, {});
  writer.add_series({"gradient", "norm", "", "model", -1, ""});
  writer.add_series({"learning_rate", "", "", "model", -1, ""});
  std::mt19937 random(seed);
  std::normal_distribution<double> noise;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> row = {2.0 + std::exp(-step / 100.0) + 0.1 * noise(random), 1e-3};
    if (change) change(step, row);
    writer.append(step, row);
  }
  CHECK(writer.flush() == 0);
  return path;
}

Partings compared(const std::filesystem::path& a, const std::filesystem::path& b) {
  return find_partings(StoreReader(a), StoreReader(b), kPairs);
}

}  // namespace

TEST_CASE("runs that are equal or differ by noise alone do not part") {
  const TempDir folder;
  const auto a = record(folder / "a.db", 6000, 1);
  const Partings same = compared(a, record(folder / "b.db", 6000, 1));
  CHECK(same.found.empty());
  CHECK(!same.first_difference);
  CHECK(same.common_steps == 6000);
  for (unsigned seed = 2; seed < 12; ++seed) {  // other batches
    const auto b = record(folder / ("n" + std::to_string(seed)), 6000, seed);
    CHECK(compared(a, b).found.empty());
    CHECK(compared(a, b).first_difference->step == 0);
  }
}

TEST_CASE("runs part where a number leaves the noise and stays away") {
  const TempDir folder;
  const auto a = record(folder / "a.db", 3000, 1);
  const auto b = record(folder / "b.db", 3000, 1, [](int step, std::vector<double>& row) {
    if (step >= 1500) row[0] += 1.0;
  });
  const Partings found = compared(a, b);
  REQUIRE(found.found.size() == 1);
  CHECK(found.found[0].pair == 0);
  CHECK(found.found[0].step == 1500);
  CHECK(found.found[0].target - found.found[0].reference == Approx(1.0));
  CHECK(found.found[0].band > 0.1);
  CHECK(found.found[0].band < 1.0);
  CHECK(found.first_difference->step == 1500);
  const std::vector<std::int64_t> at = {1500};
  CHECK(monitor::noise_band(StoreReader(a), 0, at)[0] == found.found[0].band);
}

TEST_CASE("a share of elements parts where more of them changed than rounding moves over a threshold") {
  const TempDir folder;
  const std::vector<SeriesPair> pairs = {{0, 0, true, true}};
  // Zeros among 6400 elements, so many at a step.
  const auto shares = [&](const char* name, const std::function<int(int)>& zeros) {
    StoreWriter writer(folder / name, {});
    writer.add_series({"gradient", "zeros", "blocks.0.out.weight", "parameter", 0, "share"});
    for (int step = 0; step < 30; ++step) writer.append(step, std::vector<double>{zeros(step) / 6400.0});
    CHECK(writer.flush() == 0);
    return folder / name;
  };
  const auto parted = [&](const std::filesystem::path& a, const std::filesystem::path& b) {
    return find_partings(StoreReader(a), StoreReader(b), pairs).found;
  };
  const auto none = shares("none.db", [](int) { return 0; });
  CHECK(parted(none, shares("one.db", [](int step) { return step == 0 ? 1 : 0; })).empty());
  CHECK(parted(none, shares("few.db", [](int step) { return step % 3; })).empty());
  const auto third = shares("third.db", [](int) { return 2133; });
  CHECK(parted(third, shares("moved.db", [](int step) { return 2133 + step % 40; })).empty());
  // A row of 80.
  const auto row = parted(none, shares("row.db", [](int step) { return step < 9 ? step % 2 : 80; }));
  REQUIRE(row.size() == 1);
  CHECK(row[0].step == 9);
  CHECK(row[0].band == Approx(4 * 9.0 / 6400));
  CHECK(parted(third, shares("half.db", [](int) { return 3200; }))[0].step == 0);
}

TEST_CASE("what keeps the roundings of its steps may be as far off as their number makes it") {
  const TempDir folder;
  // Halves of 16 bits have 2^-8; the target is so many roundings off from step 0 on.
  const double kept = 1.0 / 256;
  const auto weight = [&](const char* name, const std::function<double(int)>& roundings) {
    StoreWriter writer(folder / name, {});
    writer.add_series({"weight", "abs_max", "q.weight", "parameter", 0, ""});
    for (int step = 0; step < 90; ++step)
      writer.append(step, std::vector<double>{0.5 * (1 + kept * roundings(step))});
    CHECK(writer.flush() == 0);
    return StoreReader(folder / name);
  };
  const auto still = weight("still.db", [](int) { return 0; });
  const auto parted = [&](const StoreReader& b, double share) {
    return find_partings(still, b, std::vector<SeriesPair>{{0, 0, true, false, share}}).found;
  };
  // Four standard deviations of a walk: 4 sqrt(2 / 3) roundings in the first step, as many times sqrt(n) in
  // n.
  const auto walk = weight("walk.db", [](int step) { return 3.2 * std::sqrt(step + 1); });
  CHECK(parted(walk, kept).empty());
  CHECK(parted(walk, 0)[0].step == 0);
  const auto farther = parted(weight("line.db", [](int step) { return step; }), kept);
  REQUIRE(farther.size() == 1);
  CHECK(farther[0].step == 12);  // 12 > 4 sqrt(2 / 3 * 13); 11 < 4 sqrt(2 / 3 * 12)
  CHECK(farther[0].band == Approx(0.5 * kept * 4 * std::sqrt(2.0 / 3 * 13)));
}

TEST_CASE("one step a little outside of the noise is no parting, one far outside is") {
  const TempDir folder;
  const auto a = record(folder / "a.db", 500, 1);
  const auto off_by = [&](const char* name, double distance) {
    return record(folder / name, 500, 1, [&](int step, std::vector<double>& row) {
      if (step == 200) row[0] += distance;
    });
  };
  CHECK(compared(a, off_by("b.db", 0.8)).found.empty());
  REQUIRE(compared(a, off_by("c.db", 80)).found.size() == 1);
  CHECK(compared(a, off_by("d.db", 80)).found[0].step == 200);
  const auto nan = off_by("e.db", kNaN);
  REQUIRE(compared(a, nan).found.size() == 1);
  CHECK(compared(a, nan).found[0].step == 200);
  REQUIRE(compared(nan, a).found.size() == 1);
  CHECK(compared(nan, a).found[0].step == 200);
}

TEST_CASE("a setting has no noise") {
  const TempDir folder;
  const auto a = record(folder / "a.db", 100, 1);
  const auto b = record(folder / "b.db", 100, 1, [](int step, std::vector<double>& row) {
    if (step >= 40) row[1] *= 1.01;
  });
  const Partings found = compared(a, b);
  REQUIRE(found.found.size() == 1);
  CHECK(found.found[0].pair == 1);
  CHECK(found.found[0].step == 40);
}

TEST_CASE("only steps and numbers that both have are compared") {
  const TempDir folder;
  const auto a = record(folder / "a.db", 300, 1);
  const auto b = record(folder / "b.db", 200, 1, [](int step, std::vector<double>& row) {
    if (step < 100) row[0] = absent();
  });
  const Partings found = compared(a, b);
  CHECK(found.found.empty());
  CHECK(found.common_steps == 200);
}

TEST_CASE("a NaN of both runs is none of a parting") {
  const TempDir folder;
  const auto bad = [](int step, std::vector<double>& row) {
    if (step > 50) row[0] = kNaN;
  };
  const auto a = record(folder / "a.db", 100, 1, bad);
  CHECK(compared(a, record(folder / "b.db", 100, 1, bad)).found.empty());
}

TEST_CASE("the search ends when the caller does not want it any more") {
  const TempDir folder;
  const auto a = record(folder / "a.db", 100, 1);
  const auto b = record(folder / "b.db", 100, 2);
  const Partings found =
      find_partings(StoreReader(a), StoreReader(b), kPairs, {}, [](double) { return false; });
  CHECK(found.common_steps == 0);
}
