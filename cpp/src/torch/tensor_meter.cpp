// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/log.h"
#include "msprobe/thread_pool.h"
#include "msprobe/torch.h"
#include "msprobe/torch_monitor.h"
#include "torch/device_meters.h"
#include "torch/device_summary.h"
#include "torch/host_copy.h"
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

// Of counts on the host.
Row row_of_counts(std::uint32_t label, std::vector<double> counts, double capacity) {
  Row row;
  row.label = label;
  row.kind = monitor::Kind::kCounts;
  row.capacity = capacity;
  row.counts = std::move(counts);
  return row;
}

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

// Pairs of two lists: those of the host, and those that are on their way.
struct Pairs {
  std::vector<stats::PairSums> sums;
  std::vector<std::size_t> of_launched;  // places in sums, in order; of pieces the same several times
  std::vector<LaunchedPair> launched;
};

// Pairs of which the host keeps one side: that comes to the device of the other a few pieces at a time, into
// memory that its stream uses again.
class KeptPairs {
 public:
  static constexpr std::size_t kBytes = device::ToHost::kBytes;  // of the device at a time

  static_assert(device::Meter::kMostBytes + kBytes <= std::size_t{16} << 20);

  explicit KeptPairs(Pairs& to) : to_(to) {}

  void add(const at::Tensor& kept, const at::Tensor& now, std::size_t place) {
    const at::Tensor flat = kept.view({-1});
    // Pieces of a tensor with gaps are copies of their own.
    const std::size_t each = kept.element_size() + (now.is_contiguous() ? 0 : now.element_size());
    for_pieces(
        now, static_cast<std::int64_t>(kBytes / each), [&](const at::Tensor& piece, std::int64_t first) {
          const std::size_t bytes = static_cast<std::size_t>(piece.numel()) * each;
          if (bytes_ + bytes > kBytes || (!right_.empty() && piece.device() != right_.front().device()))
            launch();
          left_.push_back(
              flat.slice(0, first, first + piece.numel()).to(piece.device(), /*non_blocking=*/true));
          right_.push_back(piece);
          places_.push_back(place);
          bytes_ += bytes;
        });
  }

  void launch() {
    const std::vector<at::Tensor> left = std::exchange(left_, {}), right = std::exchange(right_, {});
    const std::vector<std::size_t> places = std::exchange(places_, {});
    bytes_ = 0;
    std::vector<LaunchedPair> launched = launch_pairs(left, right, 0);
    std::move(launched.begin(), launched.end(), std::back_inserter(to_.launched));
    to_.of_launched.insert(to_.of_launched.end(), places.begin(), places.end());
  }

 private:
  Pairs& to_;
  std::vector<at::Tensor> left_, right_;
  std::vector<std::size_t> places_;
  std::size_t bytes_ = 0;
};

// Rows of a frame whose numbers are still on devices.
class PendingRows final : public monitor::Pending {
 public:
  static PendingRows& of(Frame& frame) {
    // Nobody else makes any.
    return static_cast<PendingRows&>(frame.pending([] { return std::make_unique<PendingRows>(); }));
  }

  void add(std::size_t place, Launched launched) {
    const std::lock_guard lock(mutex_);
    places_.push_back(place);
    launched_.push_back(std::move(launched));
  }

  void add(std::size_t place, LaunchedPair launched) {
    const std::lock_guard lock(mutex_);
    places_of_pairs_.push_back(place);
    pairs_.push_back(std::move(launched));
  }

  // Each count as a tensor of its own, where a kernel takes them all by one launch.
  void add_counts(std::uint32_t label, const at::Tensor& counts, double capacity) {
    Counts added{label, capacity, {}, {}};
    if (meter_of(counts.device()) != nullptr) {
      std::vector<Measured> each;
      for (const at::Tensor& one : counts.detach().unbind()) each.push_back({.tensor = one});
      added.launched = launch(each);
    } else {
      added.tensor = counts.detach();
    }
    const std::lock_guard lock(mutex_);
    counts_.push_back(std::move(added));
  }

  void bring() override { collect_results(); }

  void complete(Frame& frame) override {
    const OutOfSight out_of_sight;
    try {
      for (Counts& one : counts_) {
        std::vector<double> numbers;
        for (const Fetched& each : fetch(one.launched)) numbers.push_back(each.summary.sum);
        if (one.tensor.defined()) numbers = numbers_of(one.tensor);
        frame.add(row_of_counts(one.label, std::move(numbers), one.capacity));
      }
      const std::vector<Fetched> fetched = fetch(launched_);
      for (std::size_t i = 0; i < fetched.size(); ++i) {
        frame.fill(places_[i], monitor::sums_of(fetched[i].summary));
      }
      const std::vector<FetchedPair> pairs = fetch(pairs_);
      stats::PairSums sums;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        stats::merge(sums, sums_of(pairs[i]));
        if (i + 1 < pairs.size() && places_of_pairs_[i + 1] == places_of_pairs_[i]) continue;
        frame.fill(places_of_pairs_[i], monitor::sums_of(sums));
        sums = {};
      }
    } catch (const std::exception& e) {
      log(LogLevel::kWarning, std::string("monitor: measurements of a device are lost: ") + e.what());
    }
  }

 private:
  struct Counts {
    std::uint32_t label;
    double capacity;
    std::vector<Launched> launched;
    at::Tensor tensor;  // where there is no kernel
  };
  std::mutex mutex_;
  std::vector<std::size_t> places_, places_of_pairs_;
  std::vector<Launched> launched_;
  std::vector<LaunchedPair> pairs_;
  std::vector<Counts> counts_;
};

}  // namespace

struct TensorMeter::State {
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
    return {.tensor = tensor, .wanted = asked, .small = request.small};
  }

  ThreadPool* pool_for(std::int64_t elements) { return elements >= kElementsForThreads ? &pool : nullptr; }

  Pairs launch_pairs(std::span<const at::Tensor> left, std::span<const at::Tensor> right, bool left_is_kept) {
    const std::size_t size = std::min(left.size(), right.size());
    Pairs all;
    all.sums.resize(size);
    std::vector<at::Tensor> kept;
    std::vector<stats::Pair> here;
    std::vector<std::size_t> of_here;
    std::vector<at::Tensor> left_elsewhere, right_elsewhere;
    KeptPairs of_kept(all);
    kept.reserve(2 * size);
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < size; ++i) {
      if (!left[i].defined() || !right[i].defined()) continue;
      try {
        const at::Tensor& x = kept.emplace_back(readable(left[i]));
        const at::Tensor& y = kept.emplace_back(readable(right[i]));
        if (!x.defined() || !y.defined() || x.numel() != y.numel() || x.is_complex() || y.is_complex())
          continue;
        if (x.numel() == 0) continue;
        if (!is_elsewhere(x) && !is_elsewhere(y) && x.sizes() == y.sizes()) {
          here.push_back({view_of_plain(x), view_of_plain(y)});
          of_here.push_back(i);
          elements += x.numel();
        } else if (left_is_kept) {
          of_kept.add(x, y, i);
        } else {
          left_elsewhere.push_back(x);
          right_elsewhere.push_back(y.to(x.device()).view_as(x));
          all.of_launched.push_back(i);
        }
        all.sums[i].count = x.numel();
      } catch (const std::exception& e) {
        all.sums[i] = {};
        log(LogLevel::kWarning, std::string("monitor: two tensors are not measured: ") + e.what());
      }
    }
    const std::vector<stats::PairSums> sums = stats::pair_sums(here, pool_for(elements));
    for (std::size_t i = 0; i < sums.size(); ++i) all.sums[of_here[i]] = sums[i];
    if (left_is_kept) {
      of_kept.launch();
    } else {
      all.launched = torch_adapter::launch_pairs(left_elsewhere, right_elsewhere, 0);
    }
    return all;
  }

  Options options;
  stats::SummaryOptions request;
  device::Word asked = 0;
  ThreadPool pool;
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
  std::vector<std::size_t> of_elsewhere;  // items
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
  for (Row& row : rows) frame.add(std::move(row));
  if (elsewhere.empty()) return;
  try {
    std::vector<Launched> launched = launch(elsewhere);
    PendingRows& pending = PendingRows::of(frame);
    for (std::size_t i = 0; i < launched.size(); ++i) {
      const Item& item = items[of_elsewhere[i]];
      pending.add(frame.position(item.label, item.micro_step), std::move(launched[i]));
    }
  } catch (const std::exception& e) {
    log(LogLevel::kWarning, std::string("monitor: tensors of a device are not measured: ") + e.what());
  }
}

void TensorMeter::measure_counts(Frame& frame, std::uint32_t label, const at::Tensor& counts,
                                 double capacity) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  if (is_elsewhere(counts)) {
    PendingRows::of(frame).add_counts(label, counts, capacity);
  } else {
    frame.add(row_of_counts(label, numbers_of(counts), capacity));
  }
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
  Pairs all = state_->launch_pairs(left, right, /*left_is_kept=*/false);
  if (!all.launched.empty()) collect_results();
  const std::vector<FetchedPair> fetched = fetch(all.launched);
  for (std::size_t i = 0; i < fetched.size(); ++i) {
    all.sums[all.of_launched[i]] = torch_adapter::sums_of(fetched[i]);
  }
  return std::move(all.sums);
}

void TensorMeter::measure_pairs(Frame& frame, std::span<const std::uint32_t> labels,
                                std::span<const at::Tensor> left, std::span<const at::Tensor> right,
                                bool left_is_kept) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  Pairs all = state_->launch_pairs(left, right, left_is_kept);
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.sums.size(); ++i) {
    const std::size_t first = next;
    while (next < all.of_launched.size() && all.of_launched[next] == i) ++next;
    if (all.sums[i].count == 0) continue;
    monitor::Row row;
    row.label = labels[i];
    row.kind = monitor::Kind::kPair;
    if (first == next) row.sums = monitor::sums_of(all.sums[i]);
    frame.add(std::move(row));
    for (std::size_t k = first; k < next; ++k) {
      PendingRows::of(frame).add(frame.position(labels[i], -1), std::move(all.launched[k]));
    }
  }
}

void TensorMeter::keep(std::vector<at::Tensor>& kept, std::span<const at::Tensor> tensors) const {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  kept.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    try {
      const at::Tensor tensor = tensors[i].defined() ? state_->readable(tensors[i]) : at::Tensor();
      if (tensor.defined()) {
        keep_on_host(kept[i], tensor);
      } else {
        kept[i] = at::Tensor();
      }
    } catch (const std::exception& e) {
      kept[i] = at::Tensor();
      log(LogLevel::kWarning, std::string("monitor: a tensor is not kept: ") + e.what());
    }
  }
}

}  // namespace msprobe::torch_adapter
