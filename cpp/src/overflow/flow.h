// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "overflow/rank_summary.h"

/// The ranks put together: which call of one rank belongs to which calls of the others, and which of these
/// movements of data was the first to be bad.
namespace msprobe::overflow {

/// A rank that takes part in a flow.
struct Member {
  std::size_t rank_index = 0;     // in the list of all ranks
  std::size_t communication = 0;  // number in that rank
  const Transfer* transfer = nullptr;
  bool gives = false;
  bool takes = false;
};

/// The first flow that carried something bad.
struct BadFlow {
  std::vector<Member> members;  // by rank
  std::vector<int> missing;     // ranks that take part but are not in the dump, ascending
  bool any_bad_source = false;  // somebody gave bad values; else they arrived without having been sent
};

/// Links the calls of all ranks. A collective is linked with those that are the same in number among the
/// calls of the same function with the same ranks; a send with the receive that is the same in number between
/// two ranks and with one tag. Sets Transfer::flow.
class Flows {
 public:
  explicit Flows(std::span<RankSummary> ranks);

  /// Lets the ranks run through their communications, each going on when what it waits for has been given,
  /// and returns the bad flow that comes first: the one that fewest others come before; of these, the one
  /// whose call stands first in its rank.
  std::optional<BadFlow> first_bad();

  /// The order of communication contradicts itself (each of two ranks waits for the other), so that the
  /// order of flows is a guess. Known after first_bad().
  bool is_contradictory() const noexcept { return is_contradictory_; }

 private:
  struct Flow {
    std::uint32_t missing_sources = 0;  // that have not given yet
    std::uint32_t layer = 0;            // flows that come before, in the longest chain
    bool source_is_bad = false;
    bool source_is_fill = false;
    bool result_is_bad = false;

    bool is_bad() const noexcept { return source_is_bad || (result_is_bad && !source_is_fill); }
  };
  // Where a rank stands.
  struct Cursor {
    std::size_t communication = 0;
    std::uint32_t layer = 0;
    bool has_given = false;  // in the present communication
  };
  class Linker;

  bool gives(const RankSummary& rank, const Transfer& transfer) const noexcept;
  bool takes(const RankSummary& rank, const Transfer& transfer) const noexcept;
  void advance(std::size_t rank_index, std::vector<std::size_t>& awake);
  void give(std::size_t rank_index, std::vector<std::size_t>& awake);
  bool may_go_on(std::size_t rank_index);
  void run();
  BadFlow describe(std::uint32_t flow) const;
  std::vector<std::uint32_t> earliest_bad() const;

  std::span<RankSummary> ranks_;
  std::vector<Flow> flows_;
  std::vector<Cursor> cursors_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> waiting_;  // ranks, by flow
  bool is_contradictory_ = false;
};

}  // namespace msprobe::overflow
