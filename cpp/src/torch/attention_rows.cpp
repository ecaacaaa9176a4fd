// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "msprobe/error.h"
#include "msprobe/torch_monitor.h"
#include "torch/out_of_sight.h"

namespace msprobe::torch_adapter {
namespace {

// Below it a logit is masked: programs add numbers as these where they do not use -Inf.
constexpr double kMasked = -1e9;

// Indices of at most `most` of `count` places, evenly spread.
at::Tensor chosen(std::int64_t count, std::int64_t most, const at::Tensor& like) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(like.device());
  if (most <= 0 || count <= most) return at::arange(count, options);
  return at::arange(most, options).mul(count).div(most, "floor");
}

AttentionRows rows_of(const at::Tensor& scores) {
  const at::Tensor is_open = scores > kMasked;
  const at::Tensor open = at::where(is_open, scores, -std::numeric_limits<float>::infinity());
  const at::Tensor largest = at::amax(open, {-1});
  const at::Tensor is_seen = largest > kMasked;  // of a row that is masked as a whole nothing is said
  const at::Tensor shifted = open - at::where(is_seen, largest, 0).unsqueeze(-1);
  const at::Tensor weights = at::exp(shifted);
  const at::Tensor sum = weights.sum(-1);
  const at::Tensor weighted = at::where(is_open, weights * shifted, 0).sum(-1);
  const at::Tensor entropy = at::log(sum) - weighted / sum;
  return {at::where(is_seen, largest, 0), at::where(is_seen, entropy, 0)};
}

}  // namespace

AttentionRows attention_rows(const at::Tensor& query, const at::Tensor& key, const at::Tensor& mask,
                             bool is_causal, std::optional<double> scale, std::int64_t queries) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  if (query.dim() < 2 || key.dim() < 2 || query.size(-1) != key.size(-1)) {
    throw InvalidArgument("attention: expected queries and keys of (..., length, size)");
  }
  const std::int64_t length = query.size(-2);
  const std::int64_t keys = key.size(-2);
  const at::Tensor places = chosen(length, queries, query);
  const at::Tensor q = query.detach().index_select(-2, places).to(at::kFloat);
  at::Tensor k = key.detach().to(at::kFloat);
  if (q.dim() > 2 && k.dim() == q.dim() && q.size(-3) != k.size(-3) && q.size(-3) % k.size(-3) == 0) {
    k = k.repeat_interleave(q.size(-3) / k.size(-3), -3);
  }
  at::Tensor scores =
      at::matmul(q, k.transpose(-2, -1)) * scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  const auto masked = -std::numeric_limits<float>::infinity();
  if (is_causal) {  // as torch has it: the first query sees the first key
    const at::Tensor seen = places.unsqueeze(-1) >= at::arange(keys, places.options()).unsqueeze(0);
    scores = at::where(seen, scores, masked);
  }
  if (mask.defined()) {
    const at::Tensor of_queries =
        mask.size(-2) == length ? mask.detach().index_select(-2, places) : mask.detach();
    scores = mask.scalar_type() == at::kBool ? at::where(of_queries, scores, masked)
                                             : scores + of_queries.to(at::kFloat);
  }
  return rows_of(scores);
}

AttentionRows attention_rows(const at::Tensor& scores, std::int64_t queries) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  if (scores.dim() < 2) throw InvalidArgument("attention: expected scores of (..., queries, keys)");
  const at::Tensor places = chosen(scores.size(-2), queries, scores);
  return rows_of(scores.detach().index_select(-2, places).to(at::kFloat));
}

Routing routing(const at::Tensor& logits, std::int64_t top) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  const std::int64_t experts = logits.size(-1);
  at::Tensor p = logits.detach().reshape({-1, experts}).to(at::kFloat);
  const at::Tensor is_share = at::logical_and((p >= 0).all(), ((p.sum(-1) - 1).abs() < 1e-2).all());
  p = at::where(is_share, p, at::softmax(p, -1));
  const std::int64_t chosen_experts = std::clamp<std::int64_t>(top, 1, experts);
  const auto [best, indices] = at::topk(p, chosen_experts, -1);
  Routing result;
  result.counts = at::one_hot(indices.reshape({-1}), experts).sum(0);
  result.probability = best.select(-1, 0);
  result.entropy = -(p * at::log(p.clamp_min(1e-30))).sum(-1);
  return result;
}

}  // namespace msprobe::torch_adapter
