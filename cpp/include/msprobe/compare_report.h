// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The rows of a comparison as report.html embeds them: columns of numbers, every text once.

#include <cstdint>
#include <string>
#include <vector>

#include "msprobe/compare.h"
#include "msprobe/export.h"

namespace msprobe::compare {

/// The rows of one pair for the page, and what the page needs to know when there is no room for them.
struct ReportRows {
  std::uint64_t rows = 0;        // of the pair
  std::uint64_t shown = 0;       // of these, in `json`
  std::uint64_t differing = 0;   // of these, neither equal nor without a counterpart
  std::uint64_t unmeasured = 0;  // differing, but without a measure: distance() is infinite
  double worst = 0;              // largest finite distance(), in rounding errors

  /// One JSON object in ASCII, strict (no NaN), with one entry per shown row in each list, in the order of
  /// rows:
  ///
  ///     strings       the texts that the lists below refer to by index
  ///     row           row of the result table, from 0, as the difference to the one before (to 0)
  ///     record, item  name: strings[record] + strings[item]
  ///     otherRecord, otherItem  that of the counterpart; -1: the same, -2: it has none
  ///     type, otherType         dtype and shape; otherType as above
  ///     error         distance() in four digits; -1: infinite, -2: no counterpart
  ///     relative      largest relative error (of elements, else of statistics, 1 is 100 %); -1: infinite,
  ///     -2: none result, message         columns Result and Err_message colour        0 none, 1 yellow, 2
  ///     red match         trace::MatchKind, or the negative trace::NoMatchReason where there is none
  std::string json;
};

/// The rows of a pair, at most `most` of them: beyond that, half of the room is for the first rows that
/// differ, and the rest for those that are farthest off. `metrics` is empty unless the mode is kRealData.
MSPROBE_API ReportRows report_rows(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                   std::size_t most);

}  // namespace msprobe::compare
