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
  std::uint64_t rows = 0;        // of the pair, with the items that only the reference has
  std::uint64_t shown = 0;       // of these, in `json`
  std::uint64_t differing = 0;   // of these, neither equal nor without a counterpart
  std::uint64_t unmeasured = 0;  // differing, but without a measure: distance() has no measure
  double worst = 0;              // largest finite distance(), in rounding errors

  /// One JSON object in ASCII, strict (no NaN). Each list has one entry per shown row, in the order in which
  /// they came about: what only the reference has where it ran, gradients of parameters behind the backward
  /// call of their module:
  ///
  ///     strings      the texts that the other lists refer to by index
  ///     row          row of the result table, from 0, as the difference to the one before (to 0); what only
  ///                  the reference has is in no table, and has a 0
  ///     record       beginning of the name
  ///     item         rest of the name
  ///     otherRecord  of the counterpart; -1: the same, -2: there is none
  ///     otherItem    of the counterpart; codes as above
  ///     type         dtype and shape
  ///     otherType    of the counterpart; codes as above
  ///     error        the relative distance in rounding errors of the dtype, in four digits; -1: infinite,
  ///                  -2: no counterpart
  ///     relative     largest relative error, of the elements, else of the statistics; 1 is 100 %;
  ///                  -1: infinite, -2: none, or the row is equal
  ///     result       column Result
  ///     message      column Err_message
  ///     colour       0: none, 1: yellow, 2: red
  ///     match        trace::MatchKind; the negative trace::NoMatchReason where there is no counterpart, and
  ///     -5
  ///                  where only the reference has the item
  std::string json;
};

/// The rows of a pair, at most `most` of them: beyond that, half of the room is for the first rows that
/// differ, and the rest for those that are farthest off. `metrics` is empty unless the mode is kRealData;
/// `distances`: what distances() found.
MSPROBE_API ReportRows report_rows(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                   const std::vector<metrics::Distance>& distances, std::size_t most);

}  // namespace msprobe::compare
