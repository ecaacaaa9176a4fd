// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Two dumps of one rank and step, read and paired.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/trace_compare.h"
#include "msprobe/trace_match.h"
#include "msprobe/trace_reader.h"
#include "msprobe/training_state.h"

namespace msprobe::trace {

struct PairOptions {
  /// Pair items by mindstudio-probe's fuzzy rule (match_items_fuzzy).
  bool fuzzy = false;
  /// Not empty: pair items by names (match_items_mapped).
  std::map<std::string, std::string, std::less<>> data_mapping;
  /// stack.json of the target; empty: without stacks. See default_stack_path().
  std::filesystem::path stack_path;
  /// Threads for reading and measuring; 0 = all cores.
  unsigned threads = 0;
};

/// Two dumps and which item of one belongs to which of the other.
struct DumpPair {
  Trace target;     // the run under test ("NPU")
  Trace reference;  // the reference ("Bench")
  Mode mode = Mode::kStatistics;
  ItemMatches matches;
  std::optional<Stacks> stacks;               // of the target
  std::optional<Construct> target_construct;  // absent where the file is
  std::optional<Construct> reference_construct;
  RecordMatches records;                      // by place; also with data_mapping and fuzzy
  std::optional<TrainingState> target_state;  // absent where the file is, and of debug.json
  std::optional<TrainingState> reference_state;

  /// What save() was given, in debug.json.
  bool is_debug() const { return target.path().filename().native().starts_with("debug"); }
  const Item& target_item(const ItemPair& pair) const { return target.all_items()[pair.target]; }
  /// Null where there is none.
  const Item* reference_item(const ItemPair& pair) const {
    return pair.reference ? &reference.all_items()[pair.reference.index] : nullptr;
  }
};

/// stack.json beside a dump.json, or an empty path when there is none.
MSPROBE_API std::filesystem::path default_stack_path(const std::filesystem::path& dump);

/// Reads both dumps and pairs their items. Both are dump.json, or both debug.json.
///
/// Throws what read_trace() does; InvalidArgument when the two cannot be compared: tasks that differ
/// or are neither tensor nor statistics, checksums on one side only.
MSPROBE_API DumpPair open_pair(const std::filesystem::path& target, const std::filesystem::path& reference,
                               const PairOptions& options = {});

/// Compares the elements of all pairs, in threads; one entry for each of `pair.matches.pairs`. Files that are
/// missing, damaged or not tensors give a message in their row. `progress` is called with the rows done and
/// all, from any thread, one call at a time; when it returns false the work ends early with InvalidArgument.
MSPROBE_API std::vector<RealMetrics> measure_real_data(
    const DumpPair& pair, unsigned threads = 0,
    const std::function<bool(std::size_t, std::size_t)>& progress = nullptr);

}  // namespace msprobe::trace
