// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The hierarchy of what a rank recorded in a step: modules, the calls of operators in them, and which node
/// of one run belongs to which of another. Rules: docs/formats/graph.md. Files of graphs: graph_file.h.

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/graph_file.h"
#include "msprobe/trace_compare.h"
#include "msprobe/trace_match.h"
#include "msprobe/trace_reader.h"

namespace msprobe::graph {

// ---- What is read

/// What one rank recorded in one step: the files of one folder.
struct Dump {
  trace::Trace trace;
  trace::Construct construct;  // empty for level L1
  trace::Stacks stacks;        // empty where stack.json is missing
  int step = 0;
  int rank = 0;
};

/// Reads dump.json, construct.json and stack.json of `folder`. Without stack.json there are no stacks;
/// without construct.json, or with an empty one, build() groups calls by their stacks. Throws what
/// trace::read_trace() does.
MSPROBE_API Dump read_dump(const std::filesystem::path& folder, int step = 0, int rank = 0);

// ---- Nodes

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xffffffff;

/// The numbers are those of the files.
enum class NodeKind : std::uint8_t {
  kModule = 0,
  kCall = 1,       // of an operator
  kCollection = 9  // calls between modules, joined
};

/// Max, min, mean, norm.
using Statistics = std::array<double, 4>;

/// An argument, result, parameter or gradient of a node.
struct Parameter {
  const trace::Trace* trace = nullptr;  // that of the rank it comes from
  const trace::Item* item = nullptr;
  /// In place of those of the item, where the tensors of several ranks were merged.
  std::optional<Statistics> merged;
};

/// What goes into a node and what comes out.
struct NodeData {
  std::vector<Parameter> inputs;  // arguments, then parameters of a module; or the gradients of parameters
  std::vector<Parameter> outputs;
  std::vector<std::string> notes;  // how they were merged
};

struct Node {
  static constexpr std::uint32_t kNoRecord = 0xffffffff;

  std::string_view name;
  NodeId parent = kNoNode;  // of the root, and of nodes that hang nowhere
  std::vector<NodeId> children;
  std::span<const std::string> stack;  // the innermost frame first
  std::uint32_t record = kNoRecord;    // in records() of its dump
  std::uint16_t source = 0;            // number of its dump in Graph::dumps()
  NodeKind kind = NodeKind::kModule;
  std::int32_t micro_step = 0;
};

/// A tree of nodes; node 0 is the root, "DefaultModel". Nodes that were taken out stay in nodes() without a
/// parent. Names are unique. Moving keeps texts.
class MSPROBE_API Graph {
 public:
  static constexpr NodeId kRoot = 0;

  explicit Graph(std::shared_ptr<const Dump> dump);
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;

  std::span<const Node> nodes() const noexcept { return nodes_; }
  const Node& operator[](NodeId node) const noexcept { return nodes_[node]; }
  Node& operator[](NodeId node) noexcept { return nodes_[node]; }
  NodeId find(std::string_view name) const noexcept;  // kNoNode: there is none

  /// A new node without a parent; its record and stack are those of `name` in the dump `source`, if that has
  /// them. `name` is not there yet.
  NodeId add(std::string_view name, NodeKind kind, std::uint16_t source = 0);
  /// A copy of a node of another graph with its data, under another name, without parent and children.
  /// `source`: number here of the dump it comes from. `name` is not there yet.
  NodeId add_copy(const Graph& other, NodeId node, std::string_view name, std::uint16_t source);
  /// Makes `child` the last child of `parent`; before, it has no parent.
  void attach(NodeId child, NodeId parent);
  /// Takes `child` from its parent; what is below it stays with it.
  void detach(NodeId child);
  /// Another name for a node; record and stack stay. `name` is not there yet.
  void rename(NodeId node, std::string_view name);
  /// The same for several nodes at once, which may take over names of each other. Whose new name another node
  /// has keeps the old one, with "_" behind it if that is gone too.
  void rename(std::span<const std::pair<NodeId, std::string>> names);
  /// A dump that nodes may come from; gives its number. At most 65536.
  std::uint16_t add_dump(std::shared_ptr<const Dump> dump);

  const std::vector<std::shared_ptr<const Dump>>& dumps() const noexcept { return dumps_; }
  const Dump& dump(NodeId node) const noexcept { return *dumps_[nodes_[node].source]; }

  /// Nodes below the root, children before their parents, the root last: the order of the files.
  std::vector<NodeId> post_order() const;
  /// From the root to `node`.
  std::vector<NodeId> path(NodeId node) const;

  /// What goes in and out of `node`, into `data`, whose content is dropped.
  void read_data(NodeId node, NodeData& data) const;
  /// Replaces what goes in and out of `node`.
  void set_data(NodeId node, NodeData data);
  /// How the data of `node` was merged; empty: it was not.
  std::span<const std::string> notes(NodeId node) const noexcept;

  int rank() const noexcept { return dumps_.front()->rank; }
  int step() const noexcept { return dumps_.front()->step; }
  /// Micro steps: complete passes forward and backward. At least 1.
  std::int32_t micro_steps() const noexcept { return micro_steps_; }
  void set_micro_steps(std::int32_t count) noexcept { micro_steps_ = count; }

 private:
  std::string_view keep(std::string_view name);

  std::vector<std::shared_ptr<const Dump>> dumps_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string_view, NodeId> by_name_;
  std::deque<std::string> names_;  // of nodes whose name stands in no dump
  std::unordered_map<NodeId, NodeData> data_;
  std::int32_t micro_steps_ = 1;
};

/// The name of a parameter: "Module.fc.Linear.forward.0.input.0", or that of its file. Follows a node that
/// was renamed.
MSPROBE_API void append_parameter_name(std::string& out, const Graph& graph, NodeId node,
                                       const Parameter& parameter);

// ---- Overflow

/// What a record says about NaN and infinities; the numbers grow with how much it should be looked at.
enum class OverflowLevel : std::uint8_t {
  kNone,
  kMedium,   // they go in, but do not come out
  kHigh,     // they go in and come out; or the output is more than 100 times as large as the input
  kCritical  // they come out, and none went in
};

// ---- Building

/// Builds the graph of a dump. Of level L1, calls are grouped by the function that called them, and forward
/// and backward stay apart. Throws FormatError with file and key for parents in a circle.
MSPROBE_API Graph build(const std::shared_ptr<const Dump>& dump);

// ---- Matching: which node of the target belongs to which of the reference

struct MatchOptions {
  MatchRule rule = MatchRule::kDefault;
  bool check_shapes = true;  // of kFuzzy
  /// Of kMapped: name of a target node -> that of one of the reference; "N/A": none. Names that it lacks
  /// stand for themselves.
  std::unordered_map<std::string, std::string> names;
};

/// For each node of one side its counterpart on the other; kNoNode: none.
struct NodeMatches {
  std::vector<NodeId> of_target;
  std::vector<NodeId> of_reference;
};

/// Pairs nodes by the rules of mindstudio-probe.
MSPROBE_API NodeMatches match_nodes(const Graph& target, const Graph& reference, const MatchOptions& options);

/// The counterpart of a target node by the alignment of trace_match.h, and how it was found.
struct Counterpart {
  NodeId node = kNoNode;
  trace::MatchKind how = trace::MatchKind::kNone;
};

/// Pairs nodes by alignment: also those whose names or places differ. Where the graphs are those of several
/// ranks, and for nodes without a record, `matches` is what counts. One for each target node.
MSPROBE_API std::vector<Counterpart> align_nodes(const Graph& target, const Graph& reference,
                                                 const NodeMatches& matches, MatchRule rule);

/// Numbers the micro steps of reference nodes after those of the target nodes at the top that they match.
MSPROBE_API void follow_micro_steps(const Graph& target, Graph& reference, const NodeMatches& matches);

// ---- Judging

using trace::Mode;

/// What a comparison says of a target node.
struct NodeVerdict {
  /// The precision index of mindstudio-probe: 0 is good and 1 is bad, of kMd5 the opposite. Nothing for
  /// nodes without a match or without data.
  std::optional<double> index;
  bool index_is_whole = true;  // mindstudio-probe stores a whole number: 0, or 1 for all above
  /// Distance to the counterpart of what goes in, comes out, and of parameters and their gradients; nothing:
  /// there is none to measure. See trace::Distance.
  std::optional<double> input_ulps, output_ulps, weight_ulps, gradient_ulps;
};

/// The elements of the tensors of one node against those of its match: inputs, then outputs; empty unless the
/// mode is kRealData.
using NodeMetrics = std::vector<trace::RealMetrics>;

/// Two graphs and how they differ.
struct Comparison {
  Mode mode = Mode::kStatistics;
  NodeMatches matches;
  std::vector<Counterpart> counterparts;  // by target node
  std::vector<NodeVerdict> verdicts;      // by target node
  std::vector<NodeMetrics> metrics;       // by target node; empty unless the mode is kRealData
};

struct CompareOptions {
  MatchOptions match;
  unsigned threads = 0;  // 0: all cores
};

/// Matches and judges. Changes the micro steps of `reference`. Throws what trace::common_mode() does.
MSPROBE_API Comparison compare(const Graph& target, Graph& reference, const CompareOptions& options = {});

// ---- What a reader wants to see first

inline constexpr std::size_t kMostColours = 5;

/// What a node and all nodes below it hold: what a collapsed module must not hide.
struct Aggregate {
  std::optional<double> worst_ulps;
  NodeId worst_node = kNoNode;
  std::optional<double> worst_index;
  std::uint32_t nodes = 0;
  std::uint32_t unmatched = 0;
  std::array<std::uint32_t, kMostColours> colours{};  // nodes in each interval of the index
};

/// One for each node. `comparison`: null for a graph alone. Of the reference (`is_reference`) only nodes are
/// counted, and those unmatched.
MSPROBE_API std::vector<Aggregate> aggregate(const Graph& graph, const Comparison* comparison,
                                             bool is_reference);

/// Which interval of the colours an index is in, from good (0) to bad. See docs/formats/graph.md.
MSPROBE_API std::size_t colour_of(Mode mode, double index);

/// Why a node of `graph` has no match in `other`: an English sentence. `is_reference`: `graph` is the
/// reference.
MSPROBE_API std::string unmatched_reason(const Graph& graph, const Graph& other, const MatchOptions& options,
                                         NodeId node, bool is_reference);

/// What is shown of the parameters of a node: JSON objects, name -> {field: text}, as in the files.
/// `comparison` and `reference`: null for a graph alone, and for the reference.
MSPROBE_API void append_cells(const Graph& graph, NodeId node, bool shows_md5, const Comparison* comparison,
                              const Graph* reference, std::string& inputs, std::string& outputs);

}  // namespace msprobe::graph
