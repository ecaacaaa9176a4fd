// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "overflow/flow.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_set>

namespace msprobe::overflow {
namespace {

constexpr std::uint32_t kNoFlow = std::numeric_limits<std::uint32_t>::max();

}  // namespace

// Gives each transfer its flow.
class Flows::Linker {
 public:
  Linker(std::span<RankSummary> ranks, Flows& flows) : ranks_(ranks), flows_(flows) {
    for (const RankSummary& rank : ranks) present_.push_back(rank.rank);
  }

  void link() {
    for (RankSummary& rank : ranks_) link_named(rank);
    for (RankSummary& rank : ranks_) link_any_source(rank);
    for (RankSummary& rank : ranks_) count(rank);
  }

 private:
  using Route = std::tuple<int, int, int>;  // source, destination, tag
  struct Messages {
    std::vector<std::uint32_t> flows;
    std::size_t next = 0;  // that may be free
  };

  void link_named(RankSummary& rank) {
    const std::vector<std::optional<int>> groups = numbers_of_groups(rank);
    std::map<std::pair<std::uint32_t, int>, std::size_t> collectives;  // seen so far in this rank
    std::map<std::pair<Route, bool>, std::size_t> messages;
    for (Transfer& transfer : rank.transfers) {
      transfer.flow = kNoFlow;
      const bool is_send = transfer.pattern == Pattern::kSend;
      if (is_send || transfer.pattern == Pattern::kReceive) {
        if (!is_send && transfer.peer == kAnyRank) continue;
        const Route route = is_send ? Route{rank.rank, transfer.peer, transfer.tag}
                                    : Route{transfer.peer, rank.rank, transfer.tag};
        transfer.flow = numbered(messages_[route], messages[{route, is_send}]++);
        if (is_send) {
          sent_[{transfer.peer, transfer.tag}].flows.push_back(transfer.flow);
        } else {
          received_.insert(transfer.flow);
        }
      } else if (const auto group = transfer.group == kAllRanks
                                        ? std::optional(kAllRanks)
                                        : groups[static_cast<std::size_t>(transfer.group)]) {
        const std::pair key{transfer.function, *group};
        transfer.flow = numbered(collectives_[key], collectives[key]++);
      }
    }
  }

  // A receive from any rank takes the first message to it that nobody else has taken.
  void link_any_source(RankSummary& rank) {
    for (Transfer& transfer : rank.transfers) {
      if (transfer.pattern != Pattern::kReceive || transfer.peer != kAnyRank) continue;
      Messages& messages = sent_[{rank.rank, transfer.tag}];
      const auto is_taken = [&] { return received_.contains(messages.flows[messages.next]); };
      while (messages.next < messages.flows.size() && is_taken()) ++messages.next;
      const bool is_there = messages.next < messages.flows.size();
      transfer.flow = is_there ? messages.flows[messages.next++] : added();
    }
  }

  void count(const RankSummary& rank) {
    for (const Transfer& transfer : rank.transfers) {
      if (transfer.flow == kNoFlow) continue;
      Flow& flow = flows_.flows_[transfer.flow];
      if (flows_.gives(rank, transfer)) {
        ++flow.missing_sources;
        const bool is_bad = transfer.sent != Badness::kGood;
        flow.source_is_bad |= is_bad && !transfer.is_fill;
        flow.source_is_fill |= is_bad && transfer.is_fill;
      }
      if (flows_.takes(rank, transfer)) flow.result_is_bad |= transfer.received != Badness::kGood;
    }
  }

  // For each group of the rank a number that is the same in all ranks. Ranks that are not in the dump do not
  // count: a call with the group of all ranks is the same as one without a group. Nothing: the rank itself is
  // not in the group, so the call did nothing.
  std::vector<std::optional<int>> numbers_of_groups(const RankSummary& rank) {
    std::vector<std::optional<int>> numbers;
    for (const std::vector<int>& group : rank.groups) {
      if (!std::binary_search(group.begin(), group.end(), rank.rank)) {
        numbers.emplace_back();
        continue;
      }
      std::vector<int> present;
      std::set_intersection(group.begin(), group.end(), present_.begin(), present_.end(),
                            std::back_inserter(present));
      const bool is_all = present.size() == present_.size();
      const int next = static_cast<int>(groups_.size());
      numbers.emplace_back(is_all ? kAllRanks : groups_.try_emplace(present, next).first->second);
    }
    return numbers;
  }

  std::uint32_t numbered(std::vector<std::uint32_t>& flows, std::size_t number) {
    while (flows.size() <= number) flows.push_back(added());
    return flows[number];
  }

  std::uint32_t added() {
    flows_.flows_.emplace_back();
    return static_cast<std::uint32_t>(flows_.flows_.size() - 1);
  }

  std::span<RankSummary> ranks_;
  Flows& flows_;
  std::vector<int> present_;
  std::map<std::vector<int>, int> groups_;
  std::map<std::pair<std::uint32_t, int>, std::vector<std::uint32_t>> collectives_;  // by function and group
  std::map<Route, std::vector<std::uint32_t>> messages_;
  std::map<std::pair<int, int>, Messages> sent_;  // by destination and tag
  std::unordered_set<std::uint32_t> received_;    // flows that a receive with a named source has
};

Flows::Flows(std::span<RankSummary> ranks) : ranks_(ranks), cursors_(ranks.size()) {
  Linker(ranks, *this).link();
}

bool Flows::gives(const RankSummary& rank, const Transfer& transfer) const noexcept {
  if (transfer.pattern == Pattern::kReceive) return false;
  const bool is_from_one = transfer.pattern == Pattern::kFromOne && transfer.peer != kAnyRank;
  return !is_from_one || transfer.peer == rank.rank;
}

bool Flows::takes(const RankSummary& rank, const Transfer& transfer) const noexcept {
  if (transfer.pattern == Pattern::kSend) return false;
  const bool is_to_one = transfer.pattern == Pattern::kToOne && transfer.peer != kAnyRank;
  return !is_to_one || transfer.peer == rank.rank;
}

// ---- The ranks run

void Flows::give(std::size_t rank_index, std::vector<std::size_t>& awake) {
  RankSummary& rank = ranks_[rank_index];
  Cursor& cursor = cursors_[rank_index];
  const Communication& communication = rank.communications[cursor.communication];
  for (std::uint32_t i = 0; i < communication.transfer_count; ++i) {
    const Transfer& transfer = rank.transfers[communication.first_transfer + i];
    if (transfer.flow == kNoFlow || !gives(rank, transfer)) continue;
    Flow& flow = flows_[transfer.flow];
    flow.layer = std::max(flow.layer, cursor.layer + 1);
    if (--flow.missing_sources > 0) continue;
    const auto waiting = waiting_.find(transfer.flow);
    if (waiting == waiting_.end()) continue;
    awake.insert(awake.end(), waiting->second.begin(), waiting->second.end());
    waiting_.erase(waiting);
  }
  cursor.has_given = true;
}

bool Flows::may_go_on(std::size_t rank_index) {
  const RankSummary& rank = ranks_[rank_index];
  const Communication& communication = rank.communications[cursors_[rank_index].communication];
  for (std::uint32_t i = 0; i < communication.transfer_count; ++i) {
    const Transfer& transfer = rank.transfers[communication.first_transfer + i];
    if (transfer.flow == kNoFlow || !takes(rank, transfer)) continue;
    if (flows_[transfer.flow].missing_sources == 0) continue;
    waiting_[transfer.flow].push_back(rank_index);
    return false;
  }
  return true;
}

void Flows::advance(std::size_t rank_index, std::vector<std::size_t>& awake) {
  const RankSummary& rank = ranks_[rank_index];
  Cursor& cursor = cursors_[rank_index];
  const Communication& communication = rank.communications[cursor.communication];
  for (std::uint32_t i = 0; i < communication.transfer_count; ++i) {
    const Transfer& transfer = rank.transfers[communication.first_transfer + i];
    if (transfer.flow == kNoFlow || !takes(rank, transfer)) continue;
    Flow& flow = flows_[transfer.flow];
    if (flow.layer == 0) flow.layer = cursor.layer + 1;  // nobody in the dump gave anything
    cursor.layer = std::max(cursor.layer, flow.layer);
  }
  ++cursor.communication;
  cursor.has_given = false;
  awake.push_back(rank_index);
}

void Flows::run() {
  std::vector<std::size_t> awake;
  for (std::size_t i = ranks_.size(); i-- > 0;) awake.push_back(i);
  const auto has_ended = [this](std::size_t i) {
    return cursors_[i].communication == ranks_[i].communications.size();
  };
  for (;;) {
    while (!awake.empty()) {
      const std::size_t i = awake.back();
      awake.pop_back();
      if (has_ended(i)) continue;
      if (!cursors_[i].has_given) give(i, awake);
      if (may_go_on(i)) advance(i, awake);
    }
    // Everybody waits: the one that has come least far goes on without what it waits for.
    std::optional<std::size_t> stuck;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (has_ended(i)) continue;
      if (!stuck || cursors_[i].communication < cursors_[*stuck].communication) stuck = i;
    }
    if (!stuck) return;
    is_contradictory_ = true;
    for (auto& [flow, waiting] : waiting_) std::erase(waiting, *stuck);
    advance(*stuck, awake);
  }
}

// ---- The answer

std::vector<std::uint32_t> Flows::earliest_bad() const {
  std::vector<std::uint32_t> earliest;
  for (std::uint32_t i = 0; i < flows_.size(); ++i) {
    if (!flows_[i].is_bad()) continue;
    const std::uint32_t least = earliest.empty() ? flows_[i].layer : flows_[earliest[0]].layer;
    if (flows_[i].layer > least) continue;
    if (flows_[i].layer < least) earliest.clear();
    earliest.push_back(i);
  }
  return earliest;
}

std::optional<BadFlow> Flows::first_bad() {
  run();
  std::vector<std::uint32_t> candidates = earliest_bad();
  if (candidates.empty()) return std::nullopt;
  // The place of a flow: the least record of a member, then the least rank.
  std::pair<std::uint32_t, std::size_t> least{kNoFlow, 0};
  std::uint32_t first = candidates[0];
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (const Communication& communication : ranks_[r].communications) {
      const std::pair place{communication.record, r};
      if (place >= least) continue;
      for (std::uint32_t i = 0; i < communication.transfer_count; ++i) {
        const std::uint32_t flow = ranks_[r].transfers[communication.first_transfer + i].flow;
        if (!std::binary_search(candidates.begin(), candidates.end(), flow)) continue;
        least = place;
        first = flow;
      }
    }
  }
  return describe(first);
}

BadFlow Flows::describe(std::uint32_t flow) const {
  BadFlow result;
  result.any_bad_source = flows_[flow].source_is_bad;
  std::vector<int> wanted;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const RankSummary& rank = ranks_[r];
    for (std::size_t c = 0; c < rank.communications.size(); ++c) {
      const Communication& communication = rank.communications[c];
      for (std::uint32_t i = 0; i < communication.transfer_count; ++i) {
        const Transfer& transfer = rank.transfers[communication.first_transfer + i];
        if (transfer.flow != flow) continue;
        result.members.push_back({r, c, &transfer, gives(rank, transfer), takes(rank, transfer)});
        if (transfer.peer != kAnyRank) wanted.push_back(transfer.peer);
        if (transfer.group == kAllRanks) continue;
        const auto& group = rank.groups[static_cast<std::size_t>(transfer.group)];
        wanted.insert(wanted.end(), group.begin(), group.end());
      }
    }
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  for (const int rank : wanted) {
    const bool is_there =
        std::any_of(result.members.begin(), result.members.end(),
                    [&](const Member& member) { return ranks_[member.rank_index].rank == rank; });
    if (!is_there) result.missing.push_back(rank);
  }
  return result;
}

}  // namespace msprobe::overflow
