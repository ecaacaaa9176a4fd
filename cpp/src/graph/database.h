// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "msprobe/graph.h"
#include "msprobe/graph_file.h"

/// The one place that knows how a file of graphs is written.
namespace msprobe::graph {

/// A row of tb_nodes, and that of msprobe_nodes which belongs to it. Texts are borrowed or owned, as it
/// comes.
struct NodeRow {
  std::string id;
  std::uint32_t order = 0;
  std::string_view name;
  NodeKind kind = NodeKind::kModule;
  std::string_view parent;
  std::string children;  // JSON list; empty: none
  std::optional<double> index;
  std::string_view overflow;  // empty: none
  std::int32_t micro_step = 0;
  std::string link;  // JSON list
  std::string stack_id;
  std::string notes;  // JSON list; empty: none
  std::string inputs, outputs;

  std::string_view counterpart;  // empty: none
  std::string_view how;          // empty: none
  std::string reason;            // empty: none
  std::optional<double> input_ulps, output_ulps, weight_ulps, gradient_ulps, worst_ulps;
  std::string_view worst_node;
  std::optional<double> worst_index;
  std::uint32_t nodes = 0, unmatched = 0;
  std::string colours;              // JSON list
  std::string_view worst_overflow;  // empty: none
};

/// What all rows of a graph share.
struct GraphKey {
  std::string id;             // "NPU_0_0"
  std::string_view source;    // "NPU", "Bench"
  std::string dump_data_dir;  // empty: none
  int step = 0;
  int rank = 0;
};

/// The row of tb_config, and that of msprobe_info.
struct FileConfig {
  bool is_comparison = false;
  Mode mode = Mode::kStatistics;
  bool overflow_check = false;
  std::int32_t micro_steps = 1;
  std::string rank_list, step_list;  // JSON lists
  std::string target, reference;     // folders
};

/// Writes a file: complete in commit(), or not at all. One thread at a time. Throws IoError, and FormatError
/// where two nodes have one name.
///
/// All graphs come first. Their indices are made when they are complete.
class GraphDatabase {
 public:
  explicit GraphDatabase(const std::filesystem::path& path);
  ~GraphDatabase();
  GraphDatabase(const GraphDatabase&) = delete;
  GraphDatabase& operator=(const GraphDatabase&) = delete;

  /// What is added next is of this graph.
  void begin_graph(const GraphKey& graph);
  void add_stack(std::string_view id, std::string_view frames);
  void add_nodes(std::span<const NodeRow> rows);
  /// The column matched_distributed of a row that is there.
  void set_distributed(std::string_view id, std::string_view json);
  /// Once, after all graphs.
  void end_graphs();
  void add_finding(const Finding& finding);
  /// What comes after all rows.
  void finish(const FileConfig& config);
  /// Gives the file its name; after finish().
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::graph
