// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/monitor.h"
#include "msprobe/monitor_plan.h"

namespace msprobe::monitor {
namespace {

const Metric& metric_named(Kind kind, std::string_view name) {
  const Metric* metric = find_metric(kind, name);
  if (metric == nullptr) {
    throw InvalidArgument("monitor: there is no metric \"" + std::string(name) + "\" of this kind of row");
  }
  return *metric;
}

void set(std::vector<double>& values, std::uint32_t series, double value) {
  if (series >= values.size()) values.resize(series + 1, absent());
  values[series] = value;
}

const Row* find(const Frame& frame, std::uint32_t label) {
  const std::size_t place = frame.position(label, -1);
  return place == Frame::npos || frame.rows()[place].missing ? nullptr : &frame.rows()[place];
}

// Whether what a row was made of had no NaN and no infinity.
bool is_of_finite(const Row& row) {
  if (row.kind == Kind::kTensor) return row.sums.nan + row.sums.inf == 0;
  return std::isfinite(row.sums.squares) && std::isfinite(row.sums.fourth);
}

// What finite numbers do not define, as the ratio to a weight that is zero, is no number.
double value_of(const Metric& metric, const Row& row) {
  const double value = metric.value(row);
  return std::isfinite(value) || !is_of_finite(row) ? value : absent();
}

}  // namespace

void Plan::add(std::uint32_t label, Kind kind, std::string_view metric, std::uint32_t series) {
  if (label >= of_label_.size()) of_label_.resize(label + 1);
  of_label_[label].push_back({&metric_named(kind, metric), series});
}

void Plan::add_group(std::vector<std::uint32_t> labels, Kind kind, std::string_view metric,
                     std::uint32_t series) {
  const Number number{&metric_named(kind, metric), series};
  for (Group& group : groups_) {
    if (group.kind == kind && group.labels == labels) {
      group.numbers.push_back(number);
      return;
    }
  }
  groups_.push_back({std::move(labels), kind, {number}});
}

void Plan::evaluate(const Frame& frame, std::vector<double>& values) const {
  for (const Row& row : frame.rows()) {
    if (row.missing || row.label >= of_label_.size()) continue;
    for (const Number& number : of_label_[row.label]) {
      if (number.metric->kind == row.kind) set(values, number.series, value_of(*number.metric, row));
    }
  }
  for (const Group& group : groups_) {
    Row together;
    together.kind = group.kind;
    bool any = false;
    for (const std::uint32_t label : group.labels) {
      const Row* row = find(frame, label);
      if (row == nullptr || row->kind != group.kind) continue;
      merge(together, *row);
      any = true;
    }
    for (const Number& number : group.numbers) {
      if (any) set(values, number.series, value_of(*number.metric, together));
    }
  }
}

Packed pack(const Frame& frame, const Packing& packing) {
  Packed packed;
  packed.summed.reserve(packing.labels.size() * kSummed);
  packed.largest.reserve(packing.labels.size() * (kExtremes + 1));
  std::vector<std::uint32_t> left = packing.left;
  std::sort(left.begin(), left.end());
  const auto find_own = [&](std::uint32_t label) {
    return std::binary_search(left.begin(), left.end(), label) ? nullptr : find(frame, label);
  };
  for (const std::uint32_t label : packing.labels) {
    const Row* row = find_own(label);
    std::array<double, kSummed> summed{};
    std::array<double, kExtremes> extremes{};
    pack(row != nullptr ? row->sums : Sums{}, summed, extremes);
    packed.summed.insert(packed.summed.end(), summed.begin(), summed.end());
    packed.largest.insert(packed.largest.end(), extremes.begin(), extremes.end());
    // Which kind of row it is, and whether there is one at all.
    packed.largest.push_back(row != nullptr ? static_cast<double>(row->kind) : -1);
  }
  for (std::size_t i = 0; i < packing.counted.size(); ++i) {
    const Row* row = find_own(packing.counted[i]);
    std::vector<double> counts = row != nullptr ? row->counts : std::vector<double>();
    counts.resize(packing.counts[i], 0);
    packed.summed.insert(packed.summed.end(), counts.begin(), counts.end());
  }
  return packed;
}

void unpack(Frame& frame, const Packing& packing, const Packed& packed) {
  std::size_t counts = 0;
  for (const std::size_t count : packing.counts) counts += count;
  if (packed.summed.size() != packing.labels.size() * kSummed + counts ||
      packed.largest.size() != packing.labels.size() * (kExtremes + 1)) {
    throw InvalidArgument("monitor: expected the numbers of as many rows as were packed");
  }
  std::vector<Row> rows;
  for (std::size_t i = 0; i < packing.labels.size(); ++i) {
    const double* const largest = packed.largest.data() + i * (kExtremes + 1);
    if (largest[kExtremes] < 0) continue;
    Row row;
    if (const Row* known = find(frame, packing.labels[i])) row = *known;
    row.label = packing.labels[i];
    row.kind = static_cast<Kind>(static_cast<int>(largest[kExtremes]));
    row.sums = unpack(std::span<const double, kSummed>(packed.summed.data() + i * kSummed, kSummed),
                      std::span<const double, kExtremes>(largest, kExtremes));
    const auto counted = std::find(packing.counted.begin(), packing.counted.end(), row.label);
    if (counted != packing.counted.end()) {
      const auto number = static_cast<std::size_t>(counted - packing.counted.begin());
      std::size_t at = packing.labels.size() * kSummed;
      for (std::size_t k = 0; k < number; ++k) at += packing.counts[k];
      row.counts.assign(packed.summed.begin() + static_cast<std::ptrdiff_t>(at),
                        packed.summed.begin() + static_cast<std::ptrdiff_t>(at + packing.counts[number]));
    }
    rows.push_back(std::move(row));
  }
  frame.clear();
  for (Row& row : rows) frame.add(std::move(row));
}

}  // namespace msprobe::monitor
