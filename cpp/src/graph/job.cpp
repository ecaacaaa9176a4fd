// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>

#include "graph/database.h"
#include "graph/layer_map.h"
#include "graph/legend.h"
#include "graph/links.h"
#include "graph/overflow_levels.h"
#include "graph/rows.h"
#include "msprobe/error.h"
#include "msprobe/graph_file.h"
#include "msprobe/graph_merge.h"
#include "msprobe/log.h"
#include "msprobe/packed_step.h"
#include "msprobe/thread_pool.h"

namespace msprobe::graph {
namespace {

// Rows are made and written in pieces of so many, which bounds the memory of their texts.
constexpr std::size_t kPiece = 512;

// The work of a rank for the progress: reading, then its rows.
constexpr std::size_t kReading = 300, kWriting = 700;

std::string_view level_name(OverflowLevel level) {
  switch (level) {
    case OverflowLevel::kNone: return "";
    case OverflowLevel::kMedium: return "medium";
    case OverflowLevel::kHigh: return "high";
    case OverflowLevel::kCritical: return "critical";
  }
  return "";
}

// Graphs that are compared with each other, ready to be written.
struct Prepared {
  explicit Prepared(Graph graph) : target(std::move(graph)) {}

  Graph target;
  MatchOptions match;
  std::optional<Graph> reference;
  std::optional<Comparison> comparison;
};

// The calls of all ranks of one step and side that may be linked, while the graphs are written.
struct StepCalls {
  std::vector<CommunicationCalls> ranks;
  std::map<std::pair<int, std::string_view>, std::string>
      texts;  // what is shown of a node; names are in `ranks`
};

class Job {
 public:
  explicit Job(const GraphJob& job)
      : job_(job), pool_(job.threads), in_flight_(std::clamp<std::size_t>(pool_.size() / 2, 1, 4)) {}

  GraphSummary run() {
    check();
    GraphDatabase database(job_.output);
    database_ = &database;
    std::deque<std::future<std::vector<Prepared>>> ready;
    std::size_t next = 0;
    // At any time the ranks that follow are read while one is written.
    for (std::size_t i = 0; i < job_.units.size(); ++i) {
      for (; next < job_.units.size() && ready.size() < in_flight_; ++next) {
        ready.push_back(std::async(std::launch::async, [this, next] { return prepare(job_.units[next]); }));
      }
      std::future<std::vector<Prepared>> reading = std::move(ready.front());
      ready.pop_front();
      std::vector<Prepared> prepared = read_or_leave_out(reading, job_.units[i]);
      advance(kReading);
      for (const Prepared& one : prepared) write(one, kWriting / prepared.size());
      // Millions of small pieces: that takes a while, in which the next rank or the indices can be written.
      releasing_ = std::async(std::launch::async, [gone = std::move(prepared)]() mutable { gone.clear(); });
      advance(kWriting - std::min(kWriting, std::exchange(written_, 0)));
    }
    if (summary_.graphs == 0) std::rethrow_exception(first_error_);
    link_step();
    database.end_graphs();
    if (job_.findings) {
      for (const Finding& finding : job_.findings()) database.add_finding(finding);
    }
    database.finish(config());
    advance(0);  // the last chance to cancel
    database.commit();
    std::sort(summary_.without_stacks.begin(), summary_.without_stacks.end());  // whoever was read first
    return std::move(summary_);
  }

 private:
  bool is_comparison() const { return !job_.units.front().reference.empty(); }

  void check() const {
    const std::string doing = "cannot write " + job_.output.string() + ": ";
    if (job_.units.empty()) throw InvalidArgument(doing + "there is no rank");
    std::error_code ignored;
    if (std::filesystem::exists(job_.output, ignored)) {
      throw InvalidArgument(job_.output.string() + " exists; results are never overwritten");
    }
    std::set<std::pair<int, int>> places;
    for (const GraphUnit& unit : job_.units) {
      if (unit.target.empty() || unit.reference.empty() == is_comparison()) {
        throw InvalidArgument(doing + "some ranks have a reference and others have none");
      }
      if (!job_.merge && (unit.target.size() > 1 || unit.reference.size() > 1)) {
        throw InvalidArgument(doing + "ranks that are not merged come one by one");
      }
      if (!places.emplace(unit.step, job_.merge ? 0 : unit.target.front().rank).second) {
        throw InvalidArgument(doing + "twice the same step and rank: " + unit.target.front().path.string());
      }
    }
  }

  // ---- Reading and comparing; several units at a time

  void leave_out(const GraphUnit& unit, const std::exception& error) {
    if (job_.merge) throw;
    if (!first_error_) first_error_ = std::current_exception();
    summary_.left_out.push_back({unit.step, unit.target.front().rank, error.what()});
  }

  // A rank that cannot be read keeps no other one from being shown.
  std::vector<Prepared> read_or_leave_out(std::future<std::vector<Prepared>>& reading,
                                          const GraphUnit& unit) {
    try {
      return reading.get();
    } catch (const FormatError& error) {
      leave_out(unit, error);
    } catch (const IoError& error) {
      leave_out(unit, error);
    }
    return {};
  }

  std::vector<Prepared> prepare(const GraphUnit& unit) {
    std::vector<const RankFolder*> folders;
    folders.reserve(unit.target.size() + unit.reference.size());
    for (const RankFolder& folder : unit.target) folders.push_back(&folder);
    for (const RankFolder& folder : unit.reference) folders.push_back(&folder);
    std::vector<std::optional<Graph>> graphs(folders.size());
    pool_.parallel_for(folders.size(), [&](std::size_t i) {
      const RankFolder& folder = *folders[i];
      graphs[i].emplace(build(std::make_shared<Dump>(read_dump(folder.path, unit.step, folder.rank))));
      note_missing_stacks(*graphs[i], folder.path);
    });
    const auto middle = graphs.begin() + static_cast<std::ptrdiff_t>(unit.target.size());
    std::vector<Graph> target = merged({graphs.begin(), middle}, job_.target_layout);
    std::vector<Graph> reference = merged({middle, graphs.end()}, job_.reference_layout);
    if (is_comparison() && target.size() != reference.size()) {
      throw InvalidArgument("cannot compare " + std::to_string(target.size()) + " merged graphs with " +
                            std::to_string(reference.size()) + ": " + unit.target.front().path.string() +
                            ": the layouts leave other numbers of replicas");
    }
    std::vector<Prepared> result;
    for (std::size_t i = 0; i < target.size(); ++i) {
      Prepared& one = result.emplace_back(std::move(target[i]));
      if (!is_comparison()) continue;
      one.reference.emplace(std::move(reference[i]));
      one.match = match_options(one);
      one.comparison = compare(one.target, *one.reference, {.match = one.match, .threads = job_.threads});
    }
    return result;
  }

  MatchOptions match_options(const Prepared& prepared) const {
    // Cut in another way, modules have other shapes.
    if (job_.merge) return {.rule = MatchRule::kFuzzy, .check_shapes = false, .names = {}};
    MatchOptions options;
    options.rule = job_.rule;
    if (job_.rule != MatchRule::kMapped || !job_.layer_rules || !prepared.reference) return options;
    try {
      options.names = map_layers(*prepared.target.dumps().front(), *prepared.reference->dumps().front(),
                                 *job_.layer_rules);
    } catch (const InvalidArgument& error) {
      log(LogLevel::kWarning, std::string("the layers are paired by equal names only: ") + error.what());
    }
    return options;
  }

  std::vector<Graph> merged(std::span<std::optional<Graph>> graphs,
                            const std::optional<ParallelLayout>& known) const {
    std::vector<Graph> result;
    for (std::optional<Graph>& graph : graphs) {
      if (graph) result.push_back(std::move(*graph));
    }
    if (!job_.merge || result.empty()) return result;
    const std::optional<ParallelLayout> layout = known ? known : layout_of(result);
    if (!layout) {
      throw InvalidArgument("cannot merge " + result.front().dumps().front()->trace.path().string() +
                            " with " + std::to_string(result.size() - 1) +
                            " other ranks: what they send each other does not show how the model is split; "
                            "give rank_size, tp and pp");
    }
    return merge_ranks(std::move(result), *layout);
  }

  void note_missing_stacks(const Graph& graph, const std::filesystem::path& folder) {
    const bool is_there = io::is_there(folder / "stack.json");  // maybe without stacks
    if (is_there || !graph.dumps().front()->stacks.empty()) return;
    const std::lock_guard lock(mutex_);
    summary_.without_stacks.push_back(folder.string());
  }

  // ---- Writing; one rank at a time

  void write(const Prepared& prepared, std::size_t work) {
    if (step_ != prepared.target.step()) link_step();
    step_ = prepared.target.step();
    const Comparison* const comparison = prepared.comparison ? &*prepared.comparison : nullptr;
    const Graph* const reference = prepared.reference ? &*prepared.reference : nullptr;
    const bool shows_md5 = comparison != nullptr ? comparison->mode == Mode::kMd5
                                                 : prepared.target.dumps().front()->trace.has_md5();
    const GraphRows target(prepared.target, reference, comparison, prepared.match, false, shows_md5);
    std::optional<GraphRows> reference_rows;
    if (reference != nullptr)
      reference_rows.emplace(*reference, &prepared.target, comparison, prepared.match, true, shows_md5);
    work_per_row_ = static_cast<double>(work) /
                    static_cast<double>(target.size() + (reference_rows ? reference_rows->size() : 0));
    write_graph(prepared.target, target, comparison == nullptr ? nullptr : &comparison->verdicts);
    if (reference_rows) write_graph(*reference, *reference_rows, nullptr);
    count(prepared, target, reference_rows ? reference_rows->whole().unmatched : 0);
  }

  // `verdicts`: null for the reference and for a graph alone.
  void write_graph(const Graph& graph, const GraphRows& rows, const std::vector<NodeVerdict>* verdicts) {
    database_->begin_graph(rows.key());
    for (std::size_t i = 0; i < rows.stacks().size(); ++i)
      database_->add_stack(rows.stack_id(i), rows.stacks()[i]);
    const std::vector<OverflowLevel> levels = worst_levels(graph);
    keep_calls(graph, rows.key().source, verdicts, levels);
    // While some pieces are made the ones before them are written.
    const std::size_t at_once = std::size_t{pool_.size()} * 2;
    std::future<void> writing;
    for (std::size_t begin = 0; begin < rows.size(); begin += at_once * kPiece) {
      const std::size_t end = std::min(rows.size(), begin + at_once * kPiece);
      std::vector<std::vector<NodeRow>> pieces((end - begin + kPiece - 1) / kPiece);
      pool_.parallel_for(pieces.size(), [&](std::size_t i) {
        const std::size_t first = begin + i * kPiece;
        pieces[i] = rows.make(first, std::min(end, first + kPiece));
        if (job_.overflow_check) set_levels(graph, levels, pieces[i]);
      });
      if (writing.valid()) writing.get();
      report(static_cast<std::size_t>(static_cast<double>(end - begin) * work_per_row_));
      writing = std::async(std::launch::async, [this, pieces = std::move(pieces)] {
        for (const auto& piece : pieces) database_->add_nodes(piece);
      });
    }
    if (writing.valid()) writing.get();
  }

  // By node: its own level, then the worst below it.
  std::vector<OverflowLevel> worst_levels(const Graph& graph) const {
    if (!job_.overflow_check) return {};
    std::vector<std::vector<OverflowLevel>> by_record;
    for (const auto& dump : graph.dumps()) by_record.push_back(overflow_levels(dump->trace));
    const std::size_t count = graph.nodes().size();
    std::vector<OverflowLevel> levels(2 * count, OverflowLevel::kNone);
    for (const NodeId node : graph.post_order()) {
      if (graph[node].record != Node::kNoRecord)
        levels[node] = by_record[graph[node].source][graph[node].record];
      OverflowLevel& worst = levels[count + node];
      worst = std::max(worst, levels[node]);
      if (const NodeId parent = graph[node].parent; parent != kNoNode) {
        levels[count + parent] = std::max(levels[count + parent], worst);
      }
    }
    return levels;
  }

  static void set_levels(const Graph& graph, const std::vector<OverflowLevel>& levels,
                         std::vector<NodeRow>& rows) {
    for (NodeRow& row : rows) {
      const NodeId node = graph.find(row.name);
      row.overflow = level_name(levels[node]);
      row.worst_overflow = level_name(levels[graph.nodes().size() + node]);
    }
  }

  // ---- Links

  void keep_calls(const Graph& graph, std::string_view source, const std::vector<NodeVerdict>* verdicts,
                  const std::vector<OverflowLevel>& levels) {
    if (job_.merge || job_.units.size() == 1) return;
    StepCalls& calls = calls_[std::string(source)];
    calls.ranks.push_back(read_calls(graph));
    const int rank = calls.ranks.back().rank;
    for (const CommunicationCalls::Node& node : calls.ranks.back().nodes) {
      std::string text = "Nan";
      if (job_.overflow_check) {
        if (levels[node.id] != OverflowLevel::kNone) text = level_name(levels[node.id]);
      } else if (verdicts != nullptr) {
        const NodeVerdict& verdict = (*verdicts)[node.id];
        if (verdict.index) text = index_text(*verdict.index, verdict.index_is_whole);
      }
      calls.texts.emplace(std::pair(rank, std::string_view(node.name)), std::move(text));
    }
  }

  // Of the step that was written last.
  void link_step() {
    for (const auto& [source, calls] : std::exchange(calls_, {})) {
      const auto text_of = [&calls = calls](int rank, std::string_view node) {
        const auto found = calls.texts.find({rank, node});
        return found == calls.texts.end() ? std::string("Nan") : found->second;
      };
      std::map<std::pair<int, NodeId>, std::string_view> names;
      for (const CommunicationCalls& rank : calls.ranks) {
        for (const CommunicationCalls::Node& node : rank.nodes)
          names.emplace(std::pair(rank.rank, node.id), node.name);
      }
      for (const Link& link : link_calls(calls.ranks)) {
        const std::string graph =
            source + "_" + std::to_string(step_) + "_" + std::to_string(link.rank) + "_";
        database_->set_distributed(graph + std::string(names.at({link.rank, link.node})),
                                   matched_distributed_json(link, text_of));
      }
    }
  }

  // ---- Counting

  void count(const Prepared& prepared, const GraphRows& rows, std::size_t reference_unmatched) {
    ++summary_.graphs;
    summary_.nodes += rows.size();
    summary_.unmatched += rows.whole().unmatched;
    summary_.reference_unmatched += reference_unmatched;
    const auto& target = prepared.target;
    micro_steps_ = std::max(
        {micro_steps_, target.micro_steps(), prepared.reference ? prepared.reference->micro_steps() : 1});
    steps_.push_back(target.step());
    ranks_.push_back(target.rank());
    if (const double worst = rows.whole().worst_ulps.value_or(0); worst > summary_.worst_ulps) {
      summary_.worst_ulps = worst;
      summary_.worst_node = target[rows.whole().worst_node].name;
    }
    if (!prepared.comparison) return;
    const Mode mode = prepared.comparison->mode;
    if (summary_.graphs > 1 && mode != summary_.mode) {
      throw InvalidArgument("cannot write ranks of different tasks into one file: " +
                            target.dumps().front()->trace.path().string());
    }
    summary_.mode = mode;
    const std::size_t colours = colours_of(mode).size();
    if (colours > 0) summary_.worst += rows.whole().colours[colours - 1];
  }

  FileConfig config() const {
    const auto list = [](const std::vector<int>& numbers) {
      std::vector<int> seen;
      std::string json = "[";
      for (const int number : numbers) {
        if (std::find(seen.begin(), seen.end(), number) != seen.end()) continue;
        if (!seen.empty()) json += ", ";
        json += std::to_string(number);
        seen.push_back(number);
      }
      return json + "]";
    };
    const GraphUnit& first = job_.units.front();
    return {.is_comparison = is_comparison(),
            .mode = summary_.mode,
            .overflow_check = job_.overflow_check,
            .micro_steps = micro_steps_,
            .rank_list = list(ranks_),
            .step_list = list(steps_),
            .target = first.target.front().path.string(),
            .reference = first.reference.empty() ? std::string() : first.reference.front().path.string()};
  }

  void report(std::size_t work) {
    written_ += work;
    advance(work);
  }

  void advance(std::size_t work) {
    if (!job_.progress) return;
    done_ += work;
    if (!job_.progress(done_, job_.units.size() * (kReading + kWriting))) {
      throw InvalidArgument("the graph was cancelled");
    }
  }

  const GraphJob& job_;
  ThreadPool pool_;
  const std::size_t in_flight_;
  GraphDatabase* database_ = nullptr;
  std::mutex mutex_;  // of summary_.without_stacks
  GraphSummary summary_;
  std::int32_t micro_steps_ = 1;
  std::map<std::string, StepCalls> calls_;  // by side, of the step that is written
  int step_ = -1;
  std::vector<int> steps_, ranks_;
  std::exception_ptr first_error_;  // of a rank that was left out
  std::size_t done_ = 0;
  std::size_t written_ = 0;  // of the unit
  double work_per_row_ = 0;
  std::future<void> releasing_;  // the memory of the unit that was written last
};

}  // namespace

GraphSummary write_graph_file(const GraphJob& job) { return Job(job).run(); }

}  // namespace msprobe::graph
