// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/pt_file.h"
#include "recorder_support.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::dump;
using namespace msprobe::test;
using trace::Part;
using trace::RecordKind;

namespace fs = std::filesystem;

TEST_CASE("backward_name: of modules and APIs") {
  CHECK(backward_name("Module.a.Linear.forward.0") == "Module.a.Linear.backward.0");
  CHECK(backward_name("Torch.add.0.forward") == "Torch.add.0.backward");
  CHECK(backward_name("Module.forward.Linear.forward.3") == "Module.forward.Linear.backward.3");
  CHECK(backward_name("optimizer") == "optimizer");
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
  const LogCapture log;
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

TEST_CASE("recorder: faults go into dump_error_info.log, and the first of a step into the log") {
  const TempDir folder;
  const LogCapture log;
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

TEST_CASE("recorder: the first records with an infinity and with a NaN are reported, step by step") {
  const TempDir folder;
  Recorder recorder(Options{});
  recorder.open(folder / "dump/step0/rank");
  recorder.note_output("Torch.empty_like.0.forward", trace::Badness::kNan);  // whatever the memory held
  recorder.note_output("Torch.good.0.forward", trace::Badness::kGood);
  recorder.note_output("Torch.a.0.forward", trace::Badness::kInfinite);
  CHECK(recorder.report().first_nan.empty());
  recorder.note_output("Torch.b.0.backward", trace::Badness::kNan);
  recorder.note_output("Torch.c.0.backward", trace::Badness::kNan);
  CHECK(recorder.report().first_non_finite == "Torch.a.0.forward");
  CHECK(recorder.report().first_nan == "Torch.b.0.backward");
  recorder.open(folder / "dump/step1/rank");
  CHECK(recorder.report().first_non_finite.empty());
  CHECK(recorder.report().first_nan.empty());
  recorder.note_output("Tensor.masked_fill.0.forward", trace::Badness::kInfinite);  // a mask of attention
  recorder.note_output("Tensor.__add__.0.forward", trace::Badness::kInfinite);
  CHECK(recorder.report().first_non_finite.empty());
  recorder.note_output("Torch.softmax.0.forward", trace::Badness::kNan);
  CHECK(recorder.report().first_non_finite == "Torch.softmax.0.forward");
}
