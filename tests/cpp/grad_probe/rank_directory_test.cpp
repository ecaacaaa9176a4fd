// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/rank_directory.h"

#include <unistd.h>

#include "catch.h"
#include "ended_process.h"
#include "msprobe/error.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

using test::ended_process;
using test::TempDir;
using Names = std::vector<std::string>;

TEST_CASE("number_after: only digits without leading zeros") {
  CHECK(number_after("step", "step0") == 0);
  CHECK(number_after("step", "step120") == 120);
  for (const char* name : {"step", "step01", "step-1", "step+1", "step1a", "step 1", "Step1", "xstep1",
                           "step1.0", "", "step99999999999999999999"}) {
    CHECK_FALSE(number_after("step", name).has_value());
  }
}

TEST_CASE("numbered_directories: directories only, in the order of the numbers") {
  const TempDir dir;
  for (const char* name : {"step10", "step9", "step007", "steps", ".step3.1.tmp", "rank1"}) {
    std::filesystem::create_directory(dir / name);
  }
  test::write_bytes(dir / "step4", "a file");
  CHECK(numbered_directories(dir.path(), "step") == std::vector<std::int64_t>{9, 10});
  CHECK_THROWS_AS(numbered_directories(dir / "missing", "step"), IoError);
  CHECK_THROWS_AS(numbered_directories(dir / "step4", "step"), IoError);
}

TEST_CASE("create_temporary_step_directory: a name that is taken is left alone") {
  const TempDir dir;
  const auto first = create_temporary_step_directory(dir.path(), 3);
  const auto second = create_temporary_step_directory(dir.path(), 3);
  CHECK(first.filename() == ".step3." + std::to_string(getpid()) + ".tmp");
  CHECK(second != first);
  CHECK(std::filesystem::is_directory(second));
  CHECK_THROWS_AS(create_temporary_step_directory(dir / "missing", 3), IoError);
}

TEST_CASE("remove_stale_temporaries: takes those of ended processes and nothing else") {
  const TempDir dir;
  const std::string ended = std::to_string(ended_process());
  const std::string own = std::to_string(getpid());
  const std::string parent = std::to_string(getppid());
  test::write_bytes(dir / (".step1." + ended + ".tmp/w.npy"), "x");
  test::write_bytes(dir / (".step1." + ended + "-2.tmp/w.npy"), "x");
  test::write_bytes(dir / (".grad_summary_1.csv." + ended + ".tmp"), "x");
  const std::string of_own = ".step2." + own + ".tmp";
  Names kept{".grad_summary_1.csv." + parent + ".tmp",
             ".other." + ended + ".tmp",
             ".step1.tmp",
             ".step1.x.tmp",
             ".step1." + ended,
             "step1." + ended + ".tmp",
             "grad_summary_1.csv",
             of_own};
  for (const std::string& name : kept) test::write_bytes(dir / name, "x");
  std::sort(kept.begin(), kept.end());

  remove_stale_temporaries(dir.path(), false);
  CHECK(test::entries_below(dir.path()) == kept);
  remove_stale_temporaries(dir.path(), true);
  kept.erase(std::find(kept.begin(), kept.end(), of_own));
  CHECK(test::entries_below(dir.path()) == kept);
  remove_stale_temporaries(dir / "missing", true);  // not an error
}

TEST_CASE("remove_stale_temporaries: does not follow links out of the directory") {
  const TempDir dir;
  test::write_bytes(dir / "elsewhere/precious", "x");
  std::filesystem::create_directory(dir / "rank0");
  const std::string name = ".step1." + std::to_string(ended_process()) + ".tmp";
  std::filesystem::create_directory_symlink(dir / "elsewhere", dir / "rank0" / name);
  remove_stale_temporaries(dir / "rank0", false);
  CHECK(test::entries_below(dir.path()) == Names{"elsewhere/", "elsewhere/precious", "rank0/"});
}

}  // namespace
}  // namespace msprobe::grad_probe
