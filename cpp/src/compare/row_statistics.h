// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "msprobe/compare.h"

namespace msprobe::compare {

using trace::StatisticsPair;

/// The statistics of both items of the rows [begin, end): their numbers are made of text once, for judging
/// and for the table. Empty ones in mode kMd5.
void read_statistics(const DumpPair& pair, std::size_t begin, std::size_t end,
                     std::vector<StatisticsPair>& statistics);

/// judge_record() for rows whose statistics are known: one for each of them; not looked at in mode kMd5.
void judge_record(const DumpPair& pair, const std::vector<RealMetrics>& metrics, std::size_t begin,
                  std::span<const StatisticsPair> statistics, std::vector<RowVerdict>& verdicts);

}  // namespace msprobe::compare
