// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/in_quotes.h"
#include "msprobe/error.h"
#include "msprobe/trace_compare.h"

namespace msprobe::trace {

Mode common_mode(const Trace& target, const Trace& reference) {
  const auto refuse = [&](const std::string& problem) {
    throw InvalidArgument("cannot compare " + target.path().string() + " with " + reference.path().string() +
                          ": " + problem);
  };
  const std::string_view task = target.task();
  if (task != reference.task()) {
    refuse("their tasks are " + io::in_quotes(task) + " and " + io::in_quotes(reference.task()) +
           ", expected the same");
  }
  if (task == "tensor") return Mode::kRealData;
  if (task == "structure") return Mode::kStructure;
  if (task != "statistics") {
    refuse("their task is " + io::in_quotes(task) + R"(, expected "statistics", "tensor" or "structure")");
  }
  const bool ours = target.has_md5(), theirs = reference.has_md5();
  if (ours != theirs && !target.all_items().empty() && !reference.all_items().empty()) {
    refuse(std::string("only the ") + (ours ? "first" : "second") +
           " one has checksums: record both with the same summary_mode");
  }
  return ours || theirs ? Mode::kMd5 : Mode::kStatistics;
}

}  // namespace msprobe::trace
