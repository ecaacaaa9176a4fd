// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Comparison of two dumps of one rank and step: every argument, result, parameter and gradient of the run
/// under test next to its counterpart in the reference run. Rules and columns: docs/formats/compare.md.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/trace_compare.h"
#include "msprobe/trace_match.h"
#include "msprobe/trace_reader.h"
#include "msprobe/training_state.h"

namespace msprobe::compare {

using trace::Mode;

struct PairOptions {
  /// Pair items by mindstudio-probe's fuzzy rule (trace::match_items_fuzzy).
  bool fuzzy = false;
  /// Not empty: pair items by names (trace::match_items_mapped).
  std::map<std::string, std::string, std::less<>> data_mapping;
  /// stack.json of the target; empty: without stacks. See default_stack_path().
  std::filesystem::path stack_path;
  /// Threads for reading and measuring; 0 = all cores.
  unsigned threads = 0;
};

using trace::Metric;
using trace::RealMetrics;
using trace::StatisticDifference;

enum class Colour : std::uint8_t { kNone, kYellow, kRed };

/// The judgement of one row.
struct RowVerdict {
  Colour colour = Colour::kNone;
  std::string message;      // column Err_message
  std::string_view result;  // column Result: "", "Warning", "pass", "Different", "N/A"; real data: accuracy
  bool fails = false;       // mindstudio-probe's advisor would name it
};

/// Two dumps and which item of one belongs to which of the other.
struct DumpPair {
  trace::Trace target;     // the run under test ("NPU")
  trace::Trace reference;  // the reference ("Bench")
  Mode mode = Mode::kStatistics;
  trace::ItemMatches matches;
  std::optional<trace::Stacks> stacks;               // of the target
  std::optional<trace::Construct> target_construct;  // absent where the file is
  std::optional<trace::Construct> reference_construct;
  trace::RecordMatches records;                      // by place; also with data_mapping and fuzzy
  std::optional<trace::TrainingState> target_state;  // absent where the file is, and of debug.json
  std::optional<trace::TrainingState> reference_state;

  /// What save() was given, in debug.json.
  bool is_debug() const { return target.path().filename().native().starts_with("debug"); }
  const trace::Item& target_item(const trace::ItemPair& pair) const {
    return target.all_items()[pair.target];
  }
  /// Null where there is none.
  const trace::Item* reference_item(const trace::ItemPair& pair) const {
    return pair.reference ? &reference.all_items()[pair.reference.index] : nullptr;
  }
};

/// stack.json beside a dump.json, or an empty path when there is none.
MSPROBE_API std::filesystem::path default_stack_path(const std::filesystem::path& dump);

/// Reads both dumps and pairs their items. Both are dump.json, or both debug.json.
///
/// Throws what trace::read_trace() does; InvalidArgument when the two cannot be compared: tasks that differ
/// or are neither tensor nor statistics, checksums on one side only.
MSPROBE_API DumpPair open_pair(const std::filesystem::path& target, const std::filesystem::path& reference,
                               const PairOptions& options = {});

/// Compares the elements of all pairs, in threads; one entry for each of `pair.matches.pairs`. Files that are
/// missing, damaged or not tensors give a message in their row. `progress` is called with the rows done and
/// all, from any thread, one call at a time; when it returns false the work ends early with InvalidArgument.
MSPROBE_API std::vector<RealMetrics> measure_real_data(
    const DumpPair& pair, unsigned threads = 0,
    const std::function<bool(std::size_t, std::size_t)>& progress = nullptr);

/// Judges the rows [begin, end), which are those of one record of the target. `metrics` is empty unless the
/// mode is kRealData.
MSPROBE_API void judge_record(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                              std::size_t begin, std::size_t end, std::vector<RowVerdict>& verdicts);

/// Counts of a comparison, for a person and for the exit code.
struct TableSummary {
  std::uint64_t rows = 0;
  std::uint64_t matched = 0;
  std::uint64_t aligned = 0;  // matched under another name or in another place
  std::uint64_t failing = 0;  // rows whose result is "Warning", "Different" or "No"
  std::uint64_t red = 0;
  std::uint64_t yellow = 0;
  std::uint64_t reference_only = 0;
  std::optional<std::uint64_t> first_failing;  // row, from 0
  std::string first_failing_name;
};

struct TableOptions {
  std::filesystem::path path;  // .xlsx or .csv
  unsigned threads = 0;
};

/// Writes the result table: one row for each item of the target, in the columns of mindstudio-probe, then
/// how the pair was found. An xlsx has the sheet "Sheet", when items of the reference stayed alone
/// "Unmatched", and the cover "Verdict", which io::replace_cover() fills when all pairs are compared.
/// Complete or absent. Throws IoError.
MSPROBE_API TableSummary write_table(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                     const TableOptions& options);

/// The same counts without a table. `threads`: 0 = all cores.
MSPROBE_API TableSummary summarize(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                   unsigned threads = 0);

/// mindstudio-probe's advice about the first failing row.
MSPROBE_API std::string advice(const TableSummary& summary);

}  // namespace msprobe::compare
