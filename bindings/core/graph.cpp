// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/graph.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "core.h"
#include "mode_name.h"
#include "msprobe/error.h"
#include "msprobe/graph_file.h"
#include "msprobe/graph_merge.h"
#include "progress.h"

namespace {

namespace graph = msprobe::graph;
using graph::NodeId;
using std::filesystem::path;

graph::MatchRule rule_of(const std::string& name) {
  if (name == "default") return graph::MatchRule::kDefault;
  if (name == "fuzzy") return graph::MatchRule::kFuzzy;
  if (name == "mapped") return graph::MatchRule::kMapped;
  throw msprobe::InvalidArgument("rule: expected default, fuzzy or mapped, found " + name);
}

// One rank of one run, or of two that were compared, in memory.
struct OpenGraph {
  graph::Graph target;
  std::optional<graph::Graph> reference;
  graph::MatchOptions match;
  graph::Comparison comparison;
  std::vector<graph::Aggregate> aggregates;

  const graph::Comparison* compared() const { return reference ? &comparison : nullptr; }
};

std::shared_ptr<OpenGraph> open_graph(const path& target, const std::optional<path>& reference,
                                      const std::string& rule, unsigned threads) {
  graph::MatchOptions match;
  match.rule = rule_of(rule);
  const py::gil_scoped_release no_gil;
  const auto read = [](const path& folder) {
    return graph::build(std::make_shared<graph::Dump>(graph::read_dump(folder)));
  };
  auto result = std::make_shared<OpenGraph>(
      OpenGraph{.target = read(target), .reference = {}, .match = match, .comparison = {}, .aggregates = {}});
  if (reference) {
    result->reference.emplace(read(*reference));
    result->comparison =
        graph::compare(result->target, *result->reference, {.match = match, .threads = threads});
  }
  result->aggregates = graph::aggregate(result->target, result->compared(), false);
  return result;
}

// A node of the target. Keeps its graph alive.
struct NodeView {
  std::shared_ptr<OpenGraph> of;
  NodeId id = 0;

  const graph::Node& node() const { return of->target[id]; }
  const graph::NodeVerdict* verdict() const { return of->reference ? &of->comparison.verdicts[id] : nullptr; }
};

std::optional<NodeView> view(const std::shared_ptr<OpenGraph>& of, NodeId node) {
  if (node == graph::kNoNode) return std::nullopt;
  return NodeView{of, node};
}

const char* kind_name(graph::NodeKind kind) {
  switch (kind) {
    case graph::NodeKind::kModule: return "module";
    case graph::NodeKind::kCall: return "call";
    case graph::NodeKind::kCollection: return "collection";
  }
  throw msprobe::InternalError("a node of unknown kind");
}

template <typename Member>
auto verdict_field(Member member) {
  return [member](const NodeView& self) -> std::optional<double> {
    return self.verdict() == nullptr ? std::nullopt : self.verdict()->*member;
  };
}

std::optional<std::string> reference_name(const NodeView& self, NodeId node) {
  if (node == graph::kNoNode) return std::nullopt;
  return std::string((*self.of->reference)[node].name);
}

std::vector<NodeView> nodes_in_order(const std::shared_ptr<OpenGraph>& self) {
  std::vector<NodeView> result;
  for (const NodeId node : self->target.post_order()) result.push_back({self, node});
  return result;
}

py::dict node_parameters(const NodeView& self) {
  std::string inputs, outputs;
  const auto* const compared = self.of->compared();
  const bool has_md5 = self.of->target.dumps().front()->trace.has_md5();
  graph::append_cells(self.of->target, self.id, has_md5, compared, compared ? &*self.of->reference : nullptr,
                      inputs, outputs);
  const py::object loads = py::module_::import("json").attr("loads");
  py::dict result = loads(inputs);
  result.attr("update")(loads(outputs));
  return result;
}

using Folders = std::vector<std::pair<int, path>>;             // rank, folder
using Units = std::vector<std::tuple<int, Folders, Folders>>;  // step, of the target, of the reference
using Layout = std::map<std::string, std::variant<int, std::string>>;
using Findings = std::vector<std::tuple<int, int, std::string, std::string, std::string, std::string, bool>>;

graph::ParallelLayout layout_of(const Layout& given) {
  graph::ParallelLayout layout;
  const std::map<std::string, int*> sizes = {{"rank_size", &layout.rank_size},
                                             {"tp", &layout.tp},
                                             {"pp", &layout.pp},
                                             {"vpp", &layout.vpp},
                                             {"cp", &layout.cp},
                                             {"ep", &layout.ep}};
  for (const auto& [key, value] : given) {
    const auto size = sizes.find(key);
    if (size != sizes.end() && std::holds_alternative<int>(value)) {
      *size->second = std::get<int>(value);
    } else if (key == "order" && std::holds_alternative<std::string>(value)) {
      layout.order = std::get<std::string>(value);
    } else {
      throw msprobe::InvalidArgument("layout: expected sizes and an order, found " + key);
    }
  }
  return layout;
}

graph::GraphSummary write_graph_file(const Units& units, const path& output, const std::string& rule,
                                     bool merge, const std::optional<Layout>& target_layout,
                                     const std::optional<Layout>& reference_layout,
                                     const std::optional<graph::LayerRules>& layer_rules, bool overflow_check,
                                     unsigned threads, const std::optional<py::function>& findings,
                                     const std::optional<py::function>& progress) {
  graph::GraphJob job;
  const auto folders_of = [](const Folders& folders) {
    std::vector<graph::RankFolder> result;
    for (const auto& [rank, folder] : folders) result.push_back({rank, folder});
    return result;
  };
  for (const auto& [step, target, reference] : units) {
    job.units.push_back({step, folders_of(target), folders_of(reference)});
  }
  job.merge = merge;
  if (target_layout) job.target_layout = layout_of(*target_layout);
  if (reference_layout) job.reference_layout = layout_of(*reference_layout);
  job.output = output;
  job.rule = rule_of(rule);
  job.layer_rules = layer_rules;
  job.overflow_check = overflow_check;
  job.threads = threads;
  if (findings) {
    job.findings = [&findings] {
      const py::gil_scoped_acquire gil;
      std::vector<graph::Finding> result;
      for (auto& [step, rank, node, sentence, chinese, sum, is_of_reference] :
           (*findings)().cast<Findings>()) {
        result.push_back({step, rank, std::move(node), std::move(sentence), std::move(chinese),
                          std::move(sum), is_of_reference});
      }
      return result;
    };
  }
  return run_with_progress(progress, [&](const Report& report) {
    job.progress = report;
    return graph::write_graph_file(job);
  });
}

}  // namespace

void register_graph(py::module_& m) {
  using graph::GraphSummary;
  using graph::NodeVerdict;

  py::class_<NodeView>(m, "GraphNode", py::is_final())
      .def_property_readonly("name", [](const NodeView& self) { return std::string(self.node().name); })
      .def_property_readonly("kind", [](const NodeView& self) { return kind_name(self.node().kind); })
      .def_property_readonly("parent", [](const NodeView& self) { return view(self.of, self.node().parent); })
      .def_property_readonly("children",
                             [](const NodeView& self) {
                               std::vector<NodeView> children;
                               for (const NodeId child : self.node().children)
                                 children.push_back({self.of, child});
                               return children;
                             })
      .def_property_readonly("micro_step", [](const NodeView& self) { return self.node().micro_step; })
      .def_property_readonly("stack",
                             [](const NodeView& self) {
                               const auto frames = self.node().stack;
                               return std::vector<std::string>(frames.begin(), frames.end());
                             })
      .def_property_readonly("parameters", &node_parameters)
      .def_property_readonly(
          "match",
          [](const NodeView& self) {
            return self.of->reference ? reference_name(self, self.of->comparison.matches.of_target[self.id])
                                      : std::nullopt;
          })
      .def_property_readonly(
          "counterpart",
          [](const NodeView& self) {
            return self.of->reference ? reference_name(self, self.of->comparison.counterparts[self.id].node)
                                      : std::nullopt;
          })
      .def_property_readonly("how",
                             [](const NodeView& self) -> std::optional<std::string> {
                               if (!self.of->reference) return std::nullopt;
                               const auto& counterpart = self.of->comparison.counterparts[self.id];
                               if (counterpart.node == graph::kNoNode) return std::nullopt;
                               return std::string(msprobe::trace::match_name(counterpart.how));
                             })
      .def_property_readonly("reason",
                             [](const NodeView& self) -> std::optional<std::string> {
                               const bool is_matched =
                                   !self.of->reference ||
                                   self.of->comparison.matches.of_target[self.id] != graph::kNoNode;
                               if (is_matched) return std::nullopt;
                               return graph::unmatched_reason(self.of->target, *self.of->reference,
                                                              self.of->match, self.id, false);
                             })
      .def_property_readonly("index", verdict_field(&NodeVerdict::index))
      .def_property_readonly("input_ulps", verdict_field(&NodeVerdict::input_ulps))
      .def_property_readonly("output_ulps", verdict_field(&NodeVerdict::output_ulps))
      .def_property_readonly("weight_ulps", verdict_field(&NodeVerdict::weight_ulps))
      .def_property_readonly("gradient_ulps", verdict_field(&NodeVerdict::gradient_ulps))
      .def_property_readonly("worst_ulps",
                             [](const NodeView& self) { return self.of->aggregates[self.id].worst_ulps; })
      .def_property_readonly(
          "worst_node",
          [](const NodeView& self) { return view(self.of, self.of->aggregates[self.id].worst_node); })
      .def("__eq__", [](const NodeView& self,
                        const NodeView& other) { return self.of == other.of && self.id == other.id; })
      .def("__hash__", [](const NodeView& self) { return py::hash(py::int_(self.id)); })
      .def("__repr__",
           [](const NodeView& self) { return "<GraphNode " + std::string(self.node().name) + ">"; });

  py::class_<OpenGraph, std::shared_ptr<OpenGraph>>(m, "OpenGraph", py::is_final())
      .def_property_readonly("mode",
                             [](const OpenGraph& self) -> std::optional<std::string> {
                               if (!self.reference) return std::nullopt;
                               return mode_name(self.comparison.mode);
                             })
      .def_property_readonly(
          "root", [](const std::shared_ptr<OpenGraph>& self) { return NodeView{self, graph::Graph::kRoot}; })
      .def_property_readonly("micro_steps", [](const OpenGraph& self) { return self.target.micro_steps(); })
      .def("nodes", &nodes_in_order)
      .def(
          "find",
          [](const std::shared_ptr<OpenGraph>& self, const std::string& name) {
            return view(self, self->target.find(name));
          },
          py::arg("name"));
  m.def("open_graph", &open_graph, py::arg("target"), py::arg("reference") = py::none(), py::kw_only(),
        py::arg("rule") = "default", py::arg("threads") = 0);

  m.def(
      "check_layout",
      [](const Layout& layout, const std::string& where) { graph::check_layout(layout_of(layout), where); },
      py::arg("layout"), py::arg("where"));

  py::class_<GraphSummary>(m, "GraphSummary", py::is_final())
      .def_property_readonly("mode", [](const GraphSummary& self) { return mode_name(self.mode); })
      .def_readonly("graphs", &GraphSummary::graphs)
      .def_readonly("nodes", &GraphSummary::nodes)
      .def_readonly("unmatched", &GraphSummary::unmatched)
      .def_readonly("reference_unmatched", &GraphSummary::reference_unmatched)
      .def_readonly("worst", &GraphSummary::worst)
      .def_readonly("worst_ulps", &GraphSummary::worst_ulps)
      .def_readonly("worst_node", &GraphSummary::worst_node)
      .def_readonly("without_stacks", &GraphSummary::without_stacks)
      .def_property_readonly("left_out", [](const GraphSummary& self) {
        std::vector<std::tuple<int, int, std::string>> result;
        for (const graph::LeftOutRank& one : self.left_out)
          result.emplace_back(one.step, one.rank, one.reason);
        return result;
      });
  m.def("write_graph_file", &write_graph_file, py::arg("units"), py::arg("output"), py::kw_only(),
        py::arg("rule") = "default", py::arg("merge") = false, py::arg("target_layout") = py::none(),
        py::arg("reference_layout") = py::none(), py::arg("layer_rules") = py::none(),
        py::arg("overflow_check") = false, py::arg("threads") = 0, py::arg("findings") = py::none(),
        py::arg("progress") = py::none());
}
