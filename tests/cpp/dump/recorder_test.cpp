// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/pt_file.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::dump;
using test::read_bytes;
using test::TempDir;
using trace::Part;
using trace::RecordKind;

namespace fs = std::filesystem;

namespace {

// Collects what is logged while it lives.
class Log {
 public:
  Log() {
    set_log_sink([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      if (level >= LogLevel::kWarning) warnings_.emplace_back(message);
    });
  }
  ~Log() { set_log_sink({}); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::vector<std::string> warnings() const {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_;
};

std::string one_integer(std::int64_t value) {
  trace::ElementWriter out;
  out.integer(value);
  return std::string(out.bytes());
}

void record_call(Recorder& recorder, const std::string& name, std::int64_t value = 1) {
  recorder.part(recorder.record(RecordKind::kApiForward, name), Part::kInputArgs, one_integer(value));
}

StoredTensor stored(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  StoredTensor tensor;
  tensor.data = owner->data();
  tensor.shape = {static_cast<std::int64_t>(owner->size())};
  tensor.owner = std::move(owner);
  return tensor;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string construct_of(const fs::path& directory) { return read_bytes(directory / "construct.json"); }

const std::vector<std::string> kFiles{"construct.json", "dump.json", "stack.json", "summary.json"};

}  // namespace

TEST_CASE("backward_name: of modules and APIs") {
  CHECK(backward_name("Module.a.Linear.forward.0") == "Module.a.Linear.backward.0");
  CHECK(backward_name("Torch.add.0.forward") == "Torch.add.0.backward");
  CHECK(backward_name("Module.forward.Linear.forward.3") == "Module.forward.Linear.backward.3");
  CHECK(backward_name("optimizer") == "optimizer");
}

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
    // Long enough for the thread that writes to stop looking for work.
    if (after_pause) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const fs::path directory = rank / (after_pause ? "later" : "at_once");
    recorder.open(directory);
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
    const fs::path rank = folder / ("dump/step" + std::to_string(step) + "/rank");
    recorder.open(rank);
    recorder.place("a" + std::to_string(step));
    record_call(recorder, "a" + std::to_string(step));
    if (step % 2 == 0) recorder.close();
  }
  recorder.close();
  for (int step = 0; step < 4; ++step) {
    const fs::path rank = folder / ("dump/step" + std::to_string(step) + "/rank");
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
    const fs::path rank = folder / ("dump/step" + std::to_string(step) + "/rank");
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
  const Log log;
  constexpr int kSteps = 40;
  const auto rank = [&](int step) { return folder / ("dump/step" + std::to_string(step) + "/rank"); };
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
  const Log log;
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

TEST_CASE("recorder: level debug has its own file") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Options options;
  options.level = "debug";
  Recorder recorder(options);
  recorder.open(rank);
  recorder.part(recorder.record(RecordKind::kSaved, "x.0.debug"), Part::kValue, one_integer(5));
  recorder.close();
  CHECK(test::entries_below(rank) == std::vector<std::string>{"debug.json", "summary.json"});
  CHECK(contains(read_bytes(rank / "debug.json"), "\"level\": \"debug\""));
}

TEST_CASE("recorder: calls of several threads are all there, each below the modules of its own thread") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  constexpr int kThreads = 8;
  constexpr int kCalls = 400;
  Recorder recorder(Options{});
  recorder.open(rank);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string module = "Module.m" + std::to_string(t) + ".M.forward.0";
      recorder.open_module(module);
      for (int i = 0; i < kCalls; ++i) {
        const std::string name = "Torch.f" + std::to_string(t) + "." + std::to_string(i) + ".forward";
        recorder.place(name);
        const trace::SlotId slot = recorder.new_slot();
        trace::ElementWriter out;
        out.slot(slot);
        recorder.part(recorder.record(RecordKind::kApiForward, name), Part::kOutput, out.bytes());
        recorder.fill(slot, one_integer(t * kCalls + i));
        if (recorder.innermost() == nullptr || recorder.innermost()->name() != module) ++wrong;
      }
      if (!recorder.close_module(module)) ++wrong;
    });
  }
  for (int i = 0; i < 5; ++i) recorder.flush();
  for (std::thread& thread : threads) thread.join();
  recorder.close();
  CHECK(wrong == 0);
  CHECK(recorder.report().records == kThreads * kCalls);
  const std::string data = read_bytes(rank / "dump.json");
  const std::string construct = construct_of(rank);
  for (int t = 0; t < kThreads; ++t) {
    const std::string last = "Torch.f" + std::to_string(t) + "." + std::to_string(kCalls - 1) + ".forward";
    CHECK(contains(construct, "\"" + last + "\": \"Module.m" + std::to_string(t) + ".M.forward.0\""));
    CHECK(contains(data, "\"value\": " + std::to_string(t * kCalls + kCalls - 1) + "\n"));
  }
}

TEST_CASE("recorder: scope and list are asked by name, and modules move them") {
  Options options;
  options.list = {"attn"};
  Recorder recorder(options);
  const TempDir folder;
  recorder.open(folder / "dump/step0/rank");
  CHECK_FALSE(recorder.keeps_api("Torch.add.0.forward"));
  recorder.open_module("Module.attn.A.forward.0");
  CHECK(recorder.keeps_api("Torch.add.0.forward"));
  CHECK(recorder.keeps("Torch.add.0.forward"));
  CHECK(recorder.close_module("Module.attn.A.forward.0"));
  CHECK_FALSE(recorder.keeps_api("Torch.add.0.forward"));
  recorder.open_module("Module.mlp.M.forward.0");
  CHECK_FALSE(recorder.close_module("Module.mlp.M.forward.0"));
}

TEST_CASE("recorder: modules left open by an exception end with the module around them") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Recorder recorder(Options{});
  recorder.open(rank);
  recorder.open_module("Module.a.A.forward.0");
  recorder.open_module("Module.a.b.B.forward.0");
  recorder.open_module("Module.a.b.c.C.forward.0");
  recorder.place("Torch.inside.0.forward");
  CHECK(recorder.close_module("Module.a.A.forward.0"));
  CHECK(recorder.innermost() == nullptr);
  recorder.place("Torch.after.0.forward");
  CHECK(recorder.close_module("Module.a.b.B.forward.0"));  // already gone: nothing happens
  recorder.close();
  CHECK(construct_of(rank) ==
        "{\n \"Module.a.A.forward.0\": null,\n \"Module.a.b.B.forward.0\": \"Module.a.A.forward.0\",\n"
        " \"Module.a.b.c.C.forward.0\": \"Module.a.b.B.forward.0\",\n"
        " \"Torch.inside.0.forward\": \"Module.a.b.c.C.forward.0\",\n"
        " \"Torch.after.0.forward\": null\n}");
}

TEST_CASE("recorder: two recorders in one thread keep their modules apart") {
  const TempDir folder;
  Recorder one(Options{});
  Recorder other(Options{});
  one.open(folder / "one/step0/rank");
  other.open(folder / "other/step0/rank");
  one.open_module("Module.a.A.forward.0");
  CHECK(other.innermost() == nullptr);
  other.open_module("Module.b.B.forward.0");
  CHECK(other.innermost()->parent == nullptr);
  CHECK(other.close_module("Module.b.B.forward.0"));
  CHECK(one.innermost()->name() == "Module.a.A.forward.0");
  CHECK(one.close_module("Module.a.A.forward.0"));
}

TEST_CASE("recorder: a backward hangs below the backward of its modules, also of those that have none") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Recorder recorder(Options{});
  recorder.open(rank);
  recorder.open_module("Module.a.A.forward.0");
  recorder.open_module("Module.a.b.B.forward.0");
  const auto inner = recorder.innermost();
  recorder.close_module("Module.a.b.B.forward.0");
  recorder.close_module("Module.a.A.forward.0");
  recorder.place_backward("Torch.mul.0.backward", inner.get());
  recorder.place_backward("Torch.add.0.backward", inner.get());
  recorder.place_backward("Torch.top.0.backward", nullptr);
  recorder.close();
  const std::string text = construct_of(rank);
  CHECK(contains(text,
                 " \"Torch.mul.0.backward\": \"Module.a.b.B.backward.0\",\n"
                 " \"Module.a.b.B.backward.0\": \"Module.a.A.backward.0\",\n"
                 " \"Module.a.A.backward.0\": null,\n"
                 " \"Torch.add.0.backward\": \"Module.a.b.B.backward.0\",\n"
                 " \"Torch.top.0.backward\": null\n"));
}

TEST_CASE("recorder: without hierarchy construct.json stays empty") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Options options;
  options.hierarchy = false;
  Recorder recorder(options);
  recorder.open(rank);
  recorder.open_module("Module.a.A.forward.0");
  recorder.place("Torch.add.0.forward");
  recorder.place_backward("Torch.add.0.backward", recorder.innermost().get());
  recorder.close_module("Module.a.A.forward.0");
  recorder.close();
  CHECK(construct_of(rank) == "{}");
}

TEST_CASE("recorder: tensor files hold what was given, as pt or npy") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Options options;
  options.task = "tensor";
  options.store_tensors = true;
  SECTION("pt") {
    Recorder recorder(options);
    recorder.open(rank);
    CHECK(fs::is_directory(rank / "dump_tensor_data"));
    const std::string name = recorder.data_name("Torch.add.0.forward", "input.0");
    CHECK(name == "Torch.add.0.forward.input.0.pt");
    recorder.store(name, stored({1, 2, 3}));
    recorder.close();
    const float values[] = {1, 2, 3};
    const std::int64_t shape[] = {3};
    CHECK(read_bytes(rank / "dump_tensor_data" / name) == io::pt_bytes({values, DType::kFloat32, shape, {}}));
    CHECK(recorder.report().stored_bytes == 12);
    CHECK(contains(read_bytes(rank / "dump.json"), "dump/step0/rank/dump_tensor_data\""));
  }
  SECTION("npy") {
    options.npy = true;
    Recorder recorder(options);
    recorder.open(rank);
    const std::string name = recorder.data_name("Torch.add.0.forward", "output.0");
    CHECK(name == "Torch.add.0.forward.output.0.npy");
    recorder.store(name, stored({1, 2, 3}));
    recorder.flush();
    const std::string bytes = read_bytes(rank / "dump_tensor_data" / name);
    CHECK(bytes.starts_with("\x93NUMPY"));
    CHECK(bytes.size() == 128 + 12);
    CHECK(bytes.substr(128, 4) == std::string("\0\0\x80\x3f", 4));
  }
}

TEST_CASE("recorder: only the records that tensor_list names are stored") {
  Options options;
  options.tensor_list = {"softmax"};
  const Recorder recorder(options);
  CHECK(recorder.stores("Torch.softmax.0.forward"));
  CHECK_FALSE(recorder.stores("Torch.add.0.forward"));
}

TEST_CASE("recorder: names with slashes, dots and 300 characters become files in the folder") {
  const TempDir folder;
  const fs::path rank = folder / "dump/step0/rank";
  Options options;
  options.store_tensors = true;
  const Log log;
  Recorder recorder(options);
  recorder.open(rank);
  const std::vector<std::string> records{"../../../escape", "/tmp/absolute", "..",
                                         std::string(300, 'n') + "1", std::string(300, 'n') + "2"};
  for (const std::string& record : records) {
    recorder.store(recorder.data_name(record, "input.0"), stored({1}));
  }
  recorder.end();
  CHECK(test::entries_below(rank / "dump_tensor_data").size() == records.size());
  CHECK(log.warnings().empty());
  CHECK(test::entries_below(folder.path()).size() == records.size() + kFiles.size() + 4);
}

TEST_CASE("recorder: many large tensors pass through a bounded queue") {
  const TempDir folder;
  Options options;
  options.store_tensors = true;
  Recorder recorder(options);
  recorder.open(folder / "dump/step0/rank");
  constexpr int kTensors = 40;
  const std::vector<float> megabytes(std::size_t{2} << 20, 1.0F);  // 8 MiB each, 320 in all
  for (int i = 0; i < kTensors; ++i) recorder.store(std::to_string(i) + ".pt", stored(megabytes));
  recorder.close();
  CHECK(recorder.report().stored_bytes == std::uint64_t{kTensors} * (std::uint64_t{8} << 20));
}

TEST_CASE("recorder: what comes after the end of a step is lost, with one warning and no crash") {
  const TempDir folder;
  const Log log;
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
  recorder.note_non_finite("Torch.add.0.forward");
  recorder.flush();
  recorder.close();
  CHECK(recorder.report().records == 0);
}

TEST_CASE("recorder: faults go into dump_error_info.log, and the first of a step into the log") {
  const TempDir folder;
  const Log log;
  const fs::path rank = folder / "dump/step0/rank";
  Recorder recorder(Options{});
  recorder.open(rank);
  recorder.note_fault("Torch.a.0.forward", "cannot read");
  recorder.note_fault("Torch.b.0.forward", "cannot read either");
  recorder.close();
  const std::string text = read_bytes(rank / "dump_error_info.log");
  CHECK(contains(text, "name=Torch.a.0.forward"));
  CHECK(contains(text, "cannot read either"));
  REQUIRE(log.warnings().size() == 1);
  CHECK(contains(log.warnings()[0], "Torch.a.0.forward"));
  CHECK(contains(log.warnings()[0], "dump_error_info.log"));
}

TEST_CASE("recorder: the first record with a NaN or an infinity is reported, step by step") {
  const TempDir folder;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  recorder.note_non_finite("Torch.empty_like.0.forward");  // whatever the memory held
  recorder.note_non_finite("Torch.a.0.forward");
  recorder.note_non_finite("Torch.b.0.forward");
  CHECK(recorder.report().first_non_finite == "Torch.a.0.forward");
  recorder.open(folder / "dump/step1/rank");
  CHECK(recorder.report().first_non_finite.empty());
}

TEST_CASE("recorder: summary.json says what a step held and what was left out") {
  const TempDir folder;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  record_call(recorder, "Torch.add.0.forward");
  recorder.note_skipped("meta tensor");
  recorder.note_skipped("meta tensor");
  recorder.note_non_finite("Torch.add.0.forward");
  recorder.close();
  const std::string text = read_bytes(folder / "dump/step0/rank/summary.json");
  CHECK(contains(text, "\"records\": 1"));
  CHECK(contains(text, "\"first_non_finite\": \"Torch.add.0.forward\""));
  CHECK(contains(text, "\"complete\": true"));
  CHECK(contains(text, "\"skipped\": {\n  \"meta tensor\": 2\n }"));
}

TEST_CASE("recorder: the limit of overflows counts over all steps") {
  const TempDir folder;
  Options options;
  options.overflow_limit = 2;
  Recorder recorder(options);
  recorder.open(folder / "dump/step0/rank");
  recorder.note_overflow();
  CHECK_FALSE(recorder.has_enough_overflows());
  recorder.open(folder / "dump/step1/rank");
  recorder.note_overflow();
  CHECK(recorder.has_enough_overflows());
  Recorder unlimited(Options{});
  unlimited.note_overflow();
  CHECK_FALSE(unlimited.has_enough_overflows());
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
  const Log log;
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
    const Log log;
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
