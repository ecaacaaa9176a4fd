// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/mesh.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "graph/merge/collections.h"
#include "graph/merge/differentiated.h"
#include "graph/merge/merged_data.h"
#include "graph/merge/placement.h"
#include "graph/merge/shards.h"
#include "msprobe/engines.h"
#include "msprobe/error.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

// ---- Which ranks share meshes

// The meshes that a rank has tensors on, one tensor of each.
std::vector<PlacedTensor> meshes_of(const Graph& graph) {
  const trace::Trace& trace = graph.dumps().front()->trace;
  std::vector<PlacedTensor> meshes;
  if (!trace.has_placements()) return meshes;
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const trace::Item& item : trace.all_items()) {
    const trace::TensorPlacement* const placement = trace.placement(item);
    if (placement == nullptr ||
        !seen.emplace(trace.text(placement->mesh), trace.text(placement->mesh_dims)).second)
      continue;
    if (auto placed = parse_placement(trace, *placement)) meshes.push_back(std::move(*placed));
  }
  // The whole mesh first, then its parts.
  std::stable_sort(meshes.begin(), meshes.end(), [](const PlacedTensor& a, const PlacedTensor& b) {
    return a.axes.size() > b.axes.size();
  });
  return meshes;
}

class MeshFinder {
 public:
  explicit MeshFinder(const std::vector<Graph>& ranks) : owner_(ranks.size()) {
    std::iota(owner_.begin(), owner_.end(), std::size_t{0});
    for (const Graph& graph : ranks) meshes_.push_back(meshes_of(graph));
    std::map<std::string_view, std::size_t> first;
    for (std::size_t rank = 0; rank < meshes_.size(); ++rank) {
      for (const PlacedTensor& mesh : meshes_[rank]) {
        const std::size_t other = first.try_emplace(mesh.mesh, rank).first->second;
        owner_[root(rank)] = root(other);
      }
    }
  }

  std::vector<Mesh> find() {
    std::map<std::size_t, std::size_t> number;  // by root, in the order of the first rank
    std::vector<Mesh> found;
    for (std::size_t rank = 0; rank < owner_.size(); ++rank) {
      const auto [place, is_new] = number.try_emplace(root(rank), found.size());
      if (is_new) found.emplace_back();
      found[place->second].ranks.push_back(rank);
    }
    for (Mesh& mesh : found) {
      if (mesh.ranks.size() > 1) place_ranks(mesh);
    }
    return found;
  }

 private:
  std::size_t root(std::size_t rank) const {
    while (owner_[rank] != rank) rank = owner_[rank];
    return rank;
  }

  // Axes are added, those of large meshes first, until no two ranks have the same place.
  void place_ranks(Mesh& mesh) const {
    mesh.coordinates.assign(mesh.ranks.size(), {});
    for (const std::size_t rank : mesh.ranks) {
      for (const PlacedTensor& placed : meshes_[rank]) {
        for (std::size_t i = 0; i < placed.axes.size() && !are_apart(mesh); ++i) {
          const auto is_known = [&](const MeshAxis& axis) { return axis.name == placed.axes[i]; };
          if (std::none_of(mesh.axes.begin(), mesh.axes.end(), is_known))
            add_axis(mesh, {placed.axes[i], placed.sizes[i]});
        }
      }
    }
    std::size_t places = 1;
    for (const MeshAxis& axis : mesh.axes) places *= axis.size;
    if (!are_apart(mesh) || places != mesh.ranks.size())
      refuse(mesh, "do not give each rank a place of its own");
    std::vector<std::size_t> order(mesh.ranks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return mesh.coordinates[a] < mesh.coordinates[b]; });
    Mesh sorted = {.axes = std::move(mesh.axes), .ranks = {}, .coordinates = {}};
    for (const std::size_t i : order) {
      sorted.ranks.push_back(mesh.ranks[i]);
      sorted.coordinates.push_back(std::move(mesh.coordinates[i]));
    }
    mesh = std::move(sorted);
  }

  static bool are_apart(const Mesh& mesh) {
    const std::set<std::vector<std::size_t>> places(mesh.coordinates.begin(), mesh.coordinates.end());
    return places.size() == mesh.ranks.size();
  }

  void add_axis(Mesh& mesh, MeshAxis axis) const {
    for (std::size_t i = 0; i < mesh.ranks.size(); ++i) {
      std::optional<std::size_t> place;
      for (const PlacedTensor& placed : meshes_[mesh.ranks[i]]) {
        const auto found = std::find(placed.axes.begin(), placed.axes.end(), axis.name);
        if (found == placed.axes.end()) continue;
        const auto at = static_cast<std::size_t>(found - placed.axes.begin());
        if (placed.sizes[at] != axis.size || placed.coordinate[at] >= axis.size ||
            (place && *place != placed.coordinate[at]))
          refuse(mesh, "say different things of the dimension \"" + axis.name + "\"");
        place = placed.coordinate[at];
      }
      if (!place) {
        refuse(mesh, "have no dimension \"" + axis.name + "\" on rank " + std::to_string(mesh.ranks[i]) +
                         ", which others have");
      }
      mesh.coordinates[i].push_back(*place);
    }
    mesh.axes.push_back(std::move(axis));
  }

  [[noreturn]] static void refuse(const Mesh& mesh, const std::string& problem) {
    const std::vector<int> ranks(mesh.ranks.begin(), mesh.ranks.end());
    throw InvalidArgument("cannot merge ranks " + list_of(ranks) + ": the device meshes of their DTensors " +
                          problem);
  }

  std::vector<std::vector<PlacedTensor>> meshes_;  // by rank
  std::vector<std::size_t> owner_;                 // union-find by rank
};

// ---- Their data

std::string title_of(const Mesh& mesh) {
  std::string title = "device mesh(";
  for (const MeshAxis& axis : mesh.axes) {
    if (&axis != &mesh.axes.front()) title += ", ";
    title += axis.name + "=" + std::to_string(axis.size);
  }
  return title + ")";
}

class MeshMerge {
 public:
  MeshMerge(const Mesh& mesh, const Shards& shards)
      : mesh_(mesh), graph_(shards.main), merge_(shards, title_of(mesh)), title_(title_of(mesh)) {
    graphs_.push_back(&shards.main);
    graphs_.insert(graphs_.end(), shards.others.begin(), shards.others.end());
    const std::vector<int> ranks(mesh.ranks.begin(), mesh.ranks.end());
    ranks_ = list_of(ranks);
  }

  void merge() {
    // The backward pass first: it looks at the forward pass as the ranks recorded it.
    for (const bool backward : {true, false}) {
      for (const NodeId node : graph_.post_order()) {
        const bool is_forward = trace::RecordName(graph_[node].name).is_forward();
        if (is_forward != backward && may_hold_parts(graph_, node) && merge_.is_everywhere(node))
          merge_node(node, backward);
      }
    }
  }

 private:
  using Section = std::vector<Parameter> NodeData::*;
  // A tensor on each rank of the mesh.
  using Tensors = std::vector<Parameter*>;

  std::vector<NodeData> read(NodeId node) const {
    std::vector<NodeData> data(graphs_.size());
    for (std::size_t i = 0; i < graphs_.size(); ++i)
      graphs_[i]->read_data(i == 0 ? node : merge_.counterpart(node, i - 1), data[i]);
    return data;
  }

  // Empty when a rank lacks it.
  static Tensors tensors_at(std::vector<NodeData>& data, Section section, std::size_t position) {
    Tensors tensors = {&(data[0].*section)[position]};
    for (std::size_t i = 1; i < data.size(); ++i) {
      const Parameter* const same = find_same(data[i].*section, *tensors[0], position);
      if (same == nullptr) return {};
      tensors.push_back(const_cast<Parameter*>(same));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    }
    return tensors;
  }

  void merge_node(NodeId node, bool backward) {
    std::vector<NodeData> data = read(node);
    std::vector<std::string> merge_notes;
    std::vector<std::string> other_notes;
    for (const Section section : {&NodeData::inputs, &NodeData::outputs}) {
      for (std::size_t position = 0; position < (data[0].*section).size(); ++position) {
        const Tensors tensors = tensors_at(data, section, position);
        if (tensors.empty() || !any_has_statistics(tensors)) continue;
        const std::string label = label_of(graph_, node, *tensors[0]);
        std::vector<Spread> spreads;
        for (std::size_t axis = 0; axis < mesh_.axes.size(); ++axis) {
          spreads.push_back(
              spread_along(axis, tensors, node, backward && section == &NodeData::inputs, backward));
          note_spread(axis, tensors, spreads.back(), label, other_notes);
        }
        Tensors parts = parts_of(tensors, spreads);
        if (parts.size() > 1) merge_parts(parts, label, merge_notes);
      }
    }
    if (merge_notes.empty() && other_notes.empty()) return;
    NodeData& merged = data[0];
    if (!merge_notes.empty()) merged.notes.push_back(merge_note(title_, ranks_));
    merged.notes.insert(merged.notes.end(), merge_notes.begin(), merge_notes.end());
    merged.notes.insert(merged.notes.end(), other_notes.begin(), other_notes.end());
    graph_.set_data(node, std::move(merged));
  }

  static bool any_has_statistics(const Tensors& tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const Parameter* tensor) { return statistics_of(*tensor).has_value(); });
  }

  // What a tensor says of itself; else copies are known by being equal, and gradients of copies are summands.
  Spread spread_along(std::size_t axis, const Tensors& tensors, NodeId node, bool of_results, bool backward) {
    if (const Spread spread = said_spread(axis, *tensors[0]); spread != Spread::kUnknown) return spread;
    if (agree_along(axis, tensors)) return Spread::kCopies;
    if (tensors[0]->item->part == trace::Item::Part::kGradients) return Spread::kSummands;
    return backward && is_gradient_of_copy(axis, node, *tensors[0], of_results) ? Spread::kSummands
                                                                                : Spread::kParts;
  }

  Spread said_spread(std::size_t axis, const Parameter& tensor) const {
    return spread_of(said_placement(axis, tensor));
  }

  // Empty: it says nothing of this axis.
  std::string said_placement(std::size_t axis, const Parameter& tensor) const {
    const trace::TensorPlacement* const placement = tensor.trace->placement(*tensor.item);
    const auto placed = placement == nullptr ? std::nullopt : parse_placement(*tensor.trace, *placement);
    return std::string(placed ? placed->along(mesh_.axes[axis].name) : std::string_view());
  }

  // Whether tensors agree that lie at places which differ in this axis only.
  bool agree_along(std::size_t axis, const Tensors& tensors) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (mesh_.coordinates[i][axis] == 0) continue;
      const Parameter& first = *tensors[i - mesh_.coordinates[i][axis] * stride(axis)];
      if (!agree(first, tensors[i], kRounding) || (statistics_of(*tensors[i]) && !statistics_of(first)))
        return false;
    }
    return true;
  }

  // Between neighbours along an axis, in the order of the ranks.
  std::size_t stride(std::size_t axis) const {
    std::size_t result = 1;
    for (std::size_t i = axis + 1; i < mesh_.axes.size(); ++i) result *= mesh_.axes[i].size;
    return result;
  }

  // What comes into a backward call are gradients of the results, what comes out those of the arguments.
  bool is_gradient_of_copy(std::size_t axis, NodeId node, const Parameter& gradient, bool of_results) {
    const NodeId forward = forward_node(graph_, graph_[node].name);
    if (forward == kNoNode || !merge_.is_everywhere(forward)) return false;
    std::vector<NodeData> data = read(forward);
    const Section section = of_results ? &NodeData::outputs : &NodeData::inputs;
    const auto position = find_differentiated(data[0].*section, gradient);
    if (!position) return false;
    const Tensors values = tensors_at(data, section, *position);
    if (values.empty()) return false;
    const Spread said = said_spread(axis, *values[0]);
    return said == Spread::kUnknown ? agree_along(axis, values) : said == Spread::kCopies;
  }

  void note_spread(std::size_t axis, const Tensors& tensors, Spread spread, const std::string& label,
                   std::vector<std::string>& notes) const {
    const std::string where = " along \"" + mesh_.axes[axis].name + "\" of the device mesh";
    if (spread == Spread::kSummands) {
      notes.push_back(summands_note(ranks_, label + where));
    } else if (spread == Spread::kStrange) {
      notes.push_back(strange_note(ranks_, label + where, said_placement(axis, *tensors[0])));
    } else if (spread == Spread::kCopies && !agree_along(axis, tensors)) {
      notes.push_back("The ranks " + ranks_ + " should hold the same " + label + where +
                      ", but their statistics differ; those of the first are shown.");
    }
  }

  // One of each set of copies or summands, and of what nobody knows how to merge.
  Tensors parts_of(const Tensors& tensors, const std::vector<Spread>& spreads) const {
    Tensors parts;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      bool is_first = true;
      for (std::size_t axis = 0; axis < spreads.size(); ++axis)
        is_first = is_first && (spreads[axis] == Spread::kParts || mesh_.coordinates[i][axis] == 0);
      if (is_first) parts.push_back(tensors[i]);
    }
    return parts;
  }

  const Mesh& mesh_;
  Graph& graph_;
  ShardMerge merge_;
  std::string title_;
  std::string ranks_;
  std::vector<const Graph*> graphs_;  // in the order of mesh_.ranks
};

void take_names_without_fsdp(Graph& graph) {
  constexpr std::string_view kMark = engines::kShardedClass;
  std::vector<std::pair<NodeId, std::string>> names;
  for (const NodeId node : graph.post_order()) {
    const trace::RecordName name(graph[node].name);
    const std::string_view type = name.type();
    if (graph[node].kind != NodeKind::kModule || !type.starts_with(kMark) || type == kMark) continue;
    std::string own(name.text());
    names.emplace_back(node, own.erase(name.callee().size() - type.size(), kMark.size()));
  }
  graph.rename(names);
}

}  // namespace

std::vector<Mesh> find_meshes(const std::vector<Graph>& ranks) { return MeshFinder(ranks).find(); }

void merge_mesh(const Mesh& mesh, std::vector<Graph>& ranks) {
  Graph& main = ranks[mesh.ranks.front()];
  std::vector<const Graph*> others;
  std::int32_t micro_steps = main.micro_steps();
  for (std::size_t i = 1; i < mesh.ranks.size(); ++i) {
    others.push_back(&ranks[mesh.ranks[i]]);
    micro_steps = std::max(micro_steps, others.back()->micro_steps());
  }
  join_collections(main, others);
  if (others.empty()) return;
  const Shards shards = {
      .main = main, .others = others, .counterpart_of_rank = [](std::size_t, int rank) { return rank; }};
  MeshMerge(mesh, shards).merge();
  take_names_without_fsdp(main);
  main.set_micro_steps(micro_steps);
}

}  // namespace msprobe::graph
