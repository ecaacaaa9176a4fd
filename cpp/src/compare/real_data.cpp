// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "msprobe/compare.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"

namespace msprobe::compare {

std::vector<RealMetrics> measure_real_data(const DumpPair& pair, unsigned threads,
                                           const std::function<bool(std::size_t, std::size_t)>& progress) {
  const auto& rows = pair.matches.pairs;
  std::vector<RealMetrics> result(rows.size());
  ThreadPool pool(threads);
  std::mutex mutex;
  std::size_t done = 0;
  bool cancelled = false;
  pool.parallel_for(rows.size(), [&](std::size_t i) {
    if (progress) {
      const std::lock_guard lock(mutex);
      cancelled = cancelled || !progress(done++, rows.size());
      if (cancelled) throw InvalidArgument("the comparison was cancelled");
    }
    const trace::ItemPair& row = rows[i];
    result[i] =
        trace::compare_real_data(pair.target, pair.target_item(row), pair.reference, pair.reference_item(row),
                                 row.reference.how == trace::MatchKind::kExact);
  });
  return result;
}

}  // namespace msprobe::compare
