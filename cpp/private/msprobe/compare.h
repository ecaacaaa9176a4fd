// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Comparison of two dumps of one rank and step: every argument, result, parameter and gradient of the run
/// under test next to its counterpart in the reference run. Rules and columns: docs/formats/compare.md.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dump_pair.h"
#include "msprobe/export.h"

namespace msprobe::compare {

using trace::default_stack_path;
using trace::DumpPair;
using trace::measure_real_data;
using trace::Metric;
using trace::Mode;
using trace::open_pair;
using trace::PairOptions;
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
