// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "catch.h"
#include "frameworks.h"
#include "msprobe/error.h"
#include "msprobe/event_log.h"
#include "msprobe/trace.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::trace;
using test::read_bytes;
using test::TempDir;

namespace {

template <typename Write>
std::string elements(Write write) {
  ElementWriter out;
  write(out);
  return std::string(out.bytes());
}

std::string one_integer(std::int64_t value) {
  return elements([&](ElementWriter& out) { out.integer(value); });
}

std::string one_slot(SlotId slot) {
  return elements([&](ElementWriter& out) { out.slot(slot); });
}

const Header kStatisticsHeader{"statistics", "mix", std::nullopt, test::kTorch};

// The text behind "data": of dump.json, without the brackets around it.
std::string data_of(const EventLog& log, const Header& header = kStatisticsHeader) {
  const TempDir folder;
  JsonExporter exporter(header);
  exporter.consume(log.committed());
  exporter.write(folder.path());
  const bool debug = header.level == "debug";
  const std::string text = read_bytes(folder / (debug ? "debug.json" : "dump.json"));
  const std::size_t begin = text.find("\"data\": ") + 8;
  return text.substr(begin, text.size() - begin - 2);
}

std::string file_of(const EventLog& log, const char* name) {
  const TempDir folder;
  JsonExporter exporter(kStatisticsHeader);
  exporter.consume(log.committed());
  exporter.write(folder.path());
  return read_bytes(folder / name);
}

std::string int_json(int value, int level) {
  const std::string indent(static_cast<std::size_t>(level), ' ');
  return "{\n" + indent + " \"type\": \"int\",\n" + indent + " \"value\": " + std::to_string(value) + "\n" +
         indent + "}";
}

TensorElement sample_tensor(DType dtype, std::span<const std::int64_t> shape, bool requires_grad,
                            std::array<double, 4> numbers) {
  TensorElement element;
  element.dtype = dtype;
  element.shape = shape;
  element.requires_grad = requires_grad;
  element.statistics.form = Statistics::Form::kFloats;
  element.statistics.max = numbers[0];
  element.statistics.min = numbers[1];
  element.statistics.mean = numbers[2];
  element.statistics.norm = numbers[3];
  return element;
}

}  // namespace

TEST_CASE("export: what the existing tool writes for a call, a module and their gradients, byte by byte") {
  const std::int64_t tokens_shape[] = {2, 5};
  const std::int64_t weight_shape[] = {11, 8};
  const std::int64_t result_shape[] = {2, 5, 8};
  const TensorElement tokens =
      sample_tensor(DType::kInt64, tokens_shape, false, {9.0, 0.0, 3.700000047683716, 14.933184623718262});
  const TensorElement weight =
      sample_tensor(DType::kFloat32, weight_shape, true,
                    {2.298342704772949, -2.966169834136963, -0.08405939489603043, 9.23421573638916});
  const TensorElement result =
      sample_tensor(DType::kFloat32, result_shape, true,
                    {2.298342704772949, -2.966169834136963, 0.02960883639752865, 8.506511688232422});
  const TensorElement weight_gradient =
      sample_tensor(DType::kFloat32, weight_shape, false,
                    {0.05654525384306908, -0.015327980741858482, 0.011602056212723255, 0.18968331813812256});
  const TensorElement result_gradient =
      sample_tensor(DType::kFloat32, result_shape, false,
                    {0.04337434470653534, -0.015327980741858482, 0.012762261554598808, 0.16164188086986542});
  const auto tensor = [](const TensorElement& element) {
    return elements([&](ElementWriter& out) { out.tensor(element); });
  };
  const auto empty = elements([](ElementWriter& out) {
    out.begin_object();
    out.end();
  });

  EventLog log("");
  log.header(kStatisticsHeader);
  log.construct("Functional.embedding.0.forward", "Module.embed.Embedding.forward.0");
  log.construct("Module.embed.Embedding.forward.0", std::nullopt);
  log.construct("Functional.embedding.0.backward", "Module.blocks.0.Block.backward.0");
  const std::string_view api_frames[] = {
      "File /site-packages/torch/nn/modules/sparse.py, line 189, in forward, \n return F.embedding(",
      "File /site-packages/torch/nn/modules/module.py, line 1832, in inner, \n result = forward_call(*args, "
      "**kwargs)"};
  const std::string_view module_frames[] = {
      "File /site-packages/torch/nn/modules/module.py, line 1843, in inner, \n hook_result = hook(self, "
      "args, "
      "kwargs, result)",
      "File /site-packages/torch/nn/modules/module.py, line 1884, in _call_impl, \n return inner()"};
  const RecordId call =
      log.record(RecordKind::kApiForward, "Functional.embedding.0.forward", log.stack(api_frames), false);
  log.part(call, Part::kInputArgs, elements([&](ElementWriter& out) {
             out.tensor(tokens);
             out.tensor(weight);
             out.null();
             out.null();
             out.real(2.0);
             out.boolean(false);
             out.boolean(false);
           }));
  log.part(call, Part::kInputKwargs, empty);
  log.part(call, Part::kOutput, tensor(result));
  const RecordId module = log.record(RecordKind::kModuleForward, "Module.embed.Embedding.forward.0",
                                     log.stack(module_frames), false);
  log.part(module, Part::kInputArgs, tensor(tokens));
  log.part(module, Part::kInputKwargs, empty);
  log.part(module, Part::kOutput, tensor(result));
  log.part(module, Part::kParameters, elements([&](ElementWriter& out) {
             out.begin_object();
             out.key("weight");
             out.tensor(weight);
             out.end();
           }));
  const RecordId parameters =
      log.record(RecordKind::kParametersGrad, "Module.embed.Embedding.parameters_grad", kNoStack, false);
  const SlotId slot = log.new_slot();
  log.part(parameters, Part::kValue, elements([&](ElementWriter& out) {
             out.begin_object();
             out.key("weight");
             out.begin_list();
             out.slot(slot);
             out.end();
             out.end();
           }));
  const RecordId backward =
      log.record(RecordKind::kApiBackward, "Functional.embedding.0.backward", kNoStack, false);
  log.part(backward, Part::kInput, tensor(result_gradient));
  log.part(backward, Part::kOutput, tensor(weight_gradient));
  log.fill(slot, tensor(weight_gradient));

  const TempDir folder;
  JsonExporter exporter;
  exporter.consume(log.committed());
  exporter.write(folder.path());
  for (const char* name : {"dump.json", "stack.json", "construct.json"}) {
    CAPTURE(name);
    CHECK(read_bytes(folder / name) == read_bytes(std::string(MSPROBE_TEST_DATA "/trace/sample/") + name));
  }
  CHECK(exporter.record_count() == 4);
  CHECK(exporter.tensor_count() == 9);
}

TEST_CASE("export: a log without events gives the files that a step begins with") {
  const EventLog log("");
  CHECK(file_of(log, "dump.json") ==
        "{\n \"task\": \"statistics\",\n \"level\": \"mix\",\n \"framework\": \"pytorch\",\n"
        " \"dump_data_dir\": null,\n \"data\": {}\n}");
  CHECK(file_of(log, "stack.json") == "{}");
  CHECK(file_of(log, "construct.json") == "{}");
}

TEST_CASE("export: the header is the one given, or that of the log") {
  EventLog log("");
  log.header({"tensor", "L1", "./dump/\xc3\xa9", test::kTorch});
  const TempDir folder;
  JsonExporter from_log;
  CHECK_FALSE(from_log.has_header());
  from_log.consume(log.committed());
  from_log.write(folder.path());
  CHECK(read_bytes(folder / "dump.json") ==
        "{\n \"task\": \"tensor\",\n \"level\": \"L1\",\n \"framework\": \"pytorch\",\n"
        " \"dump_data_dir\": \"./dump/\\u00e9\",\n \"data\": {}\n}");
  CHECK(file_of(log, "dump.json").find("\"task\": \"statistics\"") != std::string::npos);
}

TEST_CASE("export: without any header nothing is written") {
  const EventLog log("");
  const TempDir folder;
  JsonExporter exporter;
  exporter.consume(log.committed());
  CHECK_THROWS_AS(exporter.write(folder.path()), FormatError);
  CHECK(test::entries_below(folder.path()).empty());
}

TEST_CASE("export: is_recompute stands before the output of an API and at the end of a module") {
  const auto keys = [](RecordKind kind, bool is_recompute, const Header& header = kStatisticsHeader) {
    EventLog log("");
    const RecordId id = log.record(kind, "r", kNoStack, is_recompute);
    log.part(id, Part::kOutput, "");
    log.part(id, Part::kInputArgs, "");
    log.part(id, Part::kInput, "");
    return data_of(log, header);
  };
  CHECK(keys(RecordKind::kApiForward, false) ==
        "{\n  \"r\": {\n   \"input_args\": [],\n   \"is_recompute\": false,\n   \"output\": []\n  }\n }");
  CHECK(keys(RecordKind::kApiForward, false, {"overflow_check", "L1", std::nullopt, test::kTorch}) ==
        "{\n  \"r\": {\n   \"input_args\": [],\n   \"output\": [],\n   \"is_recompute\": false\n  }\n }");
  CHECK(keys(RecordKind::kModuleForward, true) ==
        "{\n  \"r\": {\n   \"input_args\": [],\n   \"output\": [],\n   \"is_recompute\": true\n  }\n }");
  CHECK(keys(RecordKind::kApiBackward, false) ==
        "{\n  \"r\": {\n   \"input\": [],\n   \"output\": []\n  }\n }");
  CHECK(keys(RecordKind::kModuleBackward, false) ==
        "{\n  \"r\": {\n   \"input\": [],\n   \"output\": []\n  }\n }");
}

TEST_CASE("export: a call that raised has its inputs only") {
  EventLog log("");
  const RecordId id = log.record(RecordKind::kApiForward, "Torch.add.0.forward", kNoStack, false);
  log.part(id, Part::kInputArgs, one_integer(1));
  CHECK(data_of(log) == "{\n  \"Torch.add.0.forward\": {\n   \"input_args\": [\n    " + int_json(1, 4) +
                            "\n   ],\n   \"is_recompute\": false\n  }\n }");
}

TEST_CASE("export: a result with named fields is an object in place of the list") {
  EventLog log("");
  const RecordId id = log.record(RecordKind::kApiForward, "r", kNoStack, false);
  log.part(id, Part::kOutputObject, elements([](ElementWriter& out) {
             out.begin_object();
             out.key("values");
             out.null();
             out.end();
           }));
  CHECK(data_of(log).find("\"output\": {\n    \"values\": null\n   }") != std::string::npos);
}

TEST_CASE("export: saved values stand as they are, in debug.json alone") {
  EventLog log("");
  log.part(log.record(RecordKind::kSaved, "x.0.debug", kNoStack, false), Part::kValue, one_integer(3));
  CHECK(data_of(log, {"statistics", "debug", std::nullopt, test::kTorch}) ==
        "{\n  \"x.0.debug\": " + int_json(3, 2) + "\n }");
  const TempDir folder;
  JsonExporter exporter(Header{"statistics", "debug", std::nullopt, test::kTorch});
  exporter.write(folder.path());
  CHECK(test::entries_below(folder.path()) == std::vector<std::string>{"debug.json"});
}

TEST_CASE("export: task structure has names and stacks, no data") {
  EventLog log("");
  const std::string_view frames[] = {"File a.py, line 1, in f, \n f()"};
  log.record(RecordKind::kApiForward, "Torch.add.0.forward", log.stack(frames), false);
  CHECK(data_of(log, {"structure", "mix", std::nullopt, test::kTorch}) == "{}");
  CHECK(file_of(log, "stack.json").find("Torch.add.0.forward") != std::string::npos);
}

TEST_CASE("export: records stand in the order of time, and one made again where it was made last") {
  EventLog log("");
  const auto add = [&](const char* name, int value) {
    const RecordId id = log.record(RecordKind::kApiBackward, name, kNoStack, false);
    log.part(id, Part::kInput, one_integer(value));
  };
  add("a", 1);
  add("b", 2);
  add("a", 3);
  add("c", 4);
  add("a", 5);
  const auto entry = [](const char* name, int value, const char* more = "") {
    return std::string("  \"") + name + "\": {\n   \"input\": [\n    " + int_json(value, 4) + "\n   ]" +
           more + "\n  }";
  };
  CHECK(data_of(log) == "{\n" + entry("b", 2) + ",\n" + entry("c", 4) + ",\n" +
                            entry("a", 5, ",\n   \"passes\": 3") + "\n }");
}

TEST_CASE("export: a half that is made again replaces the first") {
  EventLog log("");
  const RecordId id = log.record(RecordKind::kApiBackward, "a", kNoStack, false);
  log.part(id, Part::kInput, one_integer(1));
  log.part(id, Part::kInput, one_integer(2));
  CHECK(data_of(log) == "{\n  \"a\": {\n   \"input\": [\n    " + int_json(2, 4) + "\n   ]\n  }\n }");
}

TEST_CASE("export: fills take their places whenever they come, with the indentation of the place") {
  EventLog log("");
  const SlotId early = log.new_slot();
  const SlotId late = log.new_slot();
  const SlotId never = log.new_slot();
  log.fill(early, one_integer(1));
  const RecordId id = log.record(RecordKind::kSaved, "x", kNoStack, false);
  log.part(id, Part::kValue, elements([&](ElementWriter& out) {
             out.begin_object();
             out.key("a");
             out.slot(early);
             out.key("b");
             out.begin_list();
             out.slot(late);
             out.slot(never);
             out.end();
             out.end();
           }));
  const std::string before = "{\n  \"x\": {\n   \"a\": " + int_json(1, 3) + ",\n   \"b\": [\n    ";
  CHECK(data_of(log) == before + "null,\n    null\n   ]\n  }\n }");
  log.fill(late, one_integer(2));
  CHECK(data_of(log) == before + int_json(2, 4) + ",\n    null\n   ]\n  }\n }");
  log.fill(late, elements([](ElementWriter& out) { out.text("line\nbreak"); }));
  CHECK(data_of(log).find("\"value\": \"line\\nbreak\"\n    }") != std::string::npos);
}

TEST_CASE("export: a fill that fills itself, or one slot in many places, is refused") {
  SECTION("a slot in a fill") {
    EventLog log("");
    log.fill(log.new_slot(), one_slot(0));
    JsonExporter exporter(kStatisticsHeader);
    CHECK_THROWS_AS(exporter.consume(log.committed()), FormatError);
  }
  SECTION("two places") {
    EventLog log("");
    const SlotId slot = log.new_slot();
    const RecordId id = log.record(RecordKind::kSaved, "x", kNoStack, false);
    log.part(id, Part::kOutput, one_slot(slot) + one_slot(slot));
    JsonExporter exporter(kStatisticsHeader);
    CHECK_THROWS_AS(exporter.consume(log.committed()), FormatError);
  }
}

TEST_CASE("export: names with the same stack share an entry, in the order of their first records") {
  EventLog log("");
  const std::string_view one[] = {"File a.py, line 1, in f, \n x = \"1\"", "File b.py, line 2, in g, \n f()"};
  const std::string_view two[] = {"File c.py, line 3, in h, \n \xc3\xa9"};
  const StackId unused = log.stack(two);
  const StackId first = log.stack(one);
  log.record(RecordKind::kApiForward, "a", first, false);
  log.record(RecordKind::kModuleForward, "b", unused, false);
  log.record(RecordKind::kApiForward, "c", first, false);
  log.record(RecordKind::kApiBackward, "d", kNoStack, false);
  CHECK(file_of(log, "stack.json") ==
        "{\n \"0\": [\n  [\n   \"a\",\n   \"c\"\n  ],\n  [\n   \"File a.py, line 1, in f, \\n x = "
        "\\\"1\\\"\",\n   \"File b.py, line 2, in g, \\n f()\"\n  ]\n ],\n"
        " \"1\": [\n  [\n   \"b\"\n  ],\n  [\n   \"File c.py, line 3, in h, \\n \\u00e9\"\n  ]\n ]\n}");
}

TEST_CASE("export: the first place of a name in the hierarchy is the one that counts") {
  EventLog log("");
  log.construct("child", "parent");
  log.construct("top", std::nullopt);
  log.construct("child", "other");
  CHECK(file_of(log, "construct.json") == "{\n \"child\": \"parent\",\n \"top\": null\n}");
}

TEST_CASE("export: a log may be taken in many pieces") {
  EventLog log("");
  JsonExporter exporter(kStatisticsHeader);
  for (int i = 0; i < 50; ++i) {
    const RecordId id = log.record(RecordKind::kApiForward, "r" + std::to_string(i), kNoStack, false);
    exporter.consume(log.committed());
    log.part(id, Part::kInputArgs, one_integer(i));
    exporter.consume(log.committed());
    exporter.consume(log.committed());
  }
  const TempDir folder;
  exporter.write(folder.path());
  CHECK(read_bytes(folder / "dump.json") == file_of(log, "dump.json"));
  CHECK(exporter.taken() == log.committed().size());
}

TEST_CASE("export: files that cannot be written are an error with the path") {
  JsonExporter exporter(kStatisticsHeader);
  CHECK_THROWS_AS(exporter.write("/nonexistent/folder"), IoError);
}

TEST_CASE("export_event_log: makes the files of a closed log, and names what is missing of others") {
  const TempDir folder;
  const auto path = folder / "trace.msprobe";
  std::size_t size = 0;
  {
    EventLog log(path);
    log.header(kStatisticsHeader);
    const RecordId id = log.record(RecordKind::kApiForward, "a", kNoStack, false);
    log.part(id, Part::kInputArgs, one_integer(1));
    log.record(RecordKind::kApiForward, "b", kNoStack, false);
    size = log.committed().size();

    // As a killed process leaves it: with room for more.
    const ExportReport report = export_event_log(path, folder / "killed");
    CHECK(report.records == 2);
    CHECK(report.cut == "the process ended before it closed the log");
    log.close();
  }
  CHECK(std::filesystem::file_size(path) == size);
  const ExportReport whole = export_event_log(path, folder / "closed" / "below");
  CHECK(whole.cut.empty());
  CHECK(whole.records == 2);
  CHECK(read_bytes(folder / "closed/below/dump.json") == read_bytes(folder / "killed/dump.json"));

  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(size - 4)) == 0);
  const ExportReport cut = export_event_log(path, folder / "cut");
  CHECK(cut.records == 1);
  CHECK(cut.cut.find("byte ") == 0);
}

TEST_CASE("export_event_log: a file that is no log, or has no header, leaves everything as it is") {
  const TempDir folder;
  test::write_bytes(folder / "other",
                    "no log at all, but more than sixty-four bytes of text, so that size fits");
  CHECK_THROWS_AS(export_event_log(folder / "other", folder / "out"), FormatError);
  {
    EventLog(folder / "empty").close();
  }
  CHECK_THROWS_AS(export_event_log(folder / "empty", folder / "out"), FormatError);
  CHECK_THROWS_AS(export_event_log(folder / "absent", folder / "out"), IoError);
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_CASE("JsonExporter: where a DTensor lies, and which call is repeated") {
  EventLog log{std::filesystem::path()};
  log.header(kStatisticsHeader);
  const std::int64_t shape[] = {2};
  TensorElement element = sample_tensor(DType::kFloat32, shape, false, {1, 1, 1, 1});
  const std::string placement = elements([](ElementWriter& out) {
    out.begin_object();
    out.key("shape");
    out.begin_list();
    out.plain_integer(4);
    out.end();
    out.key("mesh");
    out.plain_text("77849d8c");
    out.end();
  });
  element.placement = placement;
  const RecordId first = log.record(RecordKind::kApiForward, "Torch.f.0.forward", kNoStack, false);
  log.part(first, Part::kOutput, elements([&](ElementWriter& out) { out.tensor(element); }));
  log.record(RecordKind::kModuleForward, "Module.m.M.forward.1", kNoStack, true, "Module.m.M.forward.0");
  log.record(RecordKind::kModuleForward, "Module.m.M.forward.2", kNoStack, true);
  const std::string data = data_of(log);
  CHECK(data.find("\"requires_grad\": false,\n     \"dtensor\": {\n      \"shape\": [\n       4\n      ],\n"
                  "      \"mesh\": \"77849d8c\"\n     }\n    }") != std::string::npos);
  CHECK(data.find("{\n   \"is_recompute\": true,\n   \"recompute_of\": \"Module.m.M.forward.0\"\n  }") !=
        std::string::npos);
  CHECK(data.find("{\n   \"is_recompute\": true\n  }") != std::string::npos);
}

TEST_CASE("JsonExporter: what a framework writes in its own way comes from the header of the log") {
  const TempDir folder;
  EventLog log("");
  log.header({"statistics", "mix", std::nullopt, test::kMindSpore});
  const RecordId record = log.record(RecordKind::kApiForward, "Mint.add.0.forward", kNoStack, false);
  ElementWriter out;
  const std::int64_t shape[] = {2};
  TensorElement element;
  element.shape = shape;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kUInt8, DType::kFloat8E4M3FN}) {
    element.dtype = dtype;
    out.tensor(element);
  }
  out.size(shape);
  log.part(record, Part::kInputArgs, out.bytes());
  JsonExporter exporter;
  exporter.consume(log.committed());
  exporter.write(folder.path());
  const std::string json = read_bytes(folder / "dump.json");
  const auto has = [&json](const char* part) { return json.find(part) != std::string::npos; };
  CHECK(has("\"framework\": \"mindspore\""));
  CHECK(has("\"type\": \"mindspore.Tensor\""));
  CHECK(has("\"type\": \"mindspore.Size\""));
  for (const char* dtype : {"\"Float32\"", "\"BFloat16\"", "\"UInt8\"", "\"Float8E4M3FN\""}) {
    CHECK(has(dtype));
  }
  CHECK_FALSE(has("requires_grad"));
  CHECK_FALSE(has("is_recompute"));
  CHECK_FALSE(has("torch"));
}
