// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/non_finite.h"
#include "msprobe/grad_probe.h"
#include "msprobe/metrics.h"
#include "msprobe/table.h"

namespace msprobe::grad_probe {
namespace {

// Similarities are ratios of counts: 1.0 - 0.97 must not count as more than 0.03 because of its last bit.
constexpr double kRounding = 1e-12;

// Root mean square of the elements; 0: not known.
double typical(const Similarity& cell) {
  const bool is_known = cell.state == Similarity::State::kCompared && cell.count > 0 && cell.norm > 0;
  return is_known && std::isfinite(cell.norm) ? cell.norm / std::sqrt(static_cast<double>(cell.count)) : 0;
}

// By step: gradients below this are nothing but rounding.
std::vector<double> negligible(const Comparison& comparison) {
  std::vector<double> result(comparison.steps.size(), 0);
  for (std::size_t step = 0; step < result.size(); ++step) {
    std::vector<double> sizes;
    for (std::size_t name = 0; name < comparison.names.size(); ++name) {
      if (const double size = typical(comparison.at(name, step)); size > 0) sizes.push_back(size);
    }
    if (sizes.empty()) continue;
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
    std::nth_element(sizes.begin(), middle, sizes.end());
    result[step] = metrics::kNegligibleGradient * *middle;
  }
  return result;
}

struct Previous {
  std::int64_t step;
  double similarity;
};

// For a person: three digits, and what is missing to 1 where that is less.
std::string shown_share(double value) {
  for (int digits = 3; digits < 17; ++digits) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.*g", digits, value);
    if (value >= 1 || std::string_view(text.data()) != "1") return text.data();
  }
  return io::format_double(value);
}

std::string low_reason(const Finding& finding, const Rule& rule) {
  return finding.name + ": at step " + std::to_string(finding.step) +
         ", the first compared, the signs agree for " + shown_share(finding.similarity) +
         " of the elements, expected at least " + shown_share(rule.first_step_least);
}

std::string drop_reason(const Finding& finding, std::int64_t previous_step, const Rule& rule) {
  return finding.name + ": at step " + std::to_string(finding.step) + " the signs agree for " +
         shown_share(finding.similarity) + " of the elements, after " + shown_share(finding.previous) +
         " at step " + std::to_string(previous_step) + ", expected a fall of at most " +
         shown_share(rule.largest_drop);
}

std::optional<Finding> judge_cell(const std::string& name, std::int64_t step, const Similarity& cell,
                                  const std::optional<Previous>& previous, const Rule& rule) {
  if (cell.state == Similarity::State::kMissing) {
    return Finding{Finding::Kind::kMissing,
                   name,
                   step,
                   kNaN,
                   previous ? previous->similarity : kNaN,
                   name + ": at step " + std::to_string(step) + " nothing can be compared: " + cell.problem};
  }
  const double value = cell.value();
  if (!previous) {
    if (value >= rule.first_step_least - kRounding) return std::nullopt;
    Finding finding{Finding::Kind::kLowAtFirstStep, name, step, value, kNaN, {}};
    finding.reason = low_reason(finding, rule);
    return finding;
  }
  if (previous->similarity - value <= rule.largest_drop + kRounding) return std::nullopt;
  Finding finding{Finding::Kind::kDrop, name, step, value, previous->similarity, {}};
  finding.reason = drop_reason(finding, previous->step, rule);
  return finding;
}

// How far the similarity fell, from full agreement at the first step; what could not be compared comes last.
double fall(const Finding& finding) {
  switch (finding.kind) {
    case Finding::Kind::kLowAtFirstStep: return 1 - finding.similarity;
    case Finding::Kind::kDrop: return finding.previous - finding.similarity;
    case Finding::Kind::kMissing: break;
  }
  return -kInfinity;
}

}  // namespace

std::vector<Finding> judge(const Comparison& comparison, const Rule& rule) {
  std::vector<Finding> findings;
  const std::vector<double> floors = negligible(comparison);
  for (std::size_t name = 0; name < comparison.names.size(); ++name) {
    std::optional<Previous> previous;
    for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
      const Similarity& cell = comparison.at(name, step);
      const bool compared = cell.state == Similarity::State::kCompared;
      // An empty tensor has no signs that could differ.
      if (cell.state == Similarity::State::kAbsent || (compared && cell.count == 0)) continue;
      const double size = typical(cell);
      if (size > 0 && size < floors[step]) continue;  // signs of rounding errors
      auto finding = judge_cell(comparison.names[name], comparison.steps[step], cell, previous, rule);
      if (finding) findings.push_back(std::move(*finding));
      if (compared) previous = {comparison.steps[step], cell.value()};
    }
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return a.step != b.step ? a.step < b.step : fall(a) > fall(b);
  });
  return findings;
}

}  // namespace msprobe::grad_probe
