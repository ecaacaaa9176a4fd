// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "msprobe/compare.h"
#include "msprobe/step_walk.h"
#include "msprobe/verdict.h"

namespace msprobe::compare {

Verdict judge_dumps(std::span<const ComparedDumps> dumps, unsigned threads) {
  std::vector<const ComparedDumps*> in_order;
  for (const ComparedDumps& each : dumps) in_order.push_back(&each);
  std::ranges::stable_sort(in_order, {},
                           [](const ComparedDumps* each) { return std::pair(each->rank, each->step); });

  std::vector<StepWalk> walks;
  walks.reserve(in_order.size());  // a walk reads the one before
  for (const ComparedDumps* each : in_order) {
    PairOptions options;
    options.threads = threads;
    if (!each->table.empty()) options.stack_path = default_stack_path(each->target);
    const DumpPair pair = open_pair(each->target, each->reference, options);
    std::vector<RealMetrics> metrics;
    if (pair.mode == Mode::kRealData) metrics = measure_real_data(pair, threads);
    if (!each->table.empty()) write_table(pair, metrics, {.path = each->table, .threads = threads});
    const StepWalk* before = !walks.empty() && walks.back().rank == each->rank ? &walks.back() : nullptr;
    walks.push_back(
        walk_step(pair, metrics, distances(pair, metrics, threads), each->step, each->rank, before));
  }
  std::vector<const StepWalk*> all;
  all.reserve(walks.size());
  for (const StepWalk& walk : walks) all.push_back(&walk);
  return judge(all);
}

}  // namespace msprobe::compare
