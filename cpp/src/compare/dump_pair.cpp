// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "msprobe/compare.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"

namespace msprobe::compare {
namespace {

std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

[[noreturn]] void refuse(const DumpPair& pair, const std::string& problem) {
  throw InvalidArgument("cannot compare " + pair.left.path().string() + " with " +
                        pair.right.path().string() + ": " + problem);
}

// The mode both dumps allow.
Mode common_mode(const DumpPair& pair) {
  const std::string_view task = pair.left.task();
  if (task != pair.right.task()) {
    refuse(pair, "their tasks are " + in_quotes(task) + " and " + in_quotes(pair.right.task()) +
                     ", expected the same");
  }
  if (task == "tensor") return Mode::kRealData;
  if (task == "structure") {
    refuse(pair, "task \"structure\" records no data; compare the structure with msprobe graph");
  }
  if (task != "statistics") {
    refuse(pair, "their task is " + in_quotes(task) + R"(, expected "tensor" or "statistics")");
  }
  const bool left = pair.left.has_md5(), right = pair.right.has_md5();
  if (left != right && !pair.left.all_items().empty() && !pair.right.all_items().empty()) {
    refuse(pair, std::string("only the ") + (left ? "first" : "second") +
                     " one has checksums: record both with the same summary_mode");
  }
  return left || right ? Mode::kMd5 : Mode::kStatistics;
}

// Reads a file beside the dump if it is there.
template <typename Read>
auto read_if_there(const std::filesystem::path& path, const Read& read) {
  std::error_code ignored;
  return !path.empty() && std::filesystem::exists(path, ignored) ? std::optional(read(path)) : std::nullopt;
}

}  // namespace

std::filesystem::path default_stack_path(const std::filesystem::path& dump) {
  const std::filesystem::path path = dump.parent_path() / "stack.json";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : std::filesystem::path();
}

DumpPair open_pair(const std::filesystem::path& left, const std::filesystem::path& right,
                   const PairOptions& options) {
  DumpPair pair;
  const auto construct_beside = [](const std::filesystem::path& dump) {
    return read_if_there(dump.parent_path() / "construct.json", trace::read_construct);
  };
  ThreadPool pool(options.threads);
  pool.parallel_for(2, [&](std::size_t side) {
    (side == 0 ? pair.left : pair.right) = trace::read_trace(side == 0 ? left : right);
    (side == 0 ? pair.left_construct : pair.right_construct) = construct_beside(side == 0 ? left : right);
  });
  if (!options.stack_path.empty()) pair.stacks = trace::read_stacks(options.stack_path);
  pair.mode = common_mode(pair);
  const auto pointer = [](const auto& optional) { return optional ? &*optional : nullptr; };
  pair.records = trace::match_records(pair.left, pointer(pair.left_construct), pair.right,
                                      pointer(pair.right_construct));
  pair.matches = !options.data_mapping.empty()
                     ? trace::match_items_mapped(pair.left, pair.right, options.data_mapping)
                 : options.fuzzy ? trace::match_items_fuzzy(pair.left, pair.right)
                                 : trace::match_items(pair.left, pair.right, pair.records);
  return pair;
}

}  // namespace msprobe::compare
