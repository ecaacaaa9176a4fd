// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "msprobe/grad_probe.h"
#include "msprobe/log.h"

namespace msprobe::grad_probe {
namespace {

// Bounds are compared as float32, where neighbours may fall together; the kernel wants them strictly
// ascending.
std::vector<float> distinct_bounds(const Options& options) {
  std::vector<float> result;
  if (options.level != Level::kL2) return result;
  for (const Bound& bound : options.bounds) result.push_back(static_cast<float>(bound.value));
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Counts per interval of options.bounds: an interval between two bounds of the same float32 value is empty.
std::vector<std::int64_t> counts_of_all_intervals(const std::vector<Bound>& bounds,
                                                  const std::vector<std::int64_t>& distinct) {
  std::vector<std::int64_t> result(bounds.size() + 1, 0);
  std::size_t next = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const bool repeated =
        i > 0 && static_cast<float>(bounds[i].value) == static_cast<float>(bounds[i - 1].value);
    if (!repeated) result[i] = distinct[next++];
  }
  result.back() = distinct[next];
  return result;
}

}  // namespace

std::vector<Measurement> measure(std::span<const Gradient> gradients, const Options& options,
                                 ThreadPool* pool) {
  const std::vector<float> bounds = distinct_bounds(options);
  std::vector<Measurement> result;
  std::vector<std::vector<std::int64_t>> transposed_shapes;
  std::vector<stats::Request> requests;
  result.reserve(gradients.size());
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
    Measurement& measurement = result.emplace_back();
    measurement.name = gradient.name;
    measurement.dtype = view.dtype;
    measurement.shape.assign(view.shape.begin(), view.shape.end());

    stats::Request& request = requests.emplace_back(stats::Request{view, {}});
    if (options.level == Level::kL0) {
      request.options.checksum = stats::SummaryOptions::Checksum::kFloat32;
      continue;
    }
    // Column-major gradients are kept as they lie in memory, as the existing tool does: with the extents
    // turned round, that memory is C-contiguous.
    if (is_fortran_contiguous(view) && !is_c_contiguous(view)) {
      measurement.fortran_order = true;
      request.view.shape = transposed_shapes.emplace_back(view.shape.rbegin(), view.shape.rend());
      request.view.strides = {};
    }
    measurement.signs.resize(stats::sign_bytes(element_count(view)));
    request.options.signs = measurement.signs;
    request.options.bounds = bounds;
  }

  std::vector<stats::Summary> summaries = stats::summarize_all(requests, pool);
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].summary = std::move(summaries[i]);
    if (options.level != Level::kL2) continue;
    std::vector<std::int64_t>& counts = result[i].summary.interval_counts;
    // Without bounds the kernel does not count, and everything is in (-inf, inf).
    if (bounds.empty()) counts = {result[i].summary.count};
    counts = counts_of_all_intervals(options.bounds, counts);
  }
  return result;
}

}  // namespace msprobe::grad_probe
