// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Input: the events of a log, without its magic.
#include "msprobe/event_log.h"

#include <string>

#include "fuzz_target.h"
#include "msprobe/trace.h"
#include "msprobe/trace_reader.h"
#include "trace/log/encoding.h"

using namespace msprobe::fuzz;
namespace trace = msprobe::trace;

namespace {

// What a log was made into is read by our own readers, but for what no recorder writes: nesting as deep as a
// log can have it, numbers as long, saved values that are no elements in a step that is not for saving.
template <typename Read>
void readable(const std::filesystem::path& path, const Read& read) {
  try {
    read(path);
  } catch (const msprobe::FormatError& error) {
    const std::string_view problem = error.what();
    const auto says = [problem](std::string_view text) {
      return problem.find(text) != std::string_view::npos;
    };
    const bool hostile = says("nesting deeper") || says("Number too big") || says(": expected an object");
    if (!hostile) std::fprintf(stderr, "%s\n", error.what());
    promise(hostile, "what is exported can be read");
  }
}

void check(const std::string& log, const std::string& level, const std::filesystem::path& folder) {
  const trace::Header header{"statistics", level, std::nullopt, {"pytorch", "torch"}};
  trace::JsonExporter exporter(header);
  refuse_or([&] { exporter.consume(log); });
  promise(exporter.taken() <= log.size(), "no more is taken than there is");

  trace::JsonExporter again(header);
  refuse_or([&] { again.consume(std::string_view(log).substr(0, exporter.taken())); });
  promise(again.taken() == exporter.taken() && again.record_count() == exporter.record_count(),
          "what was taken once is taken again");

  exporter.write(folder);
  if (level == "debug")
    return readable(folder / "debug.json", [](const auto& path) { trace::read_trace(path); });
  readable(folder / "dump.json", [](const auto& path) { trace::read_trace(path); });
  readable(folder / "stack.json", [](const auto& path) { trace::read_stacks(path); });
  readable(folder / "construct.json", [](const auto& path) { trace::read_construct(path); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFolder folder;
  std::string log(trace::kLogMagic);
  log.resize(trace::kLogHeaderBytes);
  log += as_text(data, size);
  for (const char* level : {"mix", "debug"}) check(log, level, folder.path());
  return 0;
}
