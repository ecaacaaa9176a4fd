// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "ended_process.h"
#include "log_capture.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/event_log.h"
#include "msprobe/pt_file.h"
#include "recorder_support.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::dump;
using namespace msprobe::test;
using trace::Part;
using trace::RecordKind;

namespace fs = std::filesystem;

TEST_CASE("recorder: a step leaves its files and nothing else") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Recorder recorder(Options{});
  CHECK_FALSE(recorder.is_open());
  recorder.open(rank);
  CHECK(recorder.is_open());
  recorder.place("Torch.add.0.forward");
  record_call(recorder, "Torch.add.0.forward", 7);
  recorder.close();
  CHECK_FALSE(recorder.is_open());
  CHECK(test::entries_below(rank) == kFiles);
  CHECK(contains(read_bytes(rank / "dump.json"), "\"value\": 7"));
  CHECK(construct_of(rank) == "{\n \"Torch.add.0.forward\": null\n}");
  CHECK(recorder.report().records == 1);
  CHECK_FALSE(recorder.report().incomplete);
  recorder.end();
  CHECK(test::entries_below(folder / "dump").size() == kFiles.size() + 2);  // step0/ and rank/
}

TEST_CASE("recorder: files are complete after flush(), and the step goes on") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Recorder recorder(Options{});
  recorder.open(rank);
  record_call(recorder, "Torch.add.0.forward");
  recorder.flush();
  CHECK(contains(read_bytes(rank / "dump.json"), "Torch.add.0.forward"));
  CHECK(recorder.report().records == 1);
  recorder.open(rank);  // the same: goes on
  record_call(recorder, "Torch.add.1.forward");
  recorder.begin_flush();
  recorder.flush();
  const std::string text = read_bytes(rank / "dump.json");
  CHECK(contains(text, "Torch.add.0.forward"));
  CHECK(contains(text, "Torch.add.1.forward"));
}

TEST_CASE("recorder: a flush that nobody waits for is done soon, also after a long pause") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Recorder recorder(Options{});
  for (const bool after_pause : {false, true}) {
    // Long enough for the thread that writes to stop looking for work, and for it to start again.
    if (after_pause) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const fs::path directory = rank / (after_pause ? "later" : "at_once");
    recorder.open(directory);
    if (after_pause) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    record_call(recorder, "Torch.add.0.forward");
    recorder.begin_flush();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!fs::exists(directory / "dump.json") && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(contains(read_bytes(directory / "dump.json"), "Torch.add.0.forward"));
    recorder.close();
    CHECK(test::entries_below(directory) == kFiles);
  }
}

TEST_CASE("recorder: what a killed process left beside the steps goes, and nothing else") {
  const TempDir folder;
  const auto left_by = [](pid_t process) { return ".trace.msprobe." + std::to_string(process) + "-3.tmp"; };
  const std::string running = left_by(::getppid());
  write_bytes(folder / ("dump/" + left_by(ended_process())), "x");
  write_bytes(folder / ("dump/" + running), "x");
  {
    Recorder recorder(Options{});
    for (const int step : {0, 1}) {
      recorder.open(rank_of(folder, step));
      recorder.close();
    }
  }
  for (const int step : {0, 1}) fs::remove_all(rank_of(folder, step));
  CHECK(test::entries_below(folder / "dump") == std::vector<std::string>{running, "step0/", "step1/"});
}

TEST_CASE("recorder: a step makes each of its files once") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Recorder recorder(Options{});
  recorder.open(rank);
  record_call(recorder, "Torch.add.0.forward");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(test::entries_below(rank) == std::vector<std::string>{"trace.msprobe"});
  recorder.close();
  CHECK(test::entries_below(rank) == kFiles);
}

TEST_CASE("recorder: steps do not mix") {
  const TempDir folder;
  Recorder recorder(Options{});
  for (int step = 0; step < 4; ++step) {
    const fs::path rank = rank_of(folder, step);
    recorder.open(rank);
    recorder.place("a" + std::to_string(step));
    record_call(recorder, "a" + std::to_string(step));
    if (step % 2 == 0) recorder.close();
  }
  recorder.close();
  for (int step = 0; step < 4; ++step) {
    const fs::path rank = rank_of(folder, step);
    const std::string text = read_bytes(rank / "dump.json");
    for (int other = 0; other < 4; ++other) {
      CHECK(contains(text, "\"a" + std::to_string(other) + "\"") == (other == step));
    }
    CHECK(construct_of(rank) == "{\n \"a" + std::to_string(step) + "\": null\n}");
    CHECK(test::entries_below(rank) == kFiles);
  }
}

TEST_CASE("recorder: what a call leaves is on the disk at once, where a killed process is looked for") {
  const TempDir folder;
  Recorder recorder(Options{});
  for (int step = 0; step < 4; ++step) {
    const fs::path rank = rank_of(folder, step);
    if (step == 3) fs::remove_all(folder / "dump");  // with what was kept for this step
    recorder.open(rank);
    record_call(recorder, "Torch.add.0.forward", 3);
    record_call(recorder, "Torch.add.1.forward", 3);
    const trace::ExportReport report = trace::export_event_log(rank / "trace.msprobe", folder / "made");
    CHECK(report.records == 2);
    CHECK(test::entries_below(rank) == std::vector<std::string>{"trace.msprobe"});
    recorder.close();
  }
}

TEST_CASE("recorder: begin_close() leaves the files to the writer, and end() waits for them") {
  const TempDir folder;
  const LogCapture log;
  constexpr int kSteps = 40;
  const auto rank = [&](int step) { return rank_of(folder, step); };
  {
    Recorder recorder(Options{});
    for (int step = 0; step < kSteps; ++step) {
      recorder.open(rank(step));
      for (int call = 0; call <= step; ++call) record_call(recorder, "a" + std::to_string(call));
      recorder.begin_close();
      CHECK_FALSE(recorder.is_open());
      recorder.begin_close();  // there is nothing to end
      if (step > 0) CHECK(fs::exists(rank(step - 1) / "summary.json"));
      if (step % 7 == 6) {
        recorder.close();
        CHECK(test::entries_below(rank(step)) == kFiles);
        CHECK(recorder.report().records == static_cast<std::size_t>(step) + 1);
      }
    }
    recorder.end();
  }
  for (int step = 0; step < kSteps; ++step) {
    const std::string text = read_bytes(rank(step) / "dump.json");
    CHECK(contains(text, "\"a" + std::to_string(step) + "\""));
    CHECK_FALSE(contains(text, "\"a" + std::to_string(step + 1) + "\""));
    CHECK(test::entries_below(rank(step)) == kFiles);
  }
  CHECK(test::entries_below(folder / "dump").size() == kSteps * (kFiles.size() + 2));
  CHECK(log.warnings().empty());
}

TEST_CASE("recorder: a flush that was asked for before begin_close() is of that step alone") {
  const TempDir folder;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  record_call(recorder, "a0");
  recorder.begin_flush();
  recorder.begin_close();
  recorder.open(folder / "dump/step1/rank");
  record_call(recorder, "a1");
  while (!fs::exists(folder / "dump/step0/rank/summary.json")) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(test::entries_below(folder / "dump/step1/rank") == std::vector<std::string>{"trace.msprobe"});
  recorder.flush();
  CHECK(contains(read_bytes(folder / "dump/step1/rank/dump.json"), "\"a1\""));
}

TEST_CASE("recorder: a step that begins again while it is being finished waits for that") {
  const TempDir folder;
  Recorder recorder(Options{});
  for (int i = 0; i < 20; ++i) {
    recorder.open(folder / "dump/step0/rank");
    record_call(recorder, "a" + std::to_string(i));
    recorder.begin_close();
  }
  recorder.end();
  CHECK(contains(read_bytes(folder / "dump/step0/rank/dump.json"), "\"a19\""));
  CHECK(test::entries_below(folder / "dump/step0/rank") == kFiles);
}

TEST_CASE("recorder: what goes wrong while nobody waits is said once, by the next call") {
  const TempDir folder;
  const LogCapture log;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  record_call(recorder, "a0");
  fs::remove_all(folder / "dump/step0");
  recorder.begin_close();
  recorder.open(folder / "dump/step1/rank");
  recorder.close();
  REQUIRE(log.warnings().size() == 1);
  CHECK(contains(log.warnings()[0], "step0"));
  CHECK_FALSE(recorder.report().incomplete);

  record_call(recorder, "late");
  recorder.open(folder / "dump/step2/rank");
  REQUIRE(log.warnings().size() == 2);
  CHECK(contains(log.warnings()[1], "after the step()"));
}

TEST_CASE("recorder: deferred, a step leaves its log, of which the files can be made") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank0";
  Options options;
  options.deferred = true;
  Recorder recorder(options);
  recorder.open(rank);
  record_call(recorder, "Torch.add.0.forward", 3);
  recorder.close();
  CHECK(test::entries_below(rank) == std::vector<std::string>{"summary.json", "trace.msprobe"});
  const trace::ExportReport report = trace::export_event_log(rank / "trace.msprobe", folder / "made");
  CHECK(report.records == 1);
  CHECK(report.cut.empty());
  CHECK(contains(read_bytes(folder / "made/dump.json"), "\"value\": 3"));
}

TEST_CASE("recorder: what comes after the end of a step is lost, with one warning and no crash") {
  const TempDir folder;
  const LogCapture log;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  record_call(recorder, "Torch.add.0.forward");
  recorder.close();
  record_call(recorder, "Torch.add.0.backward");
  recorder.place("Torch.add.0.backward");
  recorder.place_backward("Torch.add.0.backward", nullptr);
  recorder.fill(recorder.new_slot(), one_integer(1));
  recorder.store("late.pt", stored({1}));
  CHECK(recorder.stack({}) == trace::kNoStack);
  recorder.flush();
  recorder.flush();
  REQUIRE(log.warnings().size() == 1);
  CHECK(contains(log.warnings()[0], "after the step()"));
  CHECK_FALSE(contains(read_bytes(folder / "dump/step0/rank/dump.json"), "backward"));
}

TEST_CASE("recorder: before the first step nothing is recorded and nothing breaks") {
  Recorder recorder(Options{});
  record_call(recorder, "Torch.add.0.forward");
  recorder.place("Torch.add.0.forward");
  recorder.note_fault("Torch.add.0.forward", "no folder yet");
  recorder.note_output("Torch.add.0.forward", trace::Badness::kInfinite);
  recorder.flush();
  recorder.close();
  CHECK(recorder.report().records == 0);
}

TEST_CASE("recorder: summary.json says what a step held and what was left out") {
  const TempDir folder;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  record_call(recorder, "Torch.add.0.forward");
  recorder.note_skipped("meta tensor");
  recorder.note_skipped("meta tensor");
  recorder.note_output("Torch.add.0.forward", trace::Badness::kInfinite);
  recorder.close();
  const std::string text = read_bytes(folder / "dump/step0/rank/summary.json");
  CHECK(contains(text, "\"records\": 1"));
  CHECK(contains(text, "\"first_non_finite\": \"Torch.add.0.forward\""));
  CHECK(contains(text, "\"first_nan\": null"));
  CHECK(contains(text, "\"complete\": true"));
  CHECK(contains(text, "\"skipped\": {\n  \"meta tensor\": 2\n }"));
}

TEST_CASE("recorder: a folder that cannot be made is an error of open(), and the next may work") {
  const TempDir folder;
  test::write_bytes(folder / "file", "");
  Recorder recorder(Options{});
  CHECK_THROWS_AS(recorder.open(folder / "file/step0/rank"), IoError);
  CHECK_FALSE(recorder.is_open());
  record_call(recorder, "Torch.add.0.forward");
  recorder.open(folder / "dump/step1/rank");
  record_call(recorder, "Torch.add.0.forward");
  recorder.close();
  CHECK(recorder.report().records == 1);
}

TEST_CASE("recorder: a folder removed in mid-step costs this step, with one warning, and not the next") {
  const TempDir folder;
  const LogCapture log;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  record_call(recorder, "Torch.add.0.forward");
  recorder.flush();
  fs::remove_all(folder / "dump");
  record_call(recorder, "Torch.add.1.forward");
  recorder.flush();
  recorder.flush();
  recorder.close();
  CHECK(recorder.report().incomplete);
  REQUIRE(log.warnings().size() == 1);
  CHECK(contains(log.warnings()[0], "dump.json"));
  recorder.open(folder / "dump/step1/rank");
  record_call(recorder, "Torch.add.0.forward");
  recorder.close();
  CHECK_FALSE(recorder.report().incomplete);
  CHECK(test::entries_below(folder / "dump/step1/rank") == kFiles);
}

TEST_CASE("recorder: on a full disk training goes on, and a step that fits again is whole") {
  const TempDir folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
    WARN("not run: mounting a file system of 4 MiB is not allowed here");
    return;
  }
  {
    const LogCapture log;
    Options options;
    options.store_tensors = true;
    Recorder recorder(options);
    recorder.open(folder / "dump/step0/rank");
    recorder.store("small.pt", stored({1}));
    recorder.flush();
    recorder.store("large.pt", stored(std::vector<float>(std::size_t{4} << 20)));
    for (int i = 0; i < 2000; ++i) {
      record_call(recorder, std::string(5000, 'n') + "." + std::to_string(i) + ".forward");
    }
    recorder.close();
    CHECK(recorder.report().incomplete);
    CHECK(log.warnings().size() == 1);
    CHECK(contains(read_bytes(folder / "dump/step0/rank/dump.json"), "\"data\": {}"));
    CHECK(test::entries_below(folder / "dump/step0/rank/dump_tensor_data") ==
          std::vector<std::string>{"small.pt"});
    fs::remove_all(folder / "dump/step0");
    recorder.open(folder / "dump/step1/rank");
    record_call(recorder, "Torch.add.0.forward");
    recorder.close();
    CHECK_FALSE(recorder.report().incomplete);
  }
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

TEST_CASE(
    "recorder: values that are on their way are filled in before the files are made, of their own step") {
  const TempDir folder;
  Recorder recorder(Options{});
  std::atomic<bool> has_come{false};
  for (const int step : {0, 1}) {
    const fs::path rank = folder / ("dump/step" + std::to_string(step) + "/rank");
    recorder.open(rank);
    const trace::SlotId slot = recorder.new_slot();
    trace::ElementWriter out;
    out.slot(slot);
    const std::string name = "Torch.f." + std::to_string(step) + ".forward";
    recorder.part(recorder.record(RecordKind::kApiForward, name), Part::kOutput, out.bytes());
    recorder.complete_later([&has_come, slot, name, step](LateStep& late) {
      while (!has_come) std::this_thread::yield();
      trace::ElementWriter value;
      value.integer(100 + step);
      late.fill(slot, value.bytes());
      late.note_output(name, trace::Badness::kNan);
    });
    CHECK(recorder.report().is_late);
    if (step == 0) {
      recorder.begin_close();  // does not wait for it
      has_come = true;
    } else {
      recorder.close();
    }
  }
  for (const int step : {0, 1}) {
    const std::string dump = read_bytes(folder / ("dump/step" + std::to_string(step) + "/rank/dump.json"));
    CHECK(contains(dump, "\"value\": " + std::to_string(100 + step)));
  }
  const std::vector<StepReport> reports = recorder.take_finished();
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].first_nan == "Torch.f.0.forward");
  CHECK(reports[1].first_non_finite == "Torch.f.1.forward");
  CHECK(recorder.take_finished().empty());
}

TEST_CASE("recorder: values that do not come leave a step that says it is incomplete") {
  const TempDir folder;
  const LogCapture log;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  recorder.complete_later([](LateStep&) { throw UnsupportedError("the device is gone"); });
  recorder.close();
  CHECK(recorder.report().incomplete);
}
