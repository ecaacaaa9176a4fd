// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/database.h"
#include "io/sqlite_trees.h"

namespace msprobe::graph {

/// By the name of a table or an index, the page of its root.
using Roots = std::map<std::string, std::uint32_t, std::less<>>;

/// The tables whose rows are many, and their indices: pages of a file that SQLite has made and closed.
class GraphTrees {
 public:
  /// `shown`: what errors call the file.
  GraphTrees(const std::filesystem::path& file, const std::filesystem::path& shown, const Roots& roots);

  /// What is added next is of this graph.
  void begin_graph(const GraphKey& graph);
  void add_stack(std::string_view id, std::string_view frames);
  /// In their order. What the row borrows must live until end_unit().
  void add_node(const NodeRow& row);
  /// After the graphs of one step and rank.
  void end_unit();
  /// Now SQLite may have the file again.
  void finish();

 private:
  // What the indices need of a row.
  struct RowKeys {
    std::string_view name, parent;
    std::uint32_t order = 0;
    std::int32_t micro_step = 0;
    std::string_view link;
  };

  // Texts, kept close together.
  class Texts {
   public:
    std::string_view keep(std::string_view text);

   private:
    std::deque<std::string> blocks_;
  };

  struct GraphKeys {
    GraphKey graph;
    std::int64_t first_row = 0, first_stack = 0;
    std::deque<RowKeys> rows;
    std::vector<std::string> stacks;
    Texts links;
  };

  // A row of one of the graphs of a unit.
  struct UnitRow {
    const GraphKeys* keys = nullptr;
    std::uint32_t number = 0;

    const RowKeys& operator*() const { return keys->rows[number]; }
    std::int64_t row() const { return keys->first_row + number; }
  };

  // Where the keys of a graph or a unit belong in their index.
  struct Place {
    std::string id;  // of the graph, in an index of ids
    int step = 0, rank = 0;
    std::string source;

    auto operator<=>(const Place&) const = default;
  };

  // The keys of a graph or a unit follow each other in each index.
  struct Index {
    std::uint32_t root = 0;
    std::vector<std::pair<Place, io::sqlite::KeyRun>> runs;
  };

  using Numbers = std::vector<std::uint32_t>;

  void add_own(const NodeRow& row);
  void add_ids(const GraphKeys& keys, const Numbers& by_name);
  void add_graph(const GraphKeys& keys);
  template <typename Rows, typename SetKey>
  void add_run(Index& index, Place place, const Rows& rows, const SetKey& set_key);
  std::vector<UnitRow> rows_of_unit() const;
  static std::vector<UnitRow> sorted_by_link(const std::vector<UnitRow>& rows);
  void check_names(const GraphKeys& keys, const Numbers& by_name) const;
  void finish(Index& index);

  std::filesystem::path shown_;
  io::sqlite::PageFile file_;
  io::sqlite::RowTree nodes_, own_, stacks_;
  Index by_id_, own_by_id_, stacks_by_id_;
  // index1 to index6 of tb_nodes
  Index by_parent_, by_name_, by_order_of_side_, by_order_, by_micro_step_, by_link_;
  std::int64_t rows_ = 0, stack_rows_ = 0;
  std::set<std::string, std::less<>> graphs_;
  std::deque<GraphKeys> unit_;  // graphs keep their places
  io::sqlite::Record record_;
};

}  // namespace msprobe::graph
