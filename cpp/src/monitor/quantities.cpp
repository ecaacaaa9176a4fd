// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "msprobe/error.h"
#include "msprobe/monitor_session.h"

namespace msprobe::monitor {

std::span<const Quantity> quantities() {
  constexpr std::string_view kRead = "one read of the tensors";
  static const std::vector<Quantity> all{
      {"loss", "training", std::nullopt, "what backward() began at, summed over a step", {""}, "nothing"},
      {"learning_rate", "training", std::nullopt, "of each group of the optimizer", {""}, "nothing"},
      {"loss_scale", "training", std::nullopt, "of the gradient scaler", {""}, "nothing"},
      {"custom", "training", std::nullopt, "what a script hands to add()", {""}, "nothing"},
      {"step_seconds", "training", std::nullopt, "between the ends of two steps", {""}, "nothing"},
      {"gradient",
       "gradient",
       Kind::kTensor,
       "as the optimizer gets it, behind clipping",
       {"norm", "abs_max", "kurtosis", "zeros", "nonfinite"},
       kRead},
      {"weight", "weight", Kind::kTensor, "behind the step", {"norm", "abs_max", "kurtosis"}, kRead},
      {"moment", "moment", Kind::kTensor, "exp_avg of Adam, behind the step", {"norm"}, kRead},
      {"second_moment",
       "moment",
       Kind::kTensor,
       "exp_avg_sq of Adam, behind the step",
       {"norm", "abs_max"},
       kRead},
      {"update",
       "update",
       Kind::kPair,
       "weights before and behind the step",
       {"distance", "ratio"},
       "a copy and two reads of the weights",
       "Goyal et al. 2017; Chowdhery et al. 2022, PaLM"},
      {"gradient_moment",
       "direction",
       Kind::kPair,
       "gradient beside the first moment that it meets",
       {"agreement", "cosine"},
       "two reads of the gradients and one of the moments"},
      {"gradient_change",
       "direction",
       Kind::kPair,
       "gradient beside that of the step before",
       {"cosine"},
       "a copy and two reads of the gradients",
       "McCandlish et al. 2018, An Empirical Model of Large-Batch Training"},
      {"activation",
       "activation",
       Kind::kTensor,
       "outputs of modules",
       {"rms", "abs_max", "kurtosis", "zeros", "nonfinite"},
       "one read of the activations",
       "He et al. 2024, Understanding and Minimising Outlier Features",
       "module"},
      {"activation_gradient",
       "activation_gradient",
       Kind::kTensor,
       "gradients of the outputs of modules",
       {"rms", "abs_max", "nonfinite"},
       "one read of these gradients",
       "",
       "module"},
      {"attention_logit",
       "attention",
       Kind::kTensor,
       "largest logit of each query",
       {"max", "mean"},
       "logits of the chosen queries",
       "Dehghani et al. 2023, Scaling Vision Transformers to 22B",
       "module"},
      {"attention_entropy",
       "attention",
       Kind::kTensor,
       "entropy of each query's weights, in nats",
       {"mean", "min"},
       "logits of the chosen queries",
       "Zhai et al. 2023, Stabilizing Transformer Training by Preventing Attention Entropy Collapse",
       "module"},
      {"expert_load",
       "experts",
       Kind::kCounts,
       "tokens of each expert, beside their mean",
       {"largest", "smallest", "p10", "median", "p90", "dead", "dropped", "entropy"},
       "nothing",
       "Fedus et al. 2022, Switch Transformers",
       "module"},
      {"router_probability",
       "experts",
       Kind::kTensor,
       "of each token: that of its first expert",
       {"mean", "min"},
       "a softmax of the router's logits",
       "",
       "module"},
      {"router_entropy",
       "experts",
       Kind::kTensor,
       "of each token's probabilities, in nats",
       {"mean"},
       "a softmax of the router's logits",
       "",
       "module"},
      {"communication",
       "communication",
       Kind::kTensor,
       "results of a collective that Python calls, all calls of a step as one",
       {"norm", "abs_max", "nonfinite", "numel"},
       "one read of the results",
       "",
       "module"},
      {"unreduced_gradient", "", Kind::kTensor, "before processes add theirs up", {}, kRead},
      {"weight_before", "", Kind::kTensor, "before the step", {}, kRead},
      {"matrix",
       "matrix",
       std::nullopt,
       "of chosen weights, every matrix_every recorded steps",
       {"spectral_norm", "stable_rank"},
       "a product of each matrix with itself",
       "Rudelson and Vershynin 2007; through the eigenvalues of the Gram matrix"},
  };
  return all;
}

Measured measured_named(std::string_view name) {
  const auto all = quantities();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  if (found == all.end()) throw InvalidArgument("monitor: there is no quantity " + std::string(name));
  return static_cast<Measured>(found - all.begin());
}

const Quantity& quantity(Measured which) { return quantities()[static_cast<std::size_t>(which)]; }

std::string_view unit_of(const Quantity& of, std::string_view metric) {
  if (of.name == "step_seconds") return "s";
  if (of.name == "attention_entropy" || of.name == "router_entropy") return "nats";
  const Metric* found = of.kind ? find_metric(*of.kind, metric) : nullptr;
  return found == nullptr ? "" : found->unit;
}

std::vector<std::string_view> chosen_metrics(const Quantity& of, std::span<const std::string> wanted) {
  if (wanted.empty() || !of.kind) return of.metrics;
  std::vector<std::string_view> chosen;
  for (const std::string& name : wanted) {
    if (const Metric* one = find_metric(*of.kind, name)) chosen.push_back(one->name);
  }
  // A list that is about tensors says nothing about pairs and counts.
  return chosen.empty() && *of.kind != Kind::kTensor ? of.metrics : chosen;
}

std::optional<std::pair<std::string, std::int64_t>> layer_of(std::string_view name) {
  std::size_t begin = name.find('.') + 1;
  while (begin != 0) {
    const std::size_t end = name.find('.', begin);
    if (end == std::string_view::npos) break;
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return std::pair(std::string(name.substr(0, end)), std::stoll(std::string(part)));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace msprobe::monitor
