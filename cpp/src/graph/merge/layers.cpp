// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/layers.h"

#include <map>

#include "graph/dotted_name.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {

std::optional<LayerName> parse_layer(std::string_view module) {
  const std::string_view path = trace::RecordName(module).place();
  const std::string_view number = last_part(path), list = without_parts(path, 1);
  if (!is_number(number) || !(list.ends_with("layers") || list.ends_with("layer"))) return std::nullopt;
  return LayerName{.list = path.substr(0, list.size() + 1), .number = number};
}

std::vector<std::size_t> running_numbers(const std::vector<LayerCall>& calls, bool backward) {
  std::map<std::string, std::map<std::string, std::size_t>> lists;
  std::vector<std::size_t> numbers(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t at = backward ? calls.size() - 1 - i : i;
    auto& list = lists[calls[at].list];
    numbers[at] = list.try_emplace(calls[at].identity, list.size()).first->second;
  }
  return numbers;
}

}  // namespace msprobe::graph
