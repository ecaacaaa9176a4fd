// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "msprobe/log.h"
#include "msprobe/thread_pool.h"
#include "msprobe/torch.h"
#include "msprobe/torch_monitor.h"
#include "torch/device_meters.h"
#include "torch/device_summary.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

using monitor::Frame;
using monitor::Row;

monitor::Row row_of(const TensorMeter::Item& item, std::uint32_t call) {
  Row row;
  row.label = item.label;
  row.micro_step = item.micro_step;
  row.call = call;
  row.missing = !item.tensor.defined();
  return row;
}

void set_layout(Row& row, const at::Tensor& tensor) {
  row.dtype = dtype_of(tensor.scalar_type()).value_or(DType::kFloat32);
  if (!tensor.is_nested()) row.shape = tensor.sizes().vec();
}

}  // namespace

struct TensorMeter::State {
  // A row whose numbers are still on a device.
  struct Pending {
    Frame* frame;
    std::size_t place;
    Launched launched;
  };

  struct PendingCounts {
    Frame* frame;
    std::uint32_t label;
    at::Tensor counts;
    double capacity;
  };

  explicit State(Options wanted)
      : options(std::move(wanted)),
        pool(options.threads != 0 ? options.threads
                                  : static_cast<unsigned>(std::max(1, at::get_num_threads()))) {
    request.powers = options.powers;
    request.small = options.eps;
    asked = device::kCounts;
    if (options.powers) asked |= device::kPowers;
  }

  // What can be read of a tensor; undefined: nothing.
  at::Tensor readable(const at::Tensor& tensor) const {
    at::Tensor local = tensor;
    if (runs_in_python(tensor)) local = options.local_of ? options.local_of(tensor) : at::Tensor();
    if (!local.defined() || !why_unreadable(local).empty()) return {};
    return resolved(local);
  }

  Measured measured(const at::Tensor& tensor) const {
    const bool narrow =
        tensor.scalar_type() != at::kDouble && !at::isIntegralType(tensor.scalar_type(), true);
    const double small = narrow ? static_cast<float>(request.small) : request.small;
    return {.tensor = tensor, .wanted = asked, .small = small};
  }

  ThreadPool* pool_for(std::int64_t elements) { return elements >= kElementsForThreads ? &pool : nullptr; }

  Options options;
  stats::SummaryOptions request;
  device::Word asked = 0;
  ThreadPool pool;
  std::mutex mutex;
  std::vector<Pending> pending;
  std::vector<PendingCounts> pending_counts;
};

TensorMeter::TensorMeter(Options options) : state_(std::make_unique<State>(std::move(options))) {}
TensorMeter::~TensorMeter() = default;

void TensorMeter::measure(Frame& frame, std::span<const Item> items, monitor::CallCounter* calls) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  std::vector<Row> rows;
  std::vector<at::Tensor> kept;  // what the views point into
  std::vector<stats::Request> requests;
  std::vector<std::size_t> requested;  // rows
  std::vector<Measured> elsewhere;
  std::vector<std::size_t> of_elsewhere;  // rows
  rows.reserve(items.size());
  kept.reserve(items.size());
  std::int64_t elements = 0;
  for (const Item& item : items) {
    Row& row = rows.emplace_back(row_of(item, calls != nullptr ? calls->next() : 0));
    if (row.missing) continue;
    try {
      set_layout(row, item.tensor);
      const at::Tensor& tensor = kept.emplace_back(state_->readable(item.tensor));
      if (!tensor.defined()) row.sums.squares = std::numeric_limits<double>::quiet_NaN();  // unknown, not 0
      if (!tensor.defined() || tensor.numel() == 0) continue;
      if (is_elsewhere(tensor)) {
        elsewhere.push_back(state_->measured(tensor));
        of_elsewhere.push_back(rows.size() - 1);
      } else {
        requests.push_back({view_of_plain(tensor), state_->request});
        requested.push_back(rows.size() - 1);
        elements += tensor.numel();
      }
    } catch (const std::exception& e) {
      log(LogLevel::kWarning, std::string("monitor: a tensor is not measured: ") + e.what());
    }
  }
  const std::vector<stats::Summary> summaries = stats::summarize_all(requests, state_->pool_for(elements));
  for (std::size_t i = 0; i < summaries.size(); ++i) rows[requested[i]].sums = monitor::sums_of(summaries[i]);
  for (const Row& row : rows) frame.add(row);
  if (elsewhere.empty()) return;
  try {
    std::vector<Launched> launched = launch(elsewhere);
    const std::lock_guard lock(state_->mutex);
    for (std::size_t i = 0; i < launched.size(); ++i) {
      const Row& row = rows[of_elsewhere[i]];
      state_->pending.push_back({&frame, frame.position(row.label, row.micro_step), std::move(launched[i])});
    }
  } catch (const std::exception& e) {
    log(LogLevel::kWarning, std::string("monitor: tensors of a device are not measured: ") + e.what());
  }
}

void TensorMeter::measure_counts(Frame& frame, std::uint32_t label, const at::Tensor& counts,
                                 double capacity) {
  const std::lock_guard lock(state_->mutex);
  state_->pending_counts.push_back({&frame, label, counts.detach(), capacity});
}

monitor::Sums TensorMeter::sums_of(const at::Tensor& tensor) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  if (!tensor.defined()) return {};
  const at::Tensor local = state_->readable(tensor);
  if (!local.defined() || local.numel() == 0) return {};
  if (!is_elsewhere(local)) {
    const stats::Request request{view_of_plain(local), state_->request};
    return monitor::sums_of(stats::summarize_all({&request, 1}, state_->pool_for(local.numel())).front());
  }
  const Measured one = state_->measured(local);
  const std::vector<Launched> launched = launch({&one, 1});
  collect_results();
  return monitor::sums_of(torch_adapter::fetch(launched).front().summary);
}

std::vector<stats::PairSums> TensorMeter::pairs(std::span<const at::Tensor> left,
                                                std::span<const at::Tensor> right) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  const std::size_t size = std::min(left.size(), right.size());
  std::vector<stats::PairSums> found(size);
  std::vector<at::Tensor> kept;
  std::vector<stats::Pair> here;
  std::vector<std::size_t> of_here;
  std::vector<at::Tensor> left_elsewhere, right_elsewhere;
  std::vector<std::size_t> of_elsewhere;
  kept.reserve(2 * size);
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (!left[i].defined() || !right[i].defined()) continue;
    try {
      const at::Tensor& x = kept.emplace_back(state_->readable(left[i]));
      const at::Tensor& y = kept.emplace_back(state_->readable(right[i]));
      if (!x.defined() || !y.defined() || x.numel() != y.numel() || x.is_complex() || y.is_complex())
        continue;
      if (x.numel() == 0) continue;
      if (!is_elsewhere(x) && !is_elsewhere(y) && x.sizes() == y.sizes()) {
        here.push_back({view_of_plain(x), view_of_plain(y)});
        of_here.push_back(i);
        elements += x.numel();
      } else {
        left_elsewhere.push_back(x);
        right_elsewhere.push_back(y.to(x.device()).view_as(x));
        of_elsewhere.push_back(i);
      }
      found[i].count = x.numel();
    } catch (const std::exception& e) {
      found[i] = {};
      log(LogLevel::kWarning, std::string("monitor: two tensors are not measured: ") + e.what());
    }
  }
  const std::vector<stats::PairSums> sums = stats::pair_sums(here, state_->pool_for(elements));
  for (std::size_t i = 0; i < sums.size(); ++i) found[of_here[i]] = sums[i];
  const std::vector<FetchedPair> fetched = fetch_pairs(left_elsewhere, right_elsewhere, 0);
  for (std::size_t i = 0; i < fetched.size(); ++i)
    found[of_elsewhere[i]] = torch_adapter::sums_of(fetched[i]);
  return found;
}

void TensorMeter::measure_pairs(Frame& frame, std::span<const std::uint32_t> labels,
                                std::span<const at::Tensor> left, std::span<const at::Tensor> right) {
  const std::vector<stats::PairSums> sums = pairs(left, right);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].count == 0) continue;
    monitor::Row row;
    row.label = labels[i];
    row.kind = monitor::Kind::kPair;
    row.sums = monitor::sums_of(sums[i]);
    frame.add(std::move(row));
  }
}

void TensorMeter::fetch() {
  const OutOfSight out_of_sight;
  std::vector<State::Pending> pending;
  std::vector<State::PendingCounts> counts;
  {
    const std::lock_guard lock(state_->mutex);
    pending.swap(state_->pending);
    counts.swap(state_->pending_counts);
  }
  for (const State::PendingCounts& one : counts) {
    const at::Tensor host = one.counts.to(at::kCPU, at::kDouble).contiguous();
    Row row;
    row.label = one.label;
    row.kind = monitor::Kind::kCounts;
    row.capacity = one.capacity;
    row.counts.assign(host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel());
    one.frame->add(std::move(row));
  }
  if (pending.empty()) return;
  try {
    std::vector<Launched> launched;
    launched.reserve(pending.size());
    for (State::Pending& one : pending) launched.push_back(std::move(one.launched));
    collect_results();
    const std::vector<Fetched> fetched = torch_adapter::fetch(launched);
    for (std::size_t i = 0; i < pending.size(); ++i) {
      pending[i].frame->fill(pending[i].place, monitor::sums_of(fetched[i].summary));
    }
  } catch (const std::exception& e) {
    log(LogLevel::kWarning, std::string("monitor: measurements of a device are lost: ") + e.what());
  }
}

}  // namespace msprobe::torch_adapter
