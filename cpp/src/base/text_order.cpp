// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text_order.h"

#include <algorithm>
#include <utility>

namespace msprobe {
namespace {

constexpr std::size_t kStep = 8;

struct Item {
  std::uint64_t bytes = 0;  // the next of the text, as a number; zeros after its end
  std::uint32_t number = 0;
  std::uint32_t length = 0;  // how many of them the text has
};

std::uint64_t number_of(std::string_view bytes, std::size_t count) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < count; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

void load(Item& item, std::string_view text, std::size_t depth) {
  text.remove_prefix(depth);
  item.length = static_cast<std::uint32_t>(std::min(text.size(), kStep));
  // With a fixed count this is one instruction.
  item.bytes = text.size() >= kStep ? number_of(text, kStep)
               : text.empty()       ? 0
                                    : number_of(text, text.size()) << 8 * (kStep - text.size());
}

bool is_before(const Item& a, const Item& b) {
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  return std::pair(a.length, a.number) < std::pair(b.length, b.number);
}

// Some items whose texts are equal up to `depth`.
struct Part {
  std::size_t begin, end, depth;
};

class Order {
 public:
  explicit Order(std::span<const std::string_view> texts) : texts_(texts), items_(texts.size()) {
    for (std::uint32_t i = 0; i < texts.size(); ++i) items_[i].number = i;
    if (texts.size() > 1) open_.push_back({0, texts.size(), 0});
  }

  std::vector<Item> sort() {
    while (!open_.empty()) {
      const Part part = open_.back();
      open_.pop_back();
      sort(part);
    }
    return std::move(items_);
  }

 private:
  void sort(const Part& part) {
    const auto items = std::span(items_).subspan(part.begin, part.end - part.begin);
    const std::size_t depth = common_length(items, part.depth);
    for (Item& item : items) load(item, texts_[item.number], depth);
    if (!std::is_sorted(items.begin(), items.end(), is_before)) {
      std::sort(items.begin(), items.end(), is_before);
    }
    for (std::size_t begin = part.begin, end = begin; begin < part.end; begin = end) {
      const Item& first = items_[begin];
      while (end < part.end && items_[end].bytes == first.bytes && items_[end].length == first.length) ++end;
      if (end - begin > 1 && first.length == kStep) open_.push_back({begin, end, depth + kStep});
    }
  }

  // How many bytes are the same in all texts.
  std::size_t common_length(std::span<const Item> items, std::size_t depth) const {
    std::string_view common = texts_[items.front().number].substr(depth);
    for (const Item& item : items.subspan(1)) {
      const std::string_view text = texts_[item.number].substr(depth, common.size());
      if (text == common) continue;
      const auto differing = std::mismatch(text.begin(), text.end(), common.begin());
      common = common.substr(0, static_cast<std::size_t>(differing.first - text.begin()));
      if (common.empty()) break;
    }
    return depth + common.size();
  }

  std::span<const std::string_view> texts_;
  std::vector<Item> items_;
  std::vector<Part> open_;
};

}  // namespace

std::vector<std::uint32_t> text_order(std::span<const std::string_view> texts) {
  const std::vector<Item> items = Order(texts).sort();
  std::vector<std::uint32_t> order;
  order.reserve(items.size());
  for (const Item& item : items) order.push_back(item.number);
  return order;
}

}  // namespace msprobe
