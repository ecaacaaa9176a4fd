// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/rank_numbers.h"

#include <algorithm>
#include <charconv>

namespace msprobe::trace {

std::optional<int> whole_number(std::string_view text) noexcept {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_of("0123456789");
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    if (const auto number = whole_number(text.substr(begin, end - begin))) numbers.push_back(*number);
    text.remove_prefix(end);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace msprobe::trace
