// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/parameter_pairs.h"

#include "graph/dotted_name.h"
#include "trace/item/type_name.h"

namespace msprobe::graph {

bool is_shown_as_text(const Parameter& parameter) {
  if (parameter.item->kind != trace::Item::Kind::kValue) return false;
  if (trace::is_process_group_type(parameter.trace->text(parameter.item->type))) return true;
  const std::string_view name = last_part(parameter.trace->text(parameter.item->path));
  return name == "src" || name == "dst" || name == "group_src" || name == "group_dst";
}

trace::StatisticsPair statistics_of(const Parameter& parameter, const Parameter* other) {
  trace::StatisticsPair pair = trace::compare_statistics(*parameter.trace, *parameter.item,
                                                         other == nullptr ? *parameter.trace : *other->trace,
                                                         other == nullptr ? nullptr : other->item);
  const bool ours_are_text = is_shown_as_text(parameter);
  const bool theirs_are_text = other != nullptr && is_shown_as_text(*other);
  const bool are_merged = parameter.merged || (other != nullptr && other->merged);
  if (!are_merged && !ours_are_text && !theirs_are_text) return pair;
  const auto replace = [](const Parameter& by, bool are_text, trace::StatisticNumbers& numbers) {
    if (are_text) numbers = {};
    if (by.merged) numbers = {(*by.merged)[0], (*by.merged)[1], (*by.merged)[2], (*by.merged)[3]};
  };
  replace(parameter, ours_are_text, pair.target_numbers);
  if (other != nullptr) replace(*other, theirs_are_text, pair.reference_numbers);
  pair.differences = trace::subtract(pair.target_numbers, pair.reference_numbers);
  return pair;
}

}  // namespace msprobe::graph
