// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text_order.h"

#include <algorithm>

namespace msprobe {
namespace {

constexpr std::size_t kStep = 8;

struct Item {
  std::uint64_t bytes;  // the next of the text, as a number; zeros after its end
  std::uint32_t number;
  std::uint32_t length;  // how many of them the text has
};

Item item_at(std::string_view text, std::size_t depth, std::uint32_t number) {
  const std::string_view next = text.substr(std::min(depth, text.size()), kStep);
  Item item{.bytes = 0, .number = number, .length = static_cast<std::uint32_t>(next.size())};
  for (const char c : next) item.bytes = item.bytes << 8 | static_cast<unsigned char>(c);
  if (!next.empty()) item.bytes <<= 8 * (kStep - next.size());
  return item;
}

// Some items that are equal up to `depth`.
struct Part {
  std::size_t begin, end, depth;
};

}  // namespace

std::vector<std::uint32_t> text_order(std::span<const std::string_view> texts) {
  std::vector<Item> items;
  items.reserve(texts.size());
  for (std::uint32_t i = 0; i < texts.size(); ++i) items.push_back(item_at(texts[i], 0, i));
  const auto key = [](const Item& item) { return std::pair(item.bytes, item.length); };
  std::vector<Part> open = {{0, items.size(), 0}};
  while (!open.empty()) {
    const Part part = open.back();
    open.pop_back();
    const std::span some = std::span(items).subspan(part.begin, part.end - part.begin);
    const auto less = [&](const Item& a, const Item& b) {
      return std::pair(key(a), a.number) < std::pair(key(b), b.number);
    };
    if (!std::is_sorted(some.begin(), some.end(), less)) std::sort(some.begin(), some.end(), less);
    for (std::size_t i = part.begin; i < part.end;) {
      std::size_t end = i + 1;
      while (end < part.end && key(items[end]) == key(items[i])) ++end;
      if (end - i > 1 && items[i].length == kStep) {
        const std::size_t depth = part.depth + kStep;
        for (std::size_t j = i; j < end; ++j)
          items[j] = item_at(texts[items[j].number], depth, items[j].number);
        open.push_back({i, end, depth});
      }
      i = end;
    }
  }
  std::vector<std::uint32_t> order;
  order.reserve(items.size());
  for (const Item& item : items) order.push_back(item.number);
  return order;
}

}  // namespace msprobe
