// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "msprobe/config.h"

namespace msprobe::config {
namespace {

// Letters to change, to add, to leave out or to exchange with the next one, to get from one word to the
// other.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before_last(to.size() + 1);
  std::vector<std::size_t> last(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t changed = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[to.size()];
}

}  // namespace

std::string closest_word(std::string_view word, std::span<const std::string> known, double share) {
  std::string closest;
  auto least = static_cast<double>(word.size()) + 1;
  for (const std::string& one : known) {
    const auto longest = static_cast<double>(std::max(word.size(), one.size()));
    const auto shortest = static_cast<double>(std::min(word.size(), one.size()));
    const double most = std::min(share * longest, least - 1);
    if (longest - shortest > most) continue;
    const auto letters = static_cast<double>(distance(word, one));
    if (letters > most) continue;
    least = letters;
    closest = one;
  }
  return closest;
}

}  // namespace msprobe::config
