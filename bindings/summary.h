// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What _core.summarize (any buffer) and _torch.summarize (any tensor) share.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/error.h"
#include "msprobe/stats.h"

/// SummaryOptions as Python spells them, with the memory they point to.
class SummaryArguments {
 public:
  /// Shape of a larger tensor and offsets in it.
  using Shard = std::optional<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>;

  SummaryArguments(const std::string& checksum, std::vector<float> bounds, bool signs, bool sketch,
                   bool powers, double small, Shard shard, std::int64_t count)
      : bounds_(std::move(bounds)),
        shard_(std::move(shard)),
        wants_signs_(signs),
        signs_(signs ? msprobe::stats::sign_bytes(count) : 0) {
    using Checksum = msprobe::stats::SummaryOptions::Checksum;
    if (checksum == "native") {
      options_.checksum = Checksum::kNative;
    } else if (checksum == "float32") {
      options_.checksum = Checksum::kFloat32;
    } else if (checksum != "none") {
      throw msprobe::InvalidArgument("checksum must be \"none\", \"native\" or \"float32\", found \"" +
                                     checksum + '"');
    }
    options_.bounds = bounds_;
    options_.signs = signs_;
    options_.sketch = sketch;
    options_.powers = powers;
    options_.small = small;
    if (shard_) options_.shard = {shard_->first, shard_->second};
  }
  SummaryArguments(const SummaryArguments&) = delete;
  SummaryArguments& operator=(const SummaryArguments&) = delete;

  const msprobe::stats::SummaryOptions& options() const noexcept { return options_; }

  /// The summary as a dict: every row of stats::fields(), and the requested arrays.
  pybind11::dict to_dict(const msprobe::stats::Summary& summary) const {
    namespace py = pybind11;
    py::dict result;
    for (const msprobe::stats::Field& field : msprobe::stats::fields()) {
      const std::optional<double> value = field.value(summary);
      const py::str name(field.name.data(), field.name.size());
      if (!value) {
        result[name] = py::none();
      } else if (field.integral) {
        result[name] = static_cast<std::int64_t>(*value);
      } else {
        result[name] = *value;
      }
    }
    if (!bounds_.empty()) {
      py::list counts;
      for (const std::int64_t n : summary.interval_counts) counts.append(n);
      result["interval_counts"] = counts;
    }
    if (wants_signs_) {
      result["signs"] = py::bytes(reinterpret_cast<const char*>(signs_.data()), signs_.size());
    }
    if (summary.sketch) {
      result["sketch"] =
          py::dict(py::arg("sums") = summary.sketch->sums, py::arg("digest") = summary.sketch->digest,
                   py::arg("min") = summary.sketch->min, py::arg("max") = summary.sketch->max,
                   py::arg("mean") = summary.sketch->mean, py::arg("norm") = summary.sketch->norm);
    }
    return result;
  }

 private:
  std::vector<float> bounds_;
  Shard shard_;
  bool wants_signs_;
  std::vector<std::uint8_t> signs_;
  msprobe::stats::SummaryOptions options_;
};
