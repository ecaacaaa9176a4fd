// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/monitor_frame.h"

namespace msprobe::monitor {
namespace {

void multiply(Sums& sums, double factor) {
  const double square = factor * factor;
  for (double* number : {&sums.sum, &sums.absolute, &sums.min, &sums.max}) *number *= factor;
  sums.squares *= square;
  sums.fourth *= square * square;
}

}  // namespace

std::uint32_t Labels::add(Label label) {
  const std::lock_guard lock(mutex_);
  labels_.push_back(std::move(label));
  return static_cast<std::uint32_t>(labels_.size() - 1);
}

Label Labels::at(std::uint32_t label) const {
  const std::lock_guard lock(mutex_);
  if (label < labels_.size()) return labels_[label];
  throw InvalidArgument("monitor: expected a label below " + std::to_string(labels_.size()) + ", found " +
                        std::to_string(label));
}

std::vector<Label> Labels::all() const {
  const std::lock_guard lock(mutex_);
  return labels_;
}

std::size_t Labels::size() const {
  const std::lock_guard lock(mutex_);
  return labels_.size();
}

Row row_of_value(std::uint32_t label, double value, double eps) {
  Row row;
  row.label = label;
  Sums& sums = row.sums;
  sums.count = 1;
  sums.nan = std::isnan(value) ? 1 : 0;
  sums.inf = std::isinf(value) ? 1 : 0;
  sums.zeros = value == 0 ? 1 : 0;
  sums.small = std::abs(value) < eps ? 1 : 0;
  sums.sum = sums.min = sums.max = value;
  sums.absolute = std::abs(value);
  sums.squares = value * value;
  sums.fourth = sums.squares * sums.squares;
  return row;
}

void merge(Row& whole, const Row& part) {
  merge(whole.sums, part.sums);
  if (whole.counts.size() < part.counts.size()) whole.counts.resize(part.counts.size());
  for (std::size_t i = 0; i < part.counts.size(); ++i) whole.counts[i] += part.counts[i];
}

void Frame::add(Row row) {
  const std::lock_guard lock(mutex_);
  if (row.label >= places_.size()) places_.resize(row.label + 1);
  auto& places = places_[row.label];
  const auto known = std::find_if(places.begin(), places.end(),
                                  [&](const auto& place) { return place.first == row.micro_step; });
  if (known != places.end()) {
    Row& there = rows_[known->second];
    if (again_ == Again::kMerges && !there.missing && !row.missing) {
      merge(there, row);
    } else if (again_ == Again::kReplaces || there.missing) {
      there = std::move(row);
    }
    return;
  }
  places.emplace_back(row.micro_step, static_cast<std::uint32_t>(rows_.size()));
  rows_.push_back(std::move(row));
}

void Frame::fill(std::size_t place, const Sums& sums) {
  const std::lock_guard lock(mutex_);
  if (place >= rows_.size()) throw InvalidArgument("monitor: a frame has no row " + std::to_string(place));
  Row& row = rows_[place];
  Sums found = sums;
  if (row.factor != 1) multiply(found, row.factor);
  if (again_ == Again::kMerges) {
    merge(row.sums, found);
  } else {
    row.sums = found;
  }
}

Pending& Frame::pending(const std::function<std::unique_ptr<Pending>()>& make) {
  const std::lock_guard lock(mutex_);
  if (!pending_) pending_ = make();
  return *pending_;
}

bool Frame::is_complete() const {
  const std::lock_guard lock(mutex_);
  return pending_ == nullptr;
}

void Frame::bring() {
  const std::lock_guard lock(mutex_);
  if (pending_) pending_->bring();
}

void Frame::complete() {
  std::unique_ptr<Pending> pending;
  {
    const std::lock_guard lock(mutex_);
    pending = std::move(pending_);
  }
  if (!pending) return;
  pending->bring();
  pending->complete(*this);
}

std::shared_ptr<Frame> Frame::take() {
  auto taken = std::make_shared<Frame>(again_);
  const std::lock_guard lock(mutex_);
  taken->rows_.swap(rows_);
  taken->places_.swap(places_);
  taken->pending_.swap(pending_);
  return taken;
}

std::size_t Frame::position(std::uint32_t label, std::int32_t micro_step) const {
  const std::lock_guard lock(mutex_);
  if (label >= places_.size()) return npos;
  for (const auto& [micro, row] : places_[label]) {
    if (micro == micro_step) return row;
  }
  return npos;
}

std::size_t Frame::size() const {
  const std::lock_guard lock(mutex_);
  return rows_.size();
}

void Frame::scale(std::span<const std::uint32_t> labels, double factor) {
  for (const std::uint32_t label : labels) {
    const std::size_t place = position(label, -1);
    const std::lock_guard lock(mutex_);
    if (place >= rows_.size()) continue;
    rows_[place].factor *= factor;
    multiply(rows_[place].sums, factor);
  }
}

void Frame::set_call(std::uint32_t label, std::int32_t micro_step, std::uint32_t call) {
  const std::size_t place = position(label, micro_step);
  const std::lock_guard lock(mutex_);
  if (place < rows_.size()) rows_[place].call = call;
}

void Frame::sort(const std::function<std::size_t(const Row&)>& key) {
  const std::lock_guard lock(mutex_);
  std::stable_sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) { return key(a) < key(b); });
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    for (auto& place : places_[rows_[i].label]) {
      if (place.first == rows_[i].micro_step) place.second = static_cast<std::uint32_t>(i);
    }
  }
}

void Frame::clear() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
  pending_.reset();
  for (auto& places : places_) places.clear();
}

}  // namespace msprobe::monitor
