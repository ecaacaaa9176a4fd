// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "graph/parameter_pairs.h"
#include "msprobe/graph.h"
#include "msprobe/thread_pool.h"
#include "trace/item/item_text.h"
#include "trace/item/uninitialised.h"

namespace msprobe::graph {
namespace {

using trace::Item;
using trace::Scalar;

bool is_present(const Scalar& scalar) {
  return scalar.kind != Scalar::Kind::kAbsent && scalar.kind != Scalar::Kind::kNull;
}

// Max or min is NaN or infinite, and the reference has not the same there: an infinity on both sides, as a
// mask of attention has, is no difference.
bool has_bad_extreme(const trace::StatisticsPair& statistics) {
  for (std::size_t i = 0; i < 2; ++i) {
    const std::optional<double> ours = statistics.target_numbers[i];
    if (ours && !std::isfinite(*ours) && ours != statistics.reference_numbers[i]) return true;
  }
  return false;
}

bool has_maximum(const Parameter& parameter) {
  return parameter.merged.has_value() ||
         is_present(trace::statistics_of(*parameter.trace, *parameter.item)[0]);
}

struct Index {
  double value = 0;
  bool is_whole = true;
};

// What mindstudio-probe reads of the percentages in the cells.
void raise(Index& index, std::optional<double> relative) {
  if (!relative) return;
  const double value = *relative * 100 / 100;
  if (!(value > index.value)) return;
  index = value > 1 ? Index{1, true} : Index{value, false};
}

// Two nodes that were matched.
struct Pair {
  const NodeData& ours;
  const NodeData& theirs;
};

Index statistics_index(const Pair& pair) {
  Index index;
  const auto others = pair_parameters(pair.ours.outputs, pair.theirs.outputs);
  for (std::size_t i = 0; i < others.size(); ++i) {
    const Parameter& output = pair.ours.outputs[i];
    if (!has_maximum(output)) continue;
    const trace::StatisticsPair statistics = statistics_of(output, others[i]);
    if (has_bad_extreme(statistics)) return {1, true};
    if (others[i] == nullptr) continue;
    for (const auto& one : statistics.differences) raise(index, one.relative);
  }
  return index;
}

bool is_same_md5(const Parameter& a, const Parameter& b) {
  return trace::md5_text(*a.trace, *a.item) == trace::md5_text(*b.trace, *b.item);
}

Index md5_index(const Pair& pair) {
  const auto agree = [](const std::vector<Parameter>& ours, const std::vector<Parameter>& theirs) {
    const auto others = pair_parameters(ours, theirs);
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (others[i] != nullptr && !is_same_md5(ours[i], *others[i])) return false;
    }
    return true;
  };
  return {agree(pair.ours.inputs, pair.theirs.inputs) && agree(pair.ours.outputs, pair.theirs.outputs) ? 1.0
                                                                                                       : 0.0,
          true};
}

// The smallest share of elements that agree to one thousandth.
struct Share {
  std::optional<double> smallest;
  bool is_bad = false;
};

Share smallest_share(const std::vector<Parameter>& parameters, const std::vector<Parameter>& counterparts,
                     std::span<const trace::RealMetrics> metrics) {
  Share share;
  const auto others = pair_parameters(parameters, counterparts);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const std::string_view shape = trace::shape_text(*parameter.trace, *parameter.item);
    if (!has_maximum(parameter) || shape == "[]") continue;
    if (has_bad_extreme(statistics_of(parameter, others[i]))) share.is_bad = true;
    if (const auto ratio = metrics[i].one_thousandth.number()) {
      share.smallest = std::min({share.smallest.value_or(1), *ratio, 1.0});
    }
  }
  return share;
}

Index real_data_index(const Pair& pair, const NodeMetrics& metrics) {
  const std::span all(metrics);
  const Share in = smallest_share(pair.ours.inputs, pair.theirs.inputs, all.first(pair.ours.inputs.size()));
  const Share out =
      smallest_share(pair.ours.outputs, pair.theirs.outputs, all.subspan(pair.ours.inputs.size()));
  if (out.is_bad) return {1, true};
  if (in.is_bad || !in.smallest || !out.smallest) return {0, true};
  const double lost = *in.smallest - *out.smallest;
  if (lost <= 0) return {0, true};
  return lost >= 1 ? Index{1, true} : Index{lost, false};
}

// In rounding errors of the dtype.
double roundings_between(const Parameter& parameter, const Parameter* other,
                         const trace::RealMetrics* metrics) {
  const auto dtype = trace::dtype_of(trace::dtype_text(*parameter.trace, *parameter.item));
  if (other == nullptr) return std::numeric_limits<double>::infinity();
  if (!parameter.merged && !other->merged) {
    const trace::Distance apart =
        trace::distance(*parameter.trace, *parameter.item, *other->trace, other->item, metrics);
    return trace::in_roundings(apart.value, dtype);
  }
  const auto numbers = statistics_of(parameter, other);
  const double count = trace::element_count(trace::shape_text(*parameter.trace, *parameter.item));
  const auto facts = [&](const trace::StatisticNumbers& side) {
    metrics::TensorFacts result;
    result.dtype = dtype;
    result.count = count;
    result.max = side[0];
    result.min = side[1];
    result.mean = side[2];
    result.norm = side[3];
    return result;
  };
  return trace::in_roundings(
      metrics::distance(facts(numbers.target_numbers), facts(numbers.reference_numbers)).value, dtype);
}

class Judge {
 public:
  Judge(const Graph& target, const Graph& reference, Comparison& comparison)
      : target_(target), reference_(reference), comparison_(comparison) {}

  void judge(NodeId node) {
    NodeData ours, theirs;
    target_.read_data(node, ours);
    const NodeId match = comparison_.matches.of_target[node];
    if (match != kNoNode) {
      reference_.read_data(match, theirs);
      if (comparison_.mode == Mode::kRealData) measure(node, ours, theirs);
      set_index(node, {ours, theirs});
    }
    const NodeId counterpart = comparison_.counterparts[node].node;
    if (counterpart == kNoNode || comparison_.mode == Mode::kStructure) return;
    if (counterpart != match) reference_.read_data(counterpart, theirs);
    set_distances(node, {ours, theirs}, counterpart == match);
  }

 private:
  void measure(NodeId node, const NodeData& ours, const NodeData& theirs) {
    const NodeId match = comparison_.matches.of_target[node];
    const bool is_exact = target_[node].name == reference_[match].name;
    NodeMetrics& metrics = comparison_.metrics[node];
    const auto add = [&](const std::vector<Parameter>& parameters, const std::vector<Parameter>& others) {
      const auto pairs = pair_parameters(parameters, others);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const Parameter& one = parameters[i];
        metrics.push_back(trace::compare_real_data(*one.trace, *one.item,
                                                   pairs[i] == nullptr ? *one.trace : *pairs[i]->trace,
                                                   pairs[i] == nullptr ? nullptr : pairs[i]->item, is_exact));
      }
    };
    add(ours.inputs, theirs.inputs);
    add(ours.outputs, theirs.outputs);
  }

  void set_index(NodeId node, const Pair& pair) {
    const bool has_data = !pair.ours.inputs.empty() || !pair.ours.outputs.empty() ||
                          !pair.theirs.inputs.empty() || !pair.theirs.outputs.empty();
    if (node == Graph::kRoot || !has_data || comparison_.mode == Mode::kStructure) return;
    const bool is_md5 = comparison_.mode == Mode::kMd5;
    Index index = trace::is_uninitialised(target_[node].name) ? Index{is_md5 ? 1.0 : 0.0, true}
                  : is_md5                                    ? md5_index(pair)
                  : comparison_.mode == Mode::kRealData ? real_data_index(pair, comparison_.metrics[node])
                                                        : statistics_index(pair);
    comparison_.verdicts[node].index = index.value;
    comparison_.verdicts[node].index_is_whole = index.is_whole;
  }

  void set_distances(NodeId node, const Pair& pair, bool is_match) {
    NodeVerdict& verdict = comparison_.verdicts[node];
    if (trace::is_uninitialised(target_[node].name)) return;
    const bool has_metrics = is_match && comparison_.mode == Mode::kRealData;
    const NodeMetrics* const metrics = has_metrics ? &comparison_.metrics[node] : nullptr;
    std::size_t row = 0;
    const auto add = [&](const std::vector<Parameter>& parameters, const std::vector<Parameter>& others) {
      const auto pairs = pair_parameters(parameters, others);
      for (std::size_t i = 0; i < pairs.size(); ++i, ++row) {
        const trace::RealMetrics* const measured = metrics == nullptr ? nullptr : &(*metrics)[row];
        auto& worst = worst_of(verdict, group_of(parameters[i]));
        worst = std::max(worst.value_or(0), roundings_between(parameters[i], pairs[i], measured));
      }
    };
    add(pair.ours.inputs, pair.theirs.inputs);
    add(pair.ours.outputs, pair.theirs.outputs);
  }

  static std::optional<double>& worst_of(NodeVerdict& verdict, Group group) {
    switch (group) {
      case Group::kInput: return verdict.input_ulps;
      case Group::kOutput: return verdict.output_ulps;
      case Group::kWeight: return verdict.weight_ulps;
      case Group::kGradient: break;
    }
    return verdict.gradient_ulps;
  }

  const Graph& target_;
  const Graph& reference_;
  Comparison& comparison_;
};

// Collections of calls are as bad as the worst of them; those without a match do not count. Of collections in
// each other the inner ones come first.
void judge_collections(const Graph& graph, Comparison& comparison) {
  if (comparison.mode == Mode::kStructure) {
    for (NodeId node = 0; node < graph.nodes().size(); ++node) {
      if (graph[node].kind == NodeKind::kCollection) comparison.verdicts[node].index = 0;
    }
    return;
  }
  const bool is_md5 = comparison.mode == Mode::kMd5;
  for (const NodeId node : graph.post_order()) {
    if (graph[node].kind != NodeKind::kCollection) continue;
    NodeVerdict worst;
    worst.index = is_md5 ? 1 : 0;
    for (const NodeId child : graph[node].children) {
      const NodeVerdict& verdict = comparison.verdicts[child];
      if (!verdict.index) continue;
      if (is_md5 ? *verdict.index < *worst.index : *verdict.index > *worst.index) {
        worst.index = verdict.index;
        worst.index_is_whole = verdict.index_is_whole;
      }
    }
    comparison.verdicts[node].index = worst.index;
    comparison.verdicts[node].index_is_whole = worst.index_is_whole;
  }
}

}  // namespace

Comparison compare(const Graph& target, Graph& reference, const CompareOptions& options) {
  Comparison result;
  result.mode = trace::common_mode(target.dumps().front()->trace, reference.dumps().front()->trace);
  result.matches = match_nodes(target, reference, options.match);
  follow_micro_steps(target, reference, result.matches);
  result.counterparts = align_nodes(target, reference, result.matches, options.match.rule);
  const std::size_t count = target.nodes().size();
  result.verdicts.resize(count);
  if (result.mode == Mode::kRealData) result.metrics.resize(count);
  constexpr std::size_t kChunk = 256;
  ThreadPool pool(options.threads);
  pool.parallel_for((count + kChunk - 1) / kChunk, [&](std::size_t chunk) {
    Judge judge(target, reference, result);
    for (std::size_t node = chunk * kChunk; node < std::min(count, (chunk + 1) * kChunk); ++node) {
      judge.judge(static_cast<NodeId>(node));
    }
  });
  judge_collections(target, result);
  return result;
}

}  // namespace msprobe::graph
