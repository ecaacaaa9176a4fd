// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "msprobe/dump_pair.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"

namespace msprobe::trace {

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
    const ItemPair& row = rows[i];
    result[i] = compare_real_data(pair.target, pair.target_item(row), pair.reference,
                                  pair.reference_item(row), row.reference.how == MatchKind::kExact);
  });
  return result;
}

}  // namespace msprobe::trace
