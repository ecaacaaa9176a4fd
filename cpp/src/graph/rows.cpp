// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/rows.h"

#include "graph/legend.h"
#include "trace/json/json_text.h"

namespace msprobe::graph {
namespace {

template <typename Texts, typename TextOf>
std::string json_list(const Texts& texts, const TextOf& text_of) {
  std::string json = "[";
  for (const auto& one : texts) {
    if (json.size() > 1) json += ", ";
    trace::append_json_string(json, text_of(one));
  }
  return json + "]";
}

std::string json_list(std::span<const std::string> texts) {
  return json_list(texts, [](const std::string& text) { return std::string_view(text); });
}

std::string counts_json(const Aggregate& aggregate, std::size_t colours) {
  std::string json = "[";
  for (std::size_t i = 0; i < colours; ++i) {
    if (i > 0) json += ", ";
    json += std::to_string(aggregate.colours[i]);
  }
  return json + "]";
}

}  // namespace

GraphRows::GraphRows(const Graph& graph, const Graph* other, const Comparison* comparison,
                     const MatchOptions& match, bool is_reference, bool shows_md5)
    : graph_(graph),
      other_(other),
      comparison_(comparison),
      match_(match),
      is_reference_(is_reference),
      shows_md5_(shows_md5),
      order_(graph.post_order()),
      aggregates_(aggregate(graph, comparison, is_reference)) {
  key_.source = is_reference ? "Bench" : "NPU";
  key_.step = graph.step();
  key_.rank = graph.rank();
  key_.id = std::string(key_.source) + "_" + std::to_string(key_.step) + "_" + std::to_string(key_.rank);
  key_.dump_data_dir = graph.dumps().front()->trace.dump_data_dir();
  collect_stacks();
  if (!is_reference || comparison == nullptr) return;
  reference_counterpart_.assign(graph.nodes().size(), kNoNode);
  for (NodeId node = 0; node < comparison->counterparts.size(); ++node) {
    if (const NodeId reference = comparison->counterparts[node].node; reference != kNoNode) {
      reference_counterpart_[reference] = node;
    }
  }
}

void GraphRows::collect_stacks() {
  std::unordered_map<const std::string*, std::uint32_t> by_place;  // most nodes share their frames
  std::unordered_map<std::string, std::uint32_t> by_text;
  stack_of_.reserve(order_.size());
  for (const NodeId node : order_) {
    const auto stack = graph_[node].stack;
    const std::string* const place = stack.empty() ? nullptr : stack.data();
    auto [found, is_new] = by_place.try_emplace(place, 0);
    if (is_new) {
      const auto [known, is_other] =
          by_text.try_emplace(json_list(stack), static_cast<std::uint32_t>(stacks_.size()));
      if (is_other) stacks_.push_back(known->first);
      found->second = known->second;
    }
    stack_of_.push_back(found->second);
  }
}

std::string GraphRows::link_of(NodeId other) const {
  if (other == kNoNode) return "[]";
  return json_list(other_->path(other), [this](NodeId node) { return (*other_)[node].name; });
}

std::vector<NodeRow> GraphRows::make(std::size_t begin, std::size_t end) const {
  std::vector<NodeRow> rows;
  rows.reserve(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    const NodeId id = order_[i];
    const Node& node = graph_[id];
    NodeRow& row = rows.emplace_back();
    row.id = key_.id + "_";
    row.id += node.name;
    row.order = static_cast<std::uint32_t>(i);
    row.name = node.name;
    row.kind = node.kind;
    if (node.parent != kNoNode) row.parent = graph_[node.parent].name;
    if (!node.children.empty()) {
      row.children = json_list(node.children, [this](NodeId child) { return graph_[child].name; });
    }
    row.micro_step = id == Graph::kRoot ? 0 : node.micro_step;
    row.link = "[]";
    row.stack_id = stack_id(stack_of_[i]);
    if (const auto notes = graph_.notes(id); !notes.empty()) row.notes = json_list(notes);
    append_cells(graph_, id, shows_md5_, is_reference_ ? nullptr : comparison_,
                 is_reference_ ? nullptr : other_, row.inputs, row.outputs);
    const Aggregate& below = aggregates_[id];
    row.nodes = below.nodes;
    row.unmatched = below.unmatched;
    row.colours = "[]";
    if (comparison_ != nullptr) fill_verdict(id, row);
  }
  return rows;
}

void GraphRows::fill_verdict(NodeId node, NodeRow& row) const {
  const NodeId match =
      is_reference_ ? comparison_->matches.of_reference[node] : comparison_->matches.of_target[node];
  row.link = link_of(match);
  if (match == kNoNode) row.reason = unmatched_reason(graph_, *other_, match_, node, is_reference_);
  const NodeId counterpart =
      is_reference_ ? reference_counterpart_[node] : comparison_->counterparts[node].node;
  if (counterpart != kNoNode) {
    row.counterpart = (*other_)[counterpart].name;
    row.how = trace::match_name(comparison_->counterparts[is_reference_ ? counterpart : node].how);
  }
  if (is_reference_) return;
  const NodeVerdict& verdict = comparison_->verdicts[node];
  row.index = verdict.index;
  row.input_ulps = verdict.input_ulps;
  row.output_ulps = verdict.output_ulps;
  row.weight_ulps = verdict.weight_ulps;
  row.gradient_ulps = verdict.gradient_ulps;
  const Aggregate& below = aggregates_[node];
  row.worst_ulps = below.worst_ulps;
  if (below.worst_node != kNoNode) row.worst_node = graph_[below.worst_node].name;
  row.worst_index = below.worst_index;
  row.colours = counts_json(below, colours_of(comparison_->mode).size());
}

}  // namespace msprobe::graph
