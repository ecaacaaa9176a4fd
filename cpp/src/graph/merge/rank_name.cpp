// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/rank_name.h"

#include <charconv>
#include <optional>

#include "graph/dotted_name.h"
#include "msprobe/graph.h"

namespace msprobe::graph {
namespace {

constexpr std::string_view kMark = "_rank";

// Where the second part ends.
std::size_t end_of_second(std::string_view name) {
  const std::size_t first = name.find('.');
  const std::size_t second = first == std::string_view::npos ? first : name.find('.', first + 1);
  return second == std::string_view::npos ? name.size() : second;
}

struct Mark {
  std::size_t begin = 0;  // of the digits
  std::size_t end = 0;
  int rank = 0;
};

std::optional<Mark> find_mark(std::string_view name) {
  const std::size_t end = end_of_second(name);
  const std::size_t mark = name.substr(0, end).rfind(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  Mark result = {.begin = mark + kMark.size(), .end = end};
  const std::string_view digits = name.substr(result.begin, end - result.begin);
  if (!is_number(digits)) return std::nullopt;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result.rank);
  return error == std::errc() ? std::optional(result) : std::nullopt;
}

}  // namespace

std::string with_rank(std::string_view name, int rank) {
  std::string result(name);
  if (find_mark(name)) return result;
  return result.insert(end_of_second(name), std::string(kMark) + std::to_string(rank));
}

std::string with_other_rank(std::string_view name, const std::function<int(int)>& other) {
  std::string result(name);
  if (const auto mark = find_mark(name)) {
    result.replace(mark->begin, mark->end - mark->begin, std::to_string(other(mark->rank)));
  }
  return result;
}

}  // namespace msprobe::graph
