// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How pairs of arrays are gone through on all cores: some files at a time, large ones in parts.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/float_environment.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"
#include "rl/paired.h"

namespace msprobe::rl {

inline constexpr std::size_t kBatch = 128;            // pairs of files that are open at a time
inline constexpr std::size_t kPieceElements = 16384;  // read at a time
inline constexpr std::int64_t kPartElements = std::int64_t{1} << 22;  // of an array, for one thread

/// Room for a piece of each side, of one thread.
struct Room {
  static constexpr std::size_t kBytes = kPieceElements * 16;  // of the largest dtype
  alignas(64) std::array<std::byte, kBytes> reference, target, third;
};

inline Room& room_of_this_thread() {
  thread_local const auto room = std::make_unique_for_overwrite<Room>();
  return *room;
}

/// What is open of a pair. Derived: what else is, and what is found in each part.
struct OpenPair {
  std::unique_ptr<ArrayReader> reference;
  std::unique_ptr<ArrayReader> target;
  CommonPart part;
  std::int64_t count = 0;  // elements of the part
  std::string problem;     // why there is nothing to go through
};

/// Opens both sides of a pair. What is wrong with a file becomes its problem.
OpenPair open_pair(const Paired::Pair& pair);

/// For each batch of pairs: `begin(i, open)` for each pair, which may open more; `work(i, part, open, first,
/// count)` for each part of each, on all cores; `end(i, open)` for each in order. Throws InvalidArgument when
/// `progress` ends it. What `work` throws of ours becomes the problem of the pair.
template <typename Begin, typename Work, typename End>
void for_batches(const std::vector<Paired::Pair>& pairs, unsigned threads, const Progress& progress,
                 const Begin& begin, const Work& work, const End& end) {
  ThreadPool pool(threads);
  for (std::size_t first = 0; first < pairs.size(); first += kBatch) {
    if (progress && !progress(first, pairs.size())) throw InvalidArgument("ended by the caller");
    const std::size_t batch = std::min(kBatch, pairs.size() - first);
    std::vector<OpenPair> open(batch);
    pool.parallel_for(batch, [&](std::size_t i) {
      open[i] = open_pair(pairs[first + i]);
      if (open[i].problem.empty()) begin(first + i, open[i]);
    });
    struct Part {
      std::size_t pair;
      std::size_t number;
    };
    std::vector<Part> parts;
    for (std::size_t i = 0; i < batch; ++i) {
      if (!open[i].problem.empty()) continue;
      const auto number = static_cast<std::size_t>((open[i].count + kPartElements - 1) / kPartElements);
      for (std::size_t k = 0; k < number; ++k) parts.push_back({i, k});
    }
    std::vector<std::string> problems(parts.size());
    pool.parallel_for(parts.size(), [&](std::size_t p) {
      const FloatEnvironment as_they_are;
      const auto [i, number] = parts[p];
      const std::int64_t begin_at = static_cast<std::int64_t>(number) * kPartElements;
      try {
        work(first + i, number, open[i], begin_at, std::min(kPartElements, open[i].count - begin_at));
      } catch (const Error& error) {
        problems[p] = error.what();
      }
    });
    for (std::size_t p = 0; p < parts.size(); ++p) {
      std::string& problem = open[parts[p].pair].problem;
      if (problem.empty()) problem = problems[p];
    }
    for (std::size_t i = 0; i < batch; ++i) end(first + i, open[i]);
  }
  if (progress && !progress(pairs.size(), pairs.size())) throw InvalidArgument("ended by the caller");
}

}  // namespace msprobe::rl
