// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/meter.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/items.h"
#include "device/pinned_pool.h"
#include "msprobe/error.h"

namespace msprobe::device {
namespace {

// Of one stream: results that wait for their copy, and partial results of one launch. With its tickets a
// stream takes 1.5 MB.
constexpr std::size_t kResults = 2048;
constexpr std::size_t kBlocks = 4096;
constexpr std::size_t kItems = 1024;
constexpr std::size_t kStreams = 8;
constexpr std::size_t kBytes = kFields * sizeof(Long);
constexpr std::size_t kPinnedBytes = kResults * kBytes;  // of a batch each
static_assert(kItems * sizeof(Item) <= kPinnedBytes);    // both come from one pool
static_assert(kStreams * ((kResults + kBlocks) * kBytes + kItems * sizeof(Word)) + SignsToHost::kBytes <=
              Meter::kMostBytes);

}  // namespace

// The results of one stream between two copies.
class Batch {
 public:
  explicit Batch(std::shared_ptr<PinnedPool> pool) : pool_(std::move(pool)) {}
  // Its items are read no more when its results have come; those of one that was not waited for are let go.
  ~Batch() {
    if (is_read_) {
      for (std::shared_ptr<void>& items : items_) pool_->give(std::move(items), kPinnedBytes, nullptr);
    }
    if (host_) pool_->give(std::move(host_), kPinnedBytes, std::move(mark_));
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void keep(std::shared_ptr<void> items) { items_.push_back(std::move(items)); }

  void come_to(std::shared_ptr<void> host, std::unique_ptr<Mark> mark) {
    host_ = std::move(host);
    mark_ = std::move(mark);
  }

  std::array<Long, kFields> words(std::size_t index) {
    if (!mark_) throw UnsupportedError("measure: results are read before they were collected");
    if (!is_read_) pool_->waits().wait_for(*mark_);
    is_read_ = true;
    std::array<Long, kFields> found;
    std::memcpy(found.data(), static_cast<const std::byte*>(host_.get()) + index * kBytes, kBytes);
    return found;
  }

 private:
  std::shared_ptr<PinnedPool> pool_;
  std::vector<std::shared_ptr<void>> items_;  // which kernels may still read
  std::shared_ptr<void> host_;
  std::unique_ptr<Mark> mark_;
  std::atomic<bool> is_read_ = false;
};

std::array<Long, kFields> Result::words() const { return batch_->words(index_); }

struct Meter::OfStream {
  std::shared_ptr<void> results;
  std::shared_ptr<void> partial;
  std::shared_ptr<void> tickets;
  std::size_t used = 0;          // results
  std::shared_ptr<Batch> batch;  // null: there are none
};

Meter::Meter(std::unique_ptr<Device> device)
    : device_(std::move(device)),
      waits_(std::make_shared<Waits>()),
      pool_(std::make_shared<PinnedPool>(waits_)),
      to_host_(waits_),
      signs_(waits_) {}
Meter::~Meter() = default;

bool Meter::takes_stream(Stream stream) {
  const std::lock_guard lock(mutex_);
  return streams_.contains(stream) || streams_.size() < kStreams;
}

Meter::OfStream& Meter::of(Stream stream) {
  std::unique_ptr<OfStream>& found = streams_[stream];
  if (found) return *found;
  if (streams_.size() > kStreams) {
    streams_.erase(stream);
    throw UnsupportedError("measure: more than " + std::to_string(kStreams) + " streams of one device");
  }
  auto made = std::make_unique<OfStream>();
  made->results = device_->memory(stream, kResults * kBytes);
  made->partial = device_->memory(stream, kBlocks * kBytes);
  made->tickets = device_->memory(stream, kItems * sizeof(Word));
  found = std::move(made);
  return *found;
}

std::vector<Result> Meter::launch(Stream stream, std::span<const Request> requests) {
  if (device_->is_capturing(stream)) throw UnsupportedError("measure: the stream is captured into a graph");
  const std::lock_guard lock(mutex_);
  OfStream& state = of(stream);
  std::vector<Result> results;
  std::vector<Item> items;
  results.reserve(requests.size());
  std::size_t blocks = 0;
  const auto flush = [&] {
    if (!items.empty()) launch_some(stream, state, items);
    items.clear();
    blocks = 0;
  };
  for (const Request& request : requests) {
    Item item = item_of(request, std::max<Word>(device_->blocks_at_once(), position::kLanes));
    if (items.size() == kItems || blocks + item.blocks > kBlocks) flush();
    if (state.used == kResults) {
      flush();
      collect(stream, state);
    }
    if (!state.batch) state.batch = std::make_shared<Batch>(pool_);
    item.result = static_cast<Word>(state.used);
    item.first_block = static_cast<Word>(blocks);
    blocks += item.blocks;
    results.emplace_back(state.batch, state.used++);
    items.push_back(item);
  }
  flush();
  return results;
}

void Meter::launch_some(Stream stream, OfStream& state, std::span<const Item> items) {
  Table table{};
  table.results = static_cast<Long*>(state.results.get());
  table.partial = static_cast<Long*>(state.partial.get());
  table.tickets = static_cast<Word*>(state.tickets.get());
  if (auto far = set_items(table, items, *device_, *pool_, kPinnedBytes)) state.batch->keep(std::move(far));
  device_->launch(stream, table, items.back().first_block + items.back().blocks);
  ++work_.launches;
  work_.tensors += items.size();
}

void Meter::bring_to_host(Stream stream, void* to, const std::function<void(const ToHost::Add&)>& pieces) {
  auto* place = static_cast<std::byte*>(to);
  to_host_.bring(*device_, stream, pieces, [&place](const std::byte* from, std::size_t bytes) {
    std::memcpy(place, from, bytes);
    place += bytes;
  });
}

std::unique_ptr<ComingSigns> Meter::bring_signs(Stream stream, std::span<const Signs> tensors) {
  std::size_t launches = 0;
  std::unique_ptr<ComingSigns> coming = signs_.begin(*device_, stream, tensors, launches);
  const std::lock_guard lock(mutex_);
  work_.launches += launches;
  return coming;
}

Meter::Work Meter::work() {
  const std::lock_guard lock(mutex_);
  Work work = work_;
  work.waits = waits_->count();
  return work;
}

void Meter::collect() {
  const std::lock_guard lock(mutex_);
  for (const auto& [stream, state] : streams_) {
    if (state->batch && !device_->is_capturing(stream)) collect(stream, *state);
  }
}

void Meter::collect(Stream stream, OfStream& state) {
  const std::shared_ptr<void> host = pool_->take(*device_, kPinnedBytes).first;
  device_->copy_to_host(stream, host.get(), state.results.get(), state.used * kBytes);
  state.batch->come_to(host, device_->mark(stream));
  state.batch.reset();
  state.used = 0;
}

// ------------------------------------------------------------------------------------------------- summaries

stats::Summary summary_of(const std::array<Long, kFields>& words, DType dtype, std::int64_t count,
                          Word wanted) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto real = [&](Word field) { return as_double(words[field]); };
  const auto integer = [&](Word field) { return static_cast<std::int64_t>(words[field]); };
  stats::Summary summary;
  summary.count = count;
  summary.nan_count = integer(kNaN);
  summary.pos_inf_count = integer(kPosInf);
  summary.neg_inf_count = integer(kNegInf);
  const bool has_nan = summary.nan_count > 0;
  const bool above = summary.pos_inf_count > 0, below = summary.neg_inf_count > 0;
  const bool any = has_nan || above || below;
  // Infinities count as the largest values: where both are, their sum is no number.
  summary.sum = has_nan || (above && below) ? nan : above ? infinity : below ? -infinity : real(kSum);
  summary.squares = has_nan ? nan : any ? infinity : real(kSquares);
  summary.norm = std::sqrt(summary.squares);
  summary.mean = summary.sum / static_cast<double>(count);
  if (!is_complex(dtype) || (wanted & kAbsolutes) != 0) {
    summary.min = has_nan ? nan : below ? -infinity : std::min(real(kMin), above ? infinity : real(kMin));
    summary.max = has_nan ? nan : above ? infinity : std::max(real(kMax), below ? -infinity : real(kMax));
  }
  if (is_complex(dtype) && (wanted & kAbsolutes) == 0) {
    summary.mean_imag = (has_nan ? nan : real(kImaginary)) / static_cast<double>(count);
  }
  if ((wanted & kPowers) != 0) {
    summary.sum_abs = has_nan ? nan : any ? infinity : real(kAbsolute);
    summary.fourth_powers = has_nan ? nan : any ? infinity : real(kFourth);
  }
  if ((wanted & kCounts) != 0) {
    summary.zero_count = integer(kZeros);
    summary.small_count = integer(kSmall);
  }
  if ((wanted & kSketches) == 0) return summary;
  stats::Sketch& sketch = summary.sketch.emplace();
  for (std::size_t k = 0; k < stats::Sketch::kSums; ++k)
    sketch.sums[k] = real(static_cast<Word>(kSketch + k));
  sketch.digest = words[kDigest];
  const std::int64_t finite = count - summary.nan_count - summary.pos_inf_count - summary.neg_inf_count;
  if (finite == 0) return summary;
  const double parts = is_complex(dtype) ? 2 : 1;
  const double sum_of_parts = (wanted & kAbsolutes) != 0 ? real(kImaginary) : real(kSum) + real(kImaginary);
  sketch.mean = sum_of_parts / (parts * static_cast<double>(finite));
  sketch.norm = std::sqrt(real(kSquares));
  if (!is_complex(dtype)) {
    sketch.min = real(kMin);
    sketch.max = real(kMax);
  }
  return summary;
}

}  // namespace msprobe::device
