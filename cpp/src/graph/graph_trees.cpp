// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_trees.h"

#include <algorithm>
#include <future>
#include <numeric>

#include "base/text_order.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"

namespace msprobe::graph {
namespace {

namespace sqlite = io::sqlite;
using sqlite::KeyRun;
using sqlite::KeyTree;

sqlite::Record& add_text_or_null(sqlite::Record& record, std::string_view text) {
  return text.empty() ? record.null() : record.text(text);
}

sqlite::Record& add_real_or_null(sqlite::Record& record, std::optional<double> value) {
  return value ? record.real(*value) : record.null();
}

template <typename Values, typename TextOf>
std::vector<std::uint32_t> order_of(const Values& values, const TextOf& text_of) {
  std::vector<std::string_view> texts;
  texts.reserve(values.size());
  for (const auto& value : values) texts.push_back(text_of(value));
  return text_order(texts);
}

template <typename Rows, typename KeyOf>
Rows sorted_by(const KeyOf& key_of, Rows rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return key_of(*a) < key_of(*b); });
  return rows;
}

}  // namespace

GraphTrees::GraphTrees(const std::filesystem::path& file, const std::filesystem::path& shown,
                       const Roots& roots)
    : shown_(shown),
      file_(file, shown),
      nodes_(file_, roots.at("tb_nodes")),
      own_(file_, roots.at("msprobe_nodes")),
      stacks_(file_, roots.at("tb_stack")),
      by_id_{.root = roots.at("sqlite_autoindex_tb_nodes_1"), .runs = {}},
      own_by_id_{.root = roots.at("sqlite_autoindex_msprobe_nodes_1"), .runs = {}},
      stacks_by_id_{.root = roots.at("sqlite_autoindex_tb_stack_1"), .runs = {}},
      by_parent_{.root = roots.at("index1"), .runs = {}},
      by_name_{.root = roots.at("index2"), .runs = {}},
      by_order_of_side_{.root = roots.at("index3"), .runs = {}},
      by_order_{.root = roots.at("index4"), .runs = {}},
      by_micro_step_{.root = roots.at("index5"), .runs = {}},
      by_link_{.root = roots.at("index6"), .runs = {}} {}

std::string_view GraphTrees::Texts::keep(std::string_view text) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < text.size()) {
    blocks_.emplace_back().reserve(std::max(kBlock, text.size()));
  }
  std::string& block = blocks_.back();
  block += text;
  return std::string_view(block).substr(block.size() - text.size());
}

// ---- Rows

void GraphTrees::begin_graph(const GraphKey& graph) {
  if (!graphs_.insert(graph.id).second) {
    throw FormatError(shown_.string(), io::in_quotes(graph.id), "found twice");
  }
  GraphKeys& keys = unit_.emplace_back();
  keys.graph = graph;
  keys.first_row = rows_ + 1;
  keys.first_stack = stack_rows_ + 1;
}

void GraphTrees::add_stack(std::string_view id, std::string_view frames) {
  record_.clear();
  stack_rows_ = stacks_.add(record_.text(id).text(frames));
  unit_.back().stacks.emplace_back(id);
}

void GraphTrees::add_node(const NodeRow& row) {
  GraphKeys& keys = unit_.back();
  const GraphKey& graph = keys.graph;
  record_.clear();
  record_.text(row.id)
      .text(graph.id)
      .integer(row.order)
      .text(row.name)
      .text(std::to_string(static_cast<int>(row.kind)))
      .text(row.parent)
      .text(row.children);
  add_real_or_null(record_, row.index);
  add_text_or_null(record_, row.overflow)
      .integer(row.micro_step)
      .text(row.link)
      .text(row.stack_id)
      .text(row.notes)
      .text("{}")
      .integer(0)
      .text(row.inputs)
      .text(row.outputs)
      .text(graph.source);
  add_text_or_null(record_, graph.dump_data_dir).integer(graph.step).integer(graph.rank);
  rows_ = nodes_.add(record_);
  add_own(row);
  keys.rows.push_back({.name = row.name,
                       .parent = row.parent,
                       .order = row.order,
                       .micro_step = row.micro_step,
                       .link = keys.links.keep(row.link)});
}

void GraphTrees::add_own(const NodeRow& row) {
  record_.clear();
  record_.text(row.id);
  for (const std::string_view text : {row.counterpart, row.how, std::string_view(row.reason)}) {
    add_text_or_null(record_, text);
  }
  for (const auto& ulps :
       {row.input_ulps, row.output_ulps, row.weight_ulps, row.gradient_ulps, row.worst_ulps}) {
    add_real_or_null(record_, ulps);
  }
  add_text_or_null(record_, row.worst_node);
  add_real_or_null(record_, row.worst_index);
  record_.integer(row.nodes).integer(row.unmatched).text(row.colours);
  own_.add(add_text_or_null(record_, row.worst_overflow));
}

// ---- Indices

// Sorting takes the longest: other threads do the rest of it meanwhile. The pages are made in one, so that
// their order is the same every time.
void GraphTrees::end_unit() {
  if (unit_.empty()) return;
  const GraphKey& graph = unit_.front().graph;
  const Place place{.id = {}, .step = graph.step, .rank = graph.rank, .source = {}};
  const std::vector<UnitRow> rows = rows_of_unit();
  auto by_link = std::async(std::launch::async, [&rows] { return sorted_by_link(rows); });
  for (const GraphKeys& keys : unit_) add_graph(keys);
  const auto begin = [&]() -> sqlite::Record& { return record_.integer(place.step).integer(place.rank); };
  const auto order = [](const RowKeys& row) { return row.order; };
  add_run(by_order_, place, sorted_by(order, rows),
          [&](const UnitRow& row) { begin().integer((*row).order).integer(row.row()); });
  const auto in_micro_step = [](const RowKeys& row) { return std::pair(row.micro_step, row.order); };
  add_run(by_micro_step_, place, sorted_by(in_micro_step, rows), [&](const UnitRow& row) {
    begin().integer((*row).micro_step).integer((*row).order).integer(row.row());
  });
  add_run(by_link_, place, by_link.get(),
          [&](const UnitRow& row) { begin().integer(0).text((*row).link).integer(row.row()); });
  unit_.clear();
}

void GraphTrees::add_graph(const GraphKeys& keys) {
  const GraphKey& graph = keys.graph;
  auto by_parent = std::async(std::launch::async, [&keys] {
    return order_of(keys.rows, [](const RowKeys& row) { return row.parent; });
  });
  const Numbers by_name = order_of(keys.rows, [](const RowKeys& row) { return row.name; });
  check_names(keys, by_name);
  add_ids(keys, by_name);
  const Place place{.id = {}, .step = graph.step, .rank = graph.rank, .source = std::string(graph.source)};
  const auto begin = [&]() -> sqlite::Record& {
    return record_.integer(graph.step).integer(graph.rank).text(graph.source);
  };
  add_run(by_name_, place, by_name,
          [&](std::uint32_t i) { begin().text(keys.rows[i].name).integer(keys.first_row + i); });
  add_run(by_parent_, place, by_parent.get(), [&](std::uint32_t i) {
    begin().text(keys.rows[i].parent).integer(keys.rows[i].order).integer(keys.first_row + i);
  });
  Numbers in_order(keys.rows.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  add_run(by_order_of_side_, place, in_order,
          [&](std::uint32_t i) { begin().integer(keys.rows[i].order).integer(keys.first_row + i); });
}

void GraphTrees::add_ids(const GraphKeys& keys, const Numbers& by_name) {
  const Place place{.id = keys.graph.id + "_", .step = 0, .rank = 0, .source = {}};
  for (Index* const index : {&by_id_, &own_by_id_}) {
    std::string id = place.id;
    add_run(*index, place, by_name, [&](std::uint32_t i) {
      id.resize(place.id.size());
      id += keys.rows[i].name;
      record_.text(id).integer(keys.first_row + i);
    });
  }
  const auto itself = [](const std::string& id) { return std::string_view(id); };
  add_run(stacks_by_id_, place, order_of(keys.stacks, itself),
          [&](std::uint32_t i) { record_.text(keys.stacks[i]).integer(keys.first_stack + i); });
}

template <typename Rows, typename SetKey>
void GraphTrees::add_run(Index& index, Place place, const Rows& rows, const SetKey& set_key) {
  KeyRun run(file_);
  for (const auto& row : rows) {
    record_.clear();
    set_key(row);
    run.add(record_);
  }
  run.finish();
  index.runs.emplace_back(std::move(place), std::move(run));
}

std::vector<GraphTrees::UnitRow> GraphTrees::rows_of_unit() const {
  std::vector<UnitRow> rows;
  for (const GraphKeys& keys : unit_) {
    for (std::uint32_t i = 0; i < keys.rows.size(); ++i) rows.push_back({&keys, i});
  }
  return rows;
}

std::vector<GraphTrees::UnitRow> GraphTrees::sorted_by_link(const std::vector<UnitRow>& rows) {
  std::vector<UnitRow> sorted;
  sorted.reserve(rows.size());
  for (const std::uint32_t i : order_of(rows, [](const UnitRow& row) { return (*row).link; })) {
    sorted.push_back(rows[i]);
  }
  return sorted;
}

void GraphTrees::check_names(const GraphKeys& keys, const Numbers& by_name) const {
  const auto same = std::adjacent_find(
      by_name.begin(), by_name.end(), [&](auto a, auto b) { return keys.rows[a].name == keys.rows[b].name; });
  if (same == by_name.end()) return;
  const std::string id = keys.graph.id + "_" + std::string(keys.rows[*same].name);
  throw FormatError(shown_.string(), io::in_quotes(id), "found twice");
}

void GraphTrees::finish() {
  nodes_.finish();
  own_.finish();
  stacks_.finish();
  for (Index* const index : {&by_id_, &own_by_id_, &stacks_by_id_, &by_parent_, &by_name_, &by_order_of_side_,
                             &by_order_, &by_micro_step_, &by_link_}) {
    finish(*index);
  }
  file_.close();
}

void GraphTrees::finish(Index& index) {
  std::sort(index.runs.begin(), index.runs.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  KeyTree tree(file_);
  for (auto& [place, run] : index.runs) tree.add(std::move(run));
  tree.finish(index.root);
}

}  // namespace msprobe::graph
