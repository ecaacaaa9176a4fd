// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.h"
#include "grad_probe/sample.h"
#include "msprobe/grad_probe.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

using State = Similarity::State;

Comparison comparison_of(std::vector<std::string> names, std::vector<std::int64_t> steps,
                         std::vector<Similarity> cells) {
  Comparison comparison;
  comparison.names = std::move(names);
  comparison.steps = std::move(steps);
  comparison.cells = std::move(cells);
  return comparison;
}

Similarity compared(std::int64_t equal, std::int64_t count) { return {State::kCompared, equal, count, {}}; }

TEST_CASE("Similarity: a ratio when compared, 0 for an empty tensor, NaN otherwise") {
  CHECK(compared(2, 3).value() == 2.0 / 3.0);
  CHECK(compared(0, 0).value() == 0.0);
  CHECK(std::isnan(kAbsent.value()));
  CHECK(std::isnan(kMissing.value()));
}

TEST_CASE("Comparison::summary: the mean weighted by elements over what was compared") {
  const Comparison comparison = comparison_of({"a", "b", "c"}, {0, 1, 2, 3},
                                              {compared(1, 1), compared(0, 0), kAbsent, kAbsent,   //
                                               compared(0, 9), compared(0, 0), kMissing, kAbsent,  //
                                               kMissing, kAbsent, kAbsent, kAbsent});
  CHECK(comparison.summary(0).value() == 0.1);
  CHECK(comparison.summary(0).count == 10);
  CHECK(comparison.summary(1).value() == 0.0);
  CHECK(comparison.summary(1).state == State::kCompared);
  CHECK(comparison.summary(2).state == State::kMissing);
  CHECK(comparison.summary(3).state == State::kAbsent);
}

TEST_CASE("write_similarities: a row per parameter, nan where nothing was compared, the summary last") {
  const test::TempDir dir;
  const Comparison comparison =
      comparison_of({"a,b", "summary"}, {0, 10}, {compared(2, 3), kAbsent, compared(1, 1), kMissing});
  write_similarities(comparison, dir / "s.csv");
  CHECK(test::read_bytes(dir / "s.csv") ==
        "\xEF\xBB\xBFstep,0,10\r\n\"a,b\",0.6666666666666666,nan\r\nsummary,1.0,nan\r\nsummary,0.75,nan\r\n");
}

TEST_CASE("write_similarities: replaces an existing file with a warning") {
  const test::TempDir dir;
  test::write_bytes(dir / "s.csv", "old");
  const test::LogCapture log;
  write_similarities(comparison_of({"a"}, {0}, {compared(1, 1)}), dir / "s.csv");
  CHECK(log.levels() == std::vector<LogLevel>{LogLevel::kWarning});
  CHECK(test::read_bytes(dir / "s.csv") != "old");
  CHECK_THROWS_AS(write_similarities(Comparison{}, dir / "missing/s.csv"), IoError);
}

}  // namespace
}  // namespace msprobe::grad_probe
