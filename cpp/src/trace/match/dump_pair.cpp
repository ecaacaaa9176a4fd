// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/dump_pair.h"

#include <functional>

#include "msprobe/error.h"
#include "msprobe/packed_step.h"
#include "msprobe/thread_pool.h"

namespace msprobe::trace {
namespace {

// Reads a file beside the dump if it is there.
template <typename Read>
auto read_if_there(const std::filesystem::path& path, const Read& read) {
  return !path.empty() && io::is_there(path) ? std::optional(read(path)) : std::nullopt;
}

}  // namespace

std::filesystem::path default_stack_path(const std::filesystem::path& dump) {
  const std::filesystem::path path = dump.parent_path() / "stack.json";
  return io::is_there(path) ? path : std::filesystem::path();
}

DumpPair open_pair(const std::filesystem::path& target, const std::filesystem::path& reference,
                   const PairOptions& options) {
  DumpPair pair;
  const auto construct_beside = [](const std::filesystem::path& dump) {
    return read_if_there(dump.parent_path() / "construct.json", read_construct);
  };
  const auto state_beside = [](const std::filesystem::path& dump) {
    const bool is_debug = dump.filename().native().starts_with("debug");
    return is_debug ? std::nullopt
                    : read_if_there(dump.parent_path() / "diagnosis.json", read_training_state);
  };
  ThreadPool pool(options.threads);
  pool.parallel_for(2, [&](std::size_t side) {
    const std::filesystem::path& dump = side == 0 ? target : reference;
    (side == 0 ? pair.target : pair.reference) = read_trace(dump);
    (side == 0 ? pair.target_construct : pair.reference_construct) = construct_beside(dump);
    (side == 0 ? pair.target_state : pair.reference_state) = state_beside(dump);
  });
  if (!options.stack_path.empty()) pair.stacks = read_stacks(options.stack_path);
  pair.mode = common_mode(pair.target, pair.reference);
  if (pair.mode == Mode::kStructure) {
    throw InvalidArgument("cannot compare " + target.string() + " with " + reference.string() +
                          ": task \"structure\" records no data; compare the structure with msprobe graph");
  }
  const auto pointer = [](const auto& optional) { return optional ? &*optional : nullptr; };
  pair.records = match_records(pair.target, pointer(pair.target_construct), pair.reference,
                               pointer(pair.reference_construct), &pool);
  pair.matches = !options.data_mapping.empty()
                     ? match_items_mapped(pair.target, pair.reference, options.data_mapping)
                 : options.fuzzy ? match_items_fuzzy(pair.target, pair.reference)
                                 : match_items(pair.target, pair.reference, pair.records, &pool);
  return pair;
}

}  // namespace msprobe::trace
