// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "msprobe/grad_probe.h"
#include "msprobe/log.h"

namespace msprobe::grad_probe {
MeasurementPlan::MeasurementPlan(const Options& options) : level_(options.level) {
  if (level_ != Level::kL2) return;
  for (const Bound& bound : options.bounds) all_bounds_.push_back(static_cast<float>(bound.value));
  // The kernel wants them strictly ascending.
  std::unique_copy(all_bounds_.begin(), all_bounds_.end(), std::back_inserter(bounds_));
}

Measurement MeasurementPlan::prepare(std::string_view name, const TensorView& view,
                                     Measurement reused) const {
  Measurement measurement = std::move(reused);
  measurement.name = name;
  measurement.dtype = view.dtype;
  measurement.shape.assign(view.shape.begin(), view.shape.end());
  measurement.fortran_order = false;
  measurement.summary = {};
  if (level_ == Level::kL0) {
    measurement.signs.clear();
    return measurement;
  }
  // Column-major gradients are kept as they lie in memory, as mindstudio-probe does.
  measurement.fortran_order = is_fortran_contiguous(view) && !is_c_contiguous(view);
  measurement.signs.resize(stats::sign_bytes(element_count(view)));
  return measurement;
}

stats::SummaryOptions MeasurementPlan::request(Measurement& measurement) const {
  stats::SummaryOptions options;
  if (level_ == Level::kL0) {
    options.checksum = stats::SummaryOptions::Checksum::kFloat32;
  } else {
    options.signs = measurement.signs;
    options.bounds = bounds_;
  }
  return options;
}

void MeasurementPlan::complete(Measurement& measurement, stats::Summary summary) const {
  measurement.summary = std::move(summary);
  if (level_ != Level::kL2) return;
  std::vector<std::int64_t>& counts = measurement.summary.interval_counts;
  // Without bounds nothing is counted, and everything is in (-inf, inf).
  const std::vector<std::int64_t> distinct =
      bounds_.empty() ? std::vector<std::int64_t>{measurement.summary.count} : std::move(counts);
  // An interval between two bounds of the same float32 value is empty.
  counts.assign(all_bounds_.size() + 1, 0);
  std::size_t next = 0;
  for (std::size_t i = 0; i < all_bounds_.size(); ++i) {
    const bool repeated = i > 0 && all_bounds_[i] == all_bounds_[i - 1];
    if (!repeated) counts[i] = distinct[next++];
  }
  counts.back() = distinct[next];
}

std::vector<Measurement> measure(std::span<const Gradient> gradients, const Options& options,
                                 ThreadPool* pool, std::vector<Measurement> reused) {
  const MeasurementPlan plan(options);
  std::vector<Measurement> result = std::move(reused);
  std::size_t used = 0;
  std::vector<std::vector<std::int64_t>> transposed_shapes;
  std::vector<stats::Request> requests;
  result.resize(gradients.size());
  transposed_shapes.reserve(gradients.size());  // the requests point into it
  requests.reserve(gradients.size());

  for (const Gradient& gradient : gradients) {
    const TensorView& view = gradient.view;
    if (is_complex(view.dtype)) {
      log(LogLevel::kWarning, "gradient probe: the gradient of \"" + std::string(gradient.name) + "\" is " +
                                  std::string(dtype_name(view.dtype)) +
                                  ", which has no sign and no order; it is left out");
      continue;
    }
    Measurement& measurement = result[used++];
    measurement = plan.prepare(gradient.name, view, std::move(measurement));
    stats::Request& request = requests.emplace_back(stats::Request{view, plan.request(measurement)});
    if (measurement.fortran_order) {
      // With the extents turned round, that memory is C-contiguous.
      request.view.shape = transposed_shapes.emplace_back(view.shape.rbegin(), view.shape.rend());
      request.view.strides = {};
    }
  }

  result.resize(used);

  std::vector<stats::Summary> summaries = stats::summarize_all(requests, pool);
  for (std::size_t i = 0; i < result.size(); ++i) plan.complete(result[i], std::move(summaries[i]));
  return result;
}

}  // namespace msprobe::grad_probe
