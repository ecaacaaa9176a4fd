// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <string>
#include <vector>

#include "../temp_dir.h"
#include "base/non_finite.h"
#include "catch.h"
#include "contains.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"

using namespace msprobe;
using monitor::absent;
using monitor::Bucket;
using monitor::is_absent;
using monitor::Series;
using monitor::StoreReader;
using monitor::StoreWriter;
using test::TempDir;

namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

Series series(const std::string& name) { return {"gradient", "norm", name, "parameter", -1, ""}; }

double wave(std::int64_t step, std::size_t number) {
  return std::sin(static_cast<double>(step) * 0.01) + static_cast<double>(number);
}

// Steps [first, last) of `count` series.
void append(StoreWriter& writer, std::int64_t first, std::int64_t last, std::size_t count = 3) {
  for (std::size_t s = 0; s < count; ++s) writer.add_series(series(std::to_string(s)));
  std::vector<double> row(count);
  for (std::int64_t step = first; step < last; ++step) {
    for (std::size_t s = 0; s < count; ++s) row[s] = wave(step, s);
    writer.append(step, row);
  }
}

void check_all(const StoreReader& reader, std::int64_t first, std::int64_t last, std::size_t count = 3) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t s = 0; s < count; ++s) numbers.push_back(s);
  const StoreReader::Values values = reader.values(numbers, 0, kEnd);
  REQUIRE(values.steps.size() == static_cast<std::size_t>(last - first));
  bool same = true;
  for (std::size_t i = 0; i < values.steps.size(); ++i) {
    same = same && values.steps[i] == first + static_cast<std::int64_t>(i);
    for (std::size_t s = 0; s < count; ++s) same = same && values.numbers[s][i] == wave(values.steps[i], s);
  }
  CHECK(same);
}

}  // namespace

TEST_CASE("store: every number comes back, blocks or not") {
  for (const std::int64_t steps : {0, 1, 1023, 1024, 1025, 5000}) {
    const TempDir folder;
    {
      StoreWriter writer(folder / "a" / "monitor.db", {.info = {{"rank", "0"}}});
      append(writer, 0, steps);
      CHECK(writer.flush() == 0);
    }
    const StoreReader reader(folder / "a" / "monitor.db");
    check_all(reader, 0, steps);
    CHECK(reader.extent().steps == steps);
    CHECK(reader.info().at("rank") == "0");
    REQUIRE(reader.series().size() == 3);
    CHECK(reader.series()[1].key() == "gradient.norm/1");
    CHECK(reader.series()[1].scope == "parameter");
  }
}

TEST_CASE("store: curves of any width cover every number") {
  const TempDir folder;
  constexpr std::int64_t steps = 40 * 1024 + 100;
  {
    StoreWriter writer(folder / "monitor.db", {});
    append(writer, 0, steps, 1);
  }
  const StoreReader reader(folder / "monitor.db");
  for (const std::size_t points : {std::size_t{10}, std::size_t{2000}, std::size_t{100'000}}) {
    const std::vector<Bucket> curve = reader.curve(0, 0, kEnd, points);
    std::int64_t count = 0;
    std::int64_t next = 0;
    bool right = true;
    for (const Bucket& bucket : curve) {
      right = right && bucket.first_step == next && bucket.bad == 0;
      next = bucket.last_step + 1;
      count += bucket.count;
      double min = std::numeric_limits<double>::infinity();
      double sum = 0;
      for (std::int64_t step = bucket.first_step; step <= bucket.last_step; ++step) {
        min = std::min(min, wave(step, 0));
        sum += wave(step, 0);
      }
      right = right && bucket.min == min && std::abs(bucket.mean - sum / bucket.count) < 1e-12;
    }
    CHECK(right);
    CHECK(count == steps);
    CHECK(next == steps);
  }
  CHECK(reader.curve(0, 0, kEnd, 10).size() == 9);  // five blocks in each
  CHECK(reader.curve(0, 0, kEnd, 2000).size() == 40 * 32 + 4);
  CHECK(reader.curve(0, 2000, 2009, 10).size() == 10);
}

TEST_CASE("store: a shift moves every step that is read, and what is asked for") {
  const TempDir folder;
  const auto path = folder / "monitor.db";
  {
    StoreWriter writer(path, {});
    append(writer, 0, 3000);
    CHECK(writer.flush() == 0);
  }
  const StoreReader plain(path);
  const StoreReader shifted(path, 100);
  CHECK(shifted.extent().first == 100);
  CHECK(shifted.extent().last == 3099);
  const std::vector<std::uint32_t> series{1};
  CHECK(shifted.values(series, 2000, 2001).steps == std::vector<std::int64_t>{2000, 2001});
  CHECK(shifted.values(series, 2000, 2001).numbers == plain.values(series, 1900, 1901).numbers);
  CHECK(shifted.values(series, std::numeric_limits<std::int64_t>::min(), kEnd).steps.size() == 3000);
  const std::vector<Bucket> moved = shifted.curve(1, 100, 3099, 10);
  const std::vector<Bucket> still = plain.curve(1, 0, 2999, 10);
  REQUIRE(moved.size() == still.size());
  for (std::size_t i = 0; i < moved.size(); ++i) {
    CHECK(moved[i].first_step == still[i].first_step + 100);
    CHECK(moved[i].mean == still[i].mean);
  }
}

TEST_CASE("store: what was not measured is no NaN") {
  CHECK(is_absent(absent()));
  CHECK(std::isnan(absent()));
  CHECK_FALSE(is_absent(kNaN));
  const TempDir folder;
  {
    StoreWriter writer(folder / "monitor.db", {});
    writer.add_series(series("early"));
    for (std::int64_t step = 0; step < 3000; ++step) {
      if (step == 1500) writer.add_series(series("late"));
      std::vector<double> row{step % 2 == 0 ? 1.0 : absent()};
      if (step >= 1500) row.push_back(step == 2000 ? kNaN : 2.0);
      writer.append(step, row);
    }
  }
  const StoreReader reader(folder / "monitor.db");
  std::uint32_t early = 0;
  std::uint32_t late = 0;
  for (const std::size_t points : {std::size_t{3}, std::size_t{100}, std::size_t{5000}}) {
    early = late = 0;
    std::uint32_t bad = 0;
    for (const Bucket& bucket : reader.curve(0, 0, kEnd, points)) early += bucket.count;
    for (const Bucket& bucket : reader.curve(1, 0, kEnd, points)) {
      late += bucket.count;
      bad += bucket.bad;
      CHECK(bucket.last_step >= 1500);
    }
    CHECK(early == 1500);
    CHECK(late == 1499);
    CHECK(bad == 1);
  }
}

TEST_CASE("store: a training that goes on has no step twice") {
  for (const std::int64_t at : {0, 1, 500, 1023, 1024, 1500, 2048, 2500, 2999, 3000, 3100}) {
    const TempDir folder;
    {
      StoreWriter writer(folder / "monitor.db", {});
      append(writer, 0, 3000);
    }
    {
      StoreWriter writer(folder / "monitor.db", {.resume_at = at});
      CHECK(writer.add_series(series("2")) == 2);  // keeps its number
      append(writer, at, at + 2000);
      CHECK(writer.flush() == 0);
    }
    const StoreReader reader(folder / "monitor.db");
    const auto values = reader.values(std::vector<std::uint32_t>{1}, 0, kEnd);
    const std::int64_t kept = std::min<std::int64_t>(at, 3000);
    REQUIRE(values.steps.size() == static_cast<std::size_t>(kept + 2000));
    bool right = true;
    for (std::size_t i = 0; i < values.steps.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      right = right && values.steps[i] == (row < kept ? row : at + row - kept);
      right = right && values.numbers[0][i] == wave(values.steps[i], 1);
    }
    CHECK(right);
    std::int64_t count = 0;
    for (const Bucket& bucket : reader.curve(1, 0, kEnd, 2)) count += bucket.count;
    CHECK(count == kept + 2000);
  }
}

TEST_CASE("store: an earlier record is not overwritten unasked") {
  const TempDir folder;
  {
    const StoreWriter writer(folder / "monitor.db", {});
  }
  CHECK_THROWS_AS(StoreWriter(folder / "monitor.db", {}), InvalidArgument);
}

TEST_CASE("store: steps ascend") {
  const TempDir folder;
  StoreWriter writer(folder / "monitor.db", {});
  writer.append(5, std::vector<double>{});
  CHECK(writer.last_step() == 5);
  CHECK_THROWS_AS(writer.append(5, std::vector<double>{}), InvalidArgument);
  writer.append(6, std::vector<double>{});
}

TEST_CASE("store: a reader sees steps while they are written") {
  const TempDir folder;
  StoreWriter writer(folder / "monitor.db", {});
  append(writer, 0, 1030);
  REQUIRE(writer.flush() == 0);
  const StoreReader reader(folder / "monitor.db");
  check_all(reader, 0, 1030);
  append(writer, 1030, 2100);
  REQUIRE(writer.flush() == 0);
  check_all(reader, 0, 2100);
}

TEST_CASE("store: a killed process leaves whole steps, and they can be continued") {
  const TempDir folder;
  const pid_t child = ::fork();
  if (child == 0) {
    StoreWriter writer(folder / "monitor.db", {});
    append(writer, 0, 2500);
    writer.flush();
    append(writer, 2500, 2600);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  std::int64_t steps = 0;
  {
    const StoreReader reader(folder / "monitor.db");
    steps = reader.extent().steps;
    CHECK(steps >= 2500);
    check_all(reader, 0, steps);
  }
  {
    StoreWriter writer(folder / "monitor.db", {.resume_at = steps});
    append(writer, steps, 4000);
  }
  check_all(StoreReader(folder / "monitor.db"), 0, 4000);
}

TEST_CASE("store: in a forked child nothing is written") {
  const TempDir folder;
  StoreWriter writer(folder / "monitor.db", {});
  append(writer, 0, 10);
  writer.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    append(writer, 10, 20);
    ::_exit(writer.flush() == 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  append(writer, 10, 12);
  CHECK(writer.flush() == 0);
  check_all(StoreReader(folder / "monitor.db"), 0, 12);
}

TEST_CASE("store: what a full disk refuses is written later") {
  const TempDir folder;
  const pid_t child = ::fork();  // the limit is that of a process
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    StoreWriter writer(folder / "monitor.db", {});
    append(writer, 0, 200);
    if (writer.flush() != 0) ::_exit(1);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    append(writer, 200, 400);
    if (writer.flush() != 200) ::_exit(2);
    limit.rlim_cur = before;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    append(writer, 400, 410);
    ::_exit(writer.flush() == 0 ? 0 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  check_all(StoreReader(folder / "monitor.db"), 0, 410);
}

TEST_CASE("store: beyond the room in memory the oldest steps are lost") {
  const TempDir folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    StoreWriter writer(folder / "monitor.db", {.queue_bytes = 100 * 3 * sizeof(double)});
    append(writer, 0, 10);
    if (writer.flush() != 0) ::_exit(1);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    append(writer, 10, 11);
    writer.flush();
    append(writer, 11, 300);
    limit.rlim_cur = before;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(writer.flush() == 190 ? 0 : 2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  const auto values = StoreReader(folder / "monitor.db").values(std::vector<std::uint32_t>{0}, 0, kEnd);
  REQUIRE(values.steps.size() == 110);
  CHECK(values.steps[9] == 9);
  CHECK(values.steps[10] == 200);
}

TEST_CASE("store: files that are none are refused") {
  const TempDir folder;
  CHECK_THROWS_AS(StoreReader(folder / "absent.db"), IoError);
  CHECK_THROWS_AS(StoreReader(folder.path()), IoError);
  test::write_bytes(folder / "text.db", "no database at all, but long enough to be looked at as one");
  CHECK_THROWS_AS(StoreReader(folder / "text.db"), FormatError);
  test::write_bytes(folder / "empty.db", "");
  CHECK_THROWS_AS(StoreReader(folder / "empty.db"), FormatError);
  CHECK_THROWS_AS(StoreWriter(folder / "text.db", {.resume_at = 0}), Error);
}

TEST_CASE("store: a damaged file is an error, not a crash") {
  const TempDir folder;
  {
    StoreWriter writer(folder / "monitor.db", {});
    append(writer, 0, 3000);
  }
  const std::string good = test::read_bytes(folder / "monitor.db");
  unsigned seed = 1;
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    if (round % 3 == 0) {
      bad.resize(good.size() * static_cast<std::size_t>(round + 1) / 64);
    } else {
      for (int i = 0; i < 50; ++i) {
        seed = seed * 1103515245 + 12345;
        bad[100 + seed % (bad.size() - 100)] = static_cast<char>(seed >> 16);
      }
    }
    test::write_bytes(folder / "bad.db", bad);
    try {
      const StoreReader reader(folder / "bad.db");
      reader.series();
      reader.extent();
      reader.curve(0, 0, kEnd, 10);
      reader.curve(0, 0, kEnd, 100);
      reader.values(std::vector<std::uint32_t>{0, 1, 2, 99}, 0, kEnd);
    } catch (const Error&) {  // as it should
    }
    std::filesystem::remove(folder / "bad.db");
  }
}

TEST_CASE("store: a table that is a view without an end is refused") {
  const TempDir folder;
  for (const char* const table : {"info", "series", "blocks", "columns", "recent", "fine", "coarse"}) {
    const std::filesystem::path path = folder / (std::string(table) + ".db");
    {
      StoreWriter writer(path, {});
      append(writer, 0, 10);
    }
    {
      SQLite::Database database(path.string(), SQLite::OPEN_READWRITE);
      const std::string name(table);
      database.exec("DROP TABLE " + name + "; CREATE VIEW " + name +
                    " AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r");
    }
    std::string said;
    try {
      const StoreReader reader(path);
    } catch (const FormatError& error) {
      said = error.what();
    }
    CAPTURE(table, said);
    CHECK(test::contains(said, "expected a table " + std::string(table) + ", found a view"));
  }
}
