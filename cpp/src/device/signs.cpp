// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/signs.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "device/items.h"
#include "device/meter.h"
#include "device/pinned_pool.h"
#include "msprobe/error.h"

namespace msprobe::device {
namespace {

constexpr std::size_t kWordsOfPiece = SignsToHost::kBytes / sizeof(Word);
constexpr std::size_t kItemsOfSigns = 1024;  // of one launch
constexpr std::size_t kTableBytes = kItemsOfSigns * sizeof(Item);

std::size_t bytes_of_signs(std::span<const Signs> tensors) {
  std::size_t words = 0;
  for (const Signs& tensor : tensors) {
    words += (static_cast<std::size_t>(element_count(tensor.view)) + kWordBits - 1) / kWordBits;
  }
  return words * sizeof(Word);
}

}  // namespace

ComingSigns::ComingSigns(std::shared_ptr<PinnedPool> bits, std::shared_ptr<PinnedPool> tables)
    : bits_pool_(std::move(bits)), tables_pool_(std::move(tables)) {}

// Tables of kernels that nobody waited for are let go.
ComingSigns::~ComingSigns() {
  if (!memory_) return;
  if (pieces_.empty()) {
    for (std::shared_ptr<void>& table : tables_) tables_pool_->give(std::move(table), kTableBytes, nullptr);
  }
  bits_pool_->give(std::move(memory_), capacity_, pieces_.empty() ? nullptr : std::move(pieces_.back().mark));
}

void ComingSigns::empty_first() {
  const Piece& piece = pieces_.front();
  bits_pool_->waits().wait_for(*piece.mark);
  const std::byte* from = static_cast<const std::byte*>(memory_.get()) + piece.from;
  for (const Part& part : piece.parts) {
    std::memcpy(part.to, from, part.bytes);
    from += part.words * sizeof(Word);
  }
  pieces_.pop_front();
}

void ComingSigns::finish() {
  while (!pieces_.empty()) empty_first();
}

// Behind the newest piece, or at the start again; older ones that lie there are emptied.
std::byte* ComingSigns::room_for(std::size_t bytes) {
  if (end_ + bytes > capacity_) {
    while (!pieces_.empty() && pieces_.front().from >= end_) empty_first();
    end_ = 0;
  }
  while (!pieces_.empty() && pieces_.front().from >= end_ && pieces_.front().from < end_ + bytes) {
    empty_first();
  }
  return static_cast<std::byte*>(memory_.get()) + end_;
}

SignsToHost::SignsToHost(std::shared_ptr<Waits> waits, std::size_t most_on_host)
    : waits_(std::move(waits)),
      most_on_host_(std::max(most_on_host, kBytes)),
      bits_pool_(std::make_shared<PinnedPool>(waits_)),
      tables_pool_(std::make_shared<PinnedPool>(waits_)) {}

std::unique_ptr<ComingSigns> SignsToHost::begin(Device& device, Stream stream, std::span<const Signs> tensors,
                                                std::size_t& launches) {
  if (device.is_capturing(stream)) throw UnsupportedError("signs: the stream is captured into a graph");
  const std::lock_guard lock(mutex_);
  auto coming = std::make_unique<ComingSigns>(bits_pool_, tables_pool_);
  const std::size_t all = bytes_of_signs(tensors);
  if (all == 0) return coming;
  std::tie(coming->memory_, coming->capacity_) = bits_pool_->take(device, std::min(all, most_on_host_));
  if (!words_) words_ = device.memory(stream, kBytes);
  if (last_ && last_stream_ != stream) waits_->wait_for(*last_);
  auto* const words = static_cast<Word*>(words_.get());
  std::vector<Item> items;
  std::vector<ComingSigns::Part> parts;
  std::size_t used = 0;
  const auto flush = [&] {
    if (items.empty()) return;
    Table table{};
    Word blocks = 0;
    for (Item& item : items) {
      item.first_block = blocks;
      blocks += item.blocks;
    }
    if (auto far = set_items(table, items, device, *tables_pool_, kTableBytes)) {
      coming->tables_.push_back(std::move(far));
    }
    device.launch(stream, table, blocks);
    ++launches;
    const std::size_t bytes = used * sizeof(Word);
    std::byte* const to = coming->room_for(bytes);
    device.copy_to_host(stream, to, words, bytes);
    coming->pieces_.push_back({coming->end_, bytes, device.mark(stream), std::move(parts)});
    coming->end_ += bytes;
    items.clear();
    parts.clear();
    used = 0;
  };
  for (const Signs& tensor : tensors) {
    const auto count = static_cast<Long>(element_count(tensor.view));
    std::uint8_t* to = tensor.to.data();
    for (Long first = 0; first < count;) {
      if (used == kWordsOfPiece || items.size() == kItemsOfSigns) flush();
      const Long some = std::min<Long>(count - first, (kWordsOfPiece - used) * kWordBits);
      const Request request{.view = tensor.view, .wanted = kSigns, .signs = {words + used, first, some}};
      items.push_back(item_of(request, device.blocks_at_once()));
      const ComingSigns::Part part{to, static_cast<std::size_t>((some + 7) / 8),
                                   static_cast<std::size_t>((some + kWordBits - 1) / kWordBits)};
      parts.push_back(part);
      used += part.words;
      to += part.bytes;
      first += some;
    }
  }
  flush();
  last_ = device.mark(stream);
  last_stream_ = stream;
  return coming;
}

}  // namespace msprobe::device
