// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Files of graphs, `.vis.db`: a database of the nodes of one run, or of two that were compared. Tables and
/// columns: docs/formats/graph.md.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/trace.h"

namespace msprobe::graph {

/// Which node of the target belongs to which of the reference.
enum class MatchRule : std::uint8_t {
  kDefault,  // same name, same place, and as many inputs and outputs of the same types and shapes
  kFuzzy,    // modules by name; calls in them by the operator's name and their order; types do not count
  kMapped    // by MatchOptions::names
};

/// By class of a layer of the target side: the path of a part inside it, and what that part is called on the
/// reference side. {"Block": {("mlp", "ffn")}}. "TopLayer" is the model itself. Only names that differ need a
/// rule. Paths are parts joined by dots: "linear_attn.qkv", "language_model.encoder".
using LayerRules = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

/// How a model is cut over ranks, in the words of Megatron. What is left of rank_size / (tp * pp * cp) are
/// copies of the model, each with data of its own (data parallelism).
struct ParallelLayout {
  int rank_size = 1;
  int tp = 1;   // tensor parallelism: parts of each layer
  int pp = 1;   // pipeline parallelism: groups of layers
  int vpp = 1;  // groups of layers on each rank of a pipeline
  int cp = 1;   // context parallelism: parts of each sequence
  int ep = 1;   // expert parallelism: ranks, copies of the model else, that share the experts
  /// How ranks are numbered: the first name varies fastest.
  std::string order = "tp-cp-ep-dp-pp";
  /// The ranks are joined by what the dumps say of the placement of DTensors, whatever the sizes above.
  bool by_placements = false;
};

using trace::Mode;

/// The folder of one rank.
struct RankFolder {
  int rank = 0;
  std::filesystem::path path;
};

/// What is read together: one rank of a step, or all of them where they are merged.
struct GraphUnit {
  int step = 0;
  std::vector<RankFolder> target;
  std::vector<RankFolder> reference;  // empty: graphs alone
};

/// Where a difference may begin, for the table msprobe_findings.
struct Finding {
  int step = 0;
  int rank = 0;
  std::string node;
  std::string sentence;
  std::string chinese;  // the same sentence; empty: there is none
  std::string sum;      // what is allowed at this place and what was found, in lines; empty: no distance
  bool is_of_reference = false;  // `node` is one of the reference
};

struct GraphJob {
  /// In the order of the file. All with `reference`, or none; without layouts of one rank each.
  std::vector<GraphUnit> units;
  /// The ranks of each unit become one graph per replica.
  bool merge = false;
  /// With `merge`: how the ranks of the sides were split; nothing: found out from what they send each other.
  std::optional<ParallelLayout> target_layout, reference_layout;
  /// The file to write; it must not be there yet.
  std::filesystem::path output;
  MatchRule rule = MatchRule::kDefault;
  /// Of kMapped: which layers have other names in the reference; nothing: equal names only.
  std::optional<LayerRules> layer_rules;
  bool overflow_check = false;
  unsigned threads = 0;  // 0: all cores
  /// Asked once, in the thread of the caller, when all graphs are written: until then they may still be
  /// looked for. What it throws ends the job. Empty: there are none.
  std::function<std::vector<Finding>()> findings;
  /// Called with the work done and all of it, from any thread, one call at a time; false ends the job with
  /// InvalidArgument.
  std::function<bool(std::size_t, std::size_t)> progress;
};

/// A rank of which there is no graph, as it cannot be read.
struct LeftOutRank {
  int step = 0;
  int rank = 0;
  std::string reason;
};

/// Counts of a job, for a person.
struct GraphSummary {
  Mode mode = Mode::kStatistics;
  std::size_t graphs = 0;                   // of the target
  std::size_t nodes = 0;                    // of the target
  std::size_t unmatched = 0;                // of these
  std::size_t reference_unmatched = 0;      // of the nodes of the reference
  std::size_t worst = 0;                    // nodes in the last interval of colours
  double worst_ulps = 0;                    // largest distance of a node to its counterpart; may be infinite
  std::string worst_node;                   // the first that has it
  std::vector<std::string> without_stacks;  // folders that have no stack.json
  std::vector<LeftOutRank> left_out;
};

/// Builds the graphs of all ranks, compares them where there is a reference, and writes the file: complete,
/// or not at all. Memory: two ranks of both sides, whatever their number.
///
/// A rank that cannot be read is left out; where none can be, or ranks are merged, its error is thrown.
/// Throws InvalidArgument, FormatError and IoError that name the file and the key.
MSPROBE_API GraphSummary write_graph_file(const GraphJob& job);

}  // namespace msprobe::graph
