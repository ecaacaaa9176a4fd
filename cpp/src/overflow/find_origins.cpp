// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <unordered_set>

#include "msprobe/error.h"
#include "msprobe/overflow.h"
#include "msprobe/packed_step.h"
#include "msprobe/record_name.h"
#include "msprobe/thread_pool.h"
#include "msprobe/trace_reader.h"
#include "overflow/flow.h"
#include "overflow/rank_summary.h"
#include "overflow/step_ranks.h"
#include "trace/record_text.h"

namespace msprobe::overflow {
namespace {

namespace fs = std::filesystem;

// An origin of which only the place is known.
struct Found {
  const RankSummary* rank = nullptr;
  Candidate candidate;
  Phase phase = Phase::kBefore;
};

std::vector<RankSummary> read_ranks(const fs::path& step_dir, const AnalyzeOptions& options) {
  const auto directories = rank_directories(step_dir);
  std::vector<RankSummary> ranks(directories.size());
  std::atomic<std::size_t> done = 0;
  std::atomic<bool> is_cancelled = false;
  const std::thread::id caller = std::this_thread::get_id();
  ThreadPool pool(options.threads);
  pool.parallel_for(directories.size(), [&](std::size_t i) {
    if (is_cancelled) return;
    const auto& [rank, directory] = directories[i];
    try {
      ranks[i] = summarize_rank(rank, directory);
    } catch (const Error& error) {
      // One damaged file among many must not hide the answer of the others.
      if (directories.size() == 1) throw;
      ranks[i].rank = rank;
      ranks[i].problem = error.what();
    }
    ++done;
    if (!options.progress || std::this_thread::get_id() != caller) return;
    if (!options.progress(done, directories.size())) is_cancelled = true;
  });
  if (is_cancelled) throw InvalidArgument("the analysis was cancelled");
  return ranks;
}

// ---- Which call it was

// The first maker of each rank in a segment.
template <typename Segment>
std::vector<Found> makers(const std::vector<RankSummary>& ranks, Phase phase, const Segment& segment) {
  std::vector<Found> found;
  for (const RankSummary& rank : ranks) {
    if (const Candidate* maker = segment(rank)) found.push_back({&rank, *maker, phase});
  }
  return found;
}

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  return ranks.size() > kMost ? text + " and " + std::to_string(ranks.size() - kMost) + " more" : text;
}

Found found_at(const RankSummary& rank, const Member& member, Cause cause, std::string reason) {
  const Communication& call = rank.communications[member.communication];
  return {&rank,
          {call.record, cause, std::string(rank.name(call)), std::move(reason), call.begin, call.end},
          Phase::kDuring};
}

// Somebody sent bad values: what its rank did before explains them.
std::vector<Found> behind_source(const std::vector<RankSummary>& ranks, const BadFlow& flow) {
  std::optional<Found> maker;
  std::vector<Found> outside;
  std::optional<Found> call;
  for (const Member& member : flow.members) {
    const bool is_source =
        member.gives && member.transfer->sent != Badness::kGood && !member.transfer->is_fill;
    if (!is_source) continue;
    const RankSummary& rank = ranks[member.rank_index];
    const std::uint32_t record = rank.communications[member.communication].record;
    const Candidate* const before = rank.maker_before(member.communication);
    if (before != nullptr && (!maker || before->record < maker->candidate.record)) {
      maker = {&rank, *before, Phase::kDuring};
    }
    const bool came_in = rank.outside && rank.outside->record < record;
    if (came_in) outside.push_back({&rank, *rank.outside, Phase::kDuring});
    if (!call) {
      call = found_at(rank, member, Cause::kOutside,
                      "what the rank gives is bad, and no recorded call of the rank made it");
    }
  }
  if (maker) return {*maker};
  if (!outside.empty()) return outside;
  return call ? std::vector{*call} : std::vector<Found>();
}

// Everybody sent good values, and yet what arrived is bad.
std::vector<Found> in_flow(const std::vector<RankSummary>& ranks, const BadFlow& flow) {
  for (const Member& member : flow.members) {
    if (!member.takes || member.transfer->received == Badness::kGood) continue;
    std::string reason = "what the ranks of the dump give is good, what arrives is bad";
    if (!flow.missing.empty()) {
      reason += "; " + list_of(flow.missing) + ", which take" + (flow.missing.size() == 1 ? "s" : "") +
                " part too, " + (flow.missing.size() == 1 ? "is" : "are") + " not in the dump";
    }
    return {found_at(ranks[member.rank_index], member, Cause::kCommunication, std::move(reason))};
  }
  return {};
}

// Everything of one kind that a rank may have.
std::vector<Found> of_each(const std::vector<RankSummary>& ranks,
                           std::optional<Candidate> RankSummary::* candidate) {
  std::vector<Found> found;
  for (const RankSummary& rank : ranks) {
    const std::optional<Candidate>& one = rank.*candidate;
    if (one) found.push_back({&rank, *one, Phase::kBefore});
  }
  for (Found& one : found) {
    const auto& calls = one.rank->communications;
    if (calls.empty() || one.candidate.record < calls.front().record) continue;
    one.phase = one.candidate.record > calls.back().record ? Phase::kAfter : Phase::kBetween;
  }
  return found;
}

std::vector<Found> search(std::vector<RankSummary>& ranks, std::vector<std::string>& notes) {
  const auto in_first = [](const RankSummary& rank) { return rank.maker_in(0); };
  if (auto found = makers(ranks, Phase::kBefore, in_first); !found.empty()) return found;

  Flows flows(ranks);
  const std::optional<BadFlow> bad = flows.first_bad();
  if (flows.is_contradictory()) {
    notes.emplace_back(
        "the communication of the ranks contradicts itself (calls are missing in a dump, or ranks called "
        "them "
        "in another order), so the order between ranks is a guess");
  }
  if (bad) return bad->any_bad_source ? behind_source(ranks, *bad) : in_flow(ranks, *bad);

  const auto in_last = [](const RankSummary& rank) {
    return rank.communications.empty() ? nullptr : rank.maker_in(rank.communications.size());
  };
  if (auto found = makers(ranks, Phase::kAfter, in_last); !found.empty()) return found;
  const auto in_any = [](const RankSummary& rank) {
    return rank.makers.empty() ? nullptr : &rank.makers.front().second;
  };
  if (auto found = makers(ranks, Phase::kBetween, in_any); !found.empty()) return found;
  if (auto found = of_each(ranks, &RankSummary::outside); !found.empty()) return found;
  return of_each(ranks, &RankSummary::gradient);
}

// ---- What stands around it

// Reads a file that only adds to the answer; a note instead when it cannot be read.
template <typename Read>
auto read_if_good(const fs::path& path, const Read& read, std::vector<std::string>& notes)
    -> std::optional<decltype(read(path))> {
  if (!io::is_there(path)) {
    notes.push_back(path.string() + " is missing: the answer has less to say");
    return std::nullopt;
  }
  try {
    return read(path);
  } catch (const Error& error) {
    notes.push_back(std::string(error.what()) + "; the answer has less to say");
    return std::nullopt;
  }
}

std::vector<std::string> ancestry(const trace::Construct* construct, const std::string& record) {
  std::vector<std::string> names{record};
  std::unordered_set<std::string> seen{record};
  while (construct != nullptr) {
    std::string parent(construct->parent(names.back()));
    if (parent.empty() || !seen.insert(parent).second) break;  // a damaged file may go in circles
    names.push_back(std::move(parent));
  }
  std::reverse(names.begin(), names.end());
  return names;
}

std::vector<std::string> frames(const trace::Stacks* stacks, const std::string& record) {
  if (stacks == nullptr) return {};
  const auto found = stacks->frames(record);
  return {found.begin(), found.end()};
}

Origin origin_of(const Found& found, std::vector<std::string>& notes) {
  const fs::path& directory = found.rank->directory;
  const auto construct = read_if_good(directory / "construct.json", trace::read_construct, notes);
  const auto stacks = read_if_good(directory / "stack.json", trace::read_stacks, notes);
  const trace::Stacks* const known = stacks ? &*stacks : nullptr;
  const Candidate& candidate = found.candidate;
  Origin origin;
  origin.rank = found.rank->rank;
  origin.record = candidate.name;
  origin.cause = candidate.cause;
  origin.phase = found.phase;
  origin.reason = candidate.reason;
  origin.json = trace::record_text(directory / "dump.json", candidate.begin, candidate.end);
  origin.ancestry = ancestry(construct ? &*construct : nullptr, candidate.name);
  origin.stack = frames(known, candidate.name);
  if (const trace::RecordName name(candidate.name); name.is_backward())
    origin.forward_stack = frames(known, name.with(trace::Direction::kForward));
  return origin;
}

void note_ranks(const std::vector<RankSummary>& ranks, Analysis& analysis) {
  for (const RankSummary& rank : ranks) {
    const std::string name = "rank " + std::to_string(rank.rank);
    if (!rank.problem.empty()) {
      analysis.unread_ranks.push_back(rank.rank);
      analysis.notes.push_back(name + " is left out: " + rank.problem);
      continue;
    }
    analysis.ranks.push_back(rank.rank);
    analysis.record_count += rank.record_count;
    analysis.communication_count += rank.communications.size();
    if (!rank.has_statistics) {
      analysis.notes.push_back(name + ": no record has statistics, so nothing can be seen there");
    }
    if (rank.fill_count > 0) {
      analysis.notes.push_back(
          name + ": " + std::to_string(rank.fill_count) + (rank.fill_count == 1 ? " call" : " calls") +
          " wrote an infinity that the program asked for, which counts as good: first " + rank.first_fill);
    }
  }
}

}  // namespace

std::string_view cause_name(Cause cause) noexcept {
  switch (cause) {
    case Cause::kComputed: return "computed";
    case Cause::kArgument: return "argument";
    case Cause::kParameter: return "parameter";
    case Cause::kCommunication: return "communication";
    case Cause::kOutside: return "outside";
    case Cause::kGradient: return "gradient";
  }
  return "";
}

std::string_view phase_name(Phase phase) noexcept {
  switch (phase) {
    case Phase::kBefore: return "before communication";
    case Phase::kDuring: return "during communication";
    case Phase::kAfter: return "after communication";
    case Phase::kBetween: return "between communications";
  }
  return "";
}

Analysis find_origins(const fs::path& step_dir, const AnalyzeOptions& options) {
  std::vector<RankSummary> ranks = read_ranks(step_dir, options);
  Analysis analysis;
  note_ranks(ranks, analysis);
  if (analysis.ranks.empty()) {
    throw FormatError(step_dir.string(), "", "no rank can be read: " + analysis.notes.front());
  }
  std::erase_if(ranks, [](const RankSummary& rank) { return !rank.problem.empty(); });
  for (const Found& found : search(ranks, analysis.notes)) {
    analysis.origins.push_back(origin_of(found, analysis.notes));
  }
  return analysis;
}

}  // namespace msprobe::overflow
